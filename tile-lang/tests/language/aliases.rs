//! Tests of aliases.

use insta::assert_snapshot;
use tile_lang::{Callee, ast_text, check, check_file, format, parse};

use crate::brief;

const PROGRAM: &str = "
    Block = Conv;  Pool = MaxPool2D;
    model M(X) -> (Y) { Y = X |> Block(8, 3) |> Pool() |> half; }
    layer Conv(filters, kernel_size)(X) -> (Y) { Y = X * filters * kernel_size; }
    half = halved; function halved(X) -> (Y) { Y = X / 2; }";

/// Returns the definition that a name denotes in the last model.
fn named(program: &tile_lang::Program, name: &str) -> Option<String> {
    match program.callee(name, program.entry(None).ok()?)? {
        Callee::Function(function) => Some(function.name.as_ref()?.name.clone()),
        Callee::Builtin(_) => None,
    }
}

#[test]
fn an_alias_is_the_definition() {
    let checked = check(PROGRAM);
    assert_eq!(checked.diagnostics, []);
    let program = checked.program.unwrap();
    assert_eq!(named(&program, "Block").as_deref(), Some("Conv"));
    // The target is an alias of the library.
    assert_eq!(named(&program, "Pool").as_deref(), Some("MaxPooling2D"));
    assert_eq!(named(&program, "half").as_deref(), Some("halved"));
    assert_eq!(program.entry(Some("half")).unwrap().name.as_ref().unwrap().name, "halved");
}

#[test]
fn a_file_sees_the_aliases_that_it_imports() {
    let files = |path: &str| match path {
        "a.tile" => Some("import \"b.tile\"; Wide = Base; Conv = Base;".to_string()),
        "b.tile" => Some("layer Base(n)(X) -> (Y) { Y = X * n; } Conv = Base;".to_string()),
        _ => None,
    };
    // Both files call the same definition `Conv`.
    let main =
        "import \"a.tile\"; import \"b.tile\"; model M(X) -> (Y) { Y = X |> Wide(2) |> Conv(3); }";
    let checked = check_file("main.tile", main, &|path| files(path).into());
    assert_eq!(checked.diagnostics, []);
    assert_eq!(named(&checked.program.unwrap(), "Wide").as_deref(), Some("Base"));
}

#[test]
fn wrong_aliases() {
    assert_snapshot!(
        brief("A = Densse; b = b; c = d; d = c; f = g; f = g; g = relu; function g(X) -> (Y) { Y = A(X); }
               function h(X) -> (Y) { Y = X / 2; } function k(X) -> (Y) { Y = i(X); } i = k;"),
        @"
    E0102 unknown function, layer or model `Densse`: `Densse`; help: did you mean `Dense`?
    E0114 the alias `f` is defined twice: `f`, `f` (the first one)
    E0114 the alias `g` is defined twice: `g`, `g` (the first one)
    E0111 `k` calls itself: `i`; help: Tile has no recursion: every call is inlined at compile time
    ");
    assert_snapshot!(brief("a = b; b = a; function f(X) -> (Y) { Y = a(X); }"), @"E0111 `a` is an alias of itself: `b`");
    assert_snapshot!(brief("a = relu; A = 3; b = [relu]; c = relu + 1; function f(X) -> (Y) { Y = a(X) }"), @"
    E0003 expected a name, found `3`: `3`
    E0003 expected a name, found `[`: `[`
    E0003 expected `;`, found `+`: `+`
    E0003 expected `;` after this statement: ``
    ");
    // The parser cannot resume at a name alone.
    assert_snapshot!(brief("x y z = 1; } w = relu; function f(X) -> (Y) { Y = w(X); }"), @"
    E0003 expected a definition (`function`, `layer`, `model`, `train`, …), found `x`: `x`; help: a file has definitions, such as `model Net(X[N, 4]) -> (Y) { … }`
    E0003 unexpected `}`: `}` (each block before it is closed already)
    ");
}

#[test]
fn aliases_are_kept() {
    let source = "A=B;// one\n// two\nlayer = model; function f(X)->(Y){Y=X;} $function = #in;";
    assert_snapshot!(format(source).unwrap(), @"
    A = B; // one
    // two
    layer = model;
    function f(X) -> (Y) { Y = X; }
    $function = #in;
    ");
    assert_snapshot!(ast_text(&parse(source).file), @"
    (alias A B)
    (alias layer model)
    (alias $function #in)
    (function f
      (input X)
      (output Y)
      (assign Y X))
    ");
}
