//! Tests of texts from Windows, with a byte order mark and CR LF line endings.

use tile_lang::{Sources, check, format, render};

const MARK: char = '\u{feff}';

const PROGRAM: &str = "// A product.
function dense(X[N, K], W[K, U]) -> (Y) {
    Y[n, u: N, U] = +(X[n, k] * W[k, u]); // rows by columns

    // \"quotes\" and more
}
";

/// Returns the text as editors on Windows save it: with the mark, with CR LF, and with both.
fn variants(text: &str) -> [String; 3] {
    let with_cr = text.replace('\n', "\r\n");
    [format!("{MARK}{text}"), with_cr.clone(), format!("{MARK}{with_cr}")]
}

#[test]
fn they_are_programs() {
    for text in variants(PROGRAM) {
        let checked = check(&text);
        assert!(checked.diagnostics.is_empty(), "{text:?}: {:?}", checked.diagnostics);
        assert!(checked.program.is_some());
    }
}

#[test]
fn errors_are_at_the_same_places() {
    let wrong = [
        // Errors on the first line, after the mark, and on later lines.
        "function f(A[N]) -> (B) { B = A + C; }\n".to_owned(),
        "functoin f(A) -> (B) { B = A; }\n".to_owned(),
        PROGRAM.replace("W[k, u]", "V[k, u]"),
        PROGRAM.replace("more\n", "more\n    Z = \"without an end;\n"),
        PROGRAM.replace("more\n", "more\n    Y = ; // é\n"),
    ];
    let rendered =
        |text: &str| render(&check(text).diagnostics, &Sources::new("a.tile", text), false);
    for text in wrong {
        let expected = rendered(&text);
        assert!(expected.contains("a.tile:"), "{expected}");
        for variant in variants(&text) {
            assert_eq!(rendered(&variant), expected, "{variant:?}");
        }
    }
}

/// A byte order mark inside a text is an error.
#[test]
fn a_mark_elsewhere_is_an_error() {
    let text = format!("{PROGRAM}{MARK}");
    assert_eq!(check(&text).diagnostics[0].code, "E0001");
    assert_eq!(check(&format!("{MARK}{MARK}{PROGRAM}")).diagnostics[0].code, "E0001");
}

/// The formatter removes the mark and keeps the line ending of the first line.
#[test]
fn the_layout_keeps_the_ends_of_lines() {
    let [marked, with_cr, both] = variants(PROGRAM);
    assert_eq!(format(&marked).unwrap(), PROGRAM);
    assert_eq!(format(&with_cr).unwrap(), with_cr);
    assert_eq!(format(&both).unwrap(), with_cr);
    let mixed = PROGRAM.replacen("{\n", "{\r\n", 1);
    assert_eq!(format(&mixed).unwrap(), PROGRAM);
    let untidy = with_cr.replace("    Y", "  Y").replace("\r\n\r\n", "\r\n\r\n\r\n");
    assert_eq!(format(&untidy).unwrap(), with_cr);
}
