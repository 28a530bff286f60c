//! Properties that hold for any text.

use proptest::prelude::*;
use proptest::sample::{Index, select};
use tile_lang::ast::MAX_DEPTH;
use tile_lang::{ast_text, check, format, parse, render, tokens_text};

const WORDS: &[&str] = &[
    "function",
    "default",
    "no_defract",
    "layer",
    "model",
    "import",
    "param",
    "state",
    "update",
    "for",
    "in",
    "if",
    "else",
    "scan",
    "along",
    "yield",
    "regularizer",
    "|>",
    "\"t\"",
    "\"",
    "A",
    "B",
    "N",
    "i",
    "j",
    "exp",
    "relu",
    "argmax",
    "#x",
    "$Y",
    "0",
    "2",
    "2.5",
    "1e3",
    "(",
    ")",
    "[",
    "]",
    "[[",
    "]]",
    "{",
    "}",
    ",",
    ";",
    ":",
    "?",
    "->",
    "...",
    "=",
    "+",
    "-",
    "*",
    "/",
    "~",
    "^",
    "|",
    "&",
    "==",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    "<<",
    ">>",
    "// comment\n",
    "\n",
    "\n\n",
    "ü",
    "'",
    ".",
    "!",
];

const PROGRAMS: &[&str] = &[
    include_str!("../../std/core.tile"),
    "function (I[N]) -> (O) {\n    // pool\n    O[i: (N + 1) / 2] = >(I[2*i + j]), j < 2; // done\n}\n",
    "function f(A[M, N], B) -> (O) { [[pid(foo)]] O[i, j: M, N] = =(A[i, j]) default B no_defract; }\n\n// g\nfunction g(X) -> (Y) { Y = f(X, -X) ? 1.5 : X & ~3; }",
    "function (W[V, D], T[..., 3]) -> (O) { O[..., d: ..., D] = +(W[T[..., k], d] == 1 ? exp(T[..., 2])); }",
    LAYERS,
];

/// A program with every construct of layers and models.
const LAYERS: &str = "import \"a.tile\";
layer Dense(units, activation = linear, mode in [a, b] = a)(X[..., K], Mask = none) -> (Y, Z) {
    param Kernel[K, units] = glorot_uniform() regularizer = l2(0.1);
    param Bias[slice(dims(X), 0, 1), units] = zeros() if mode == a else 0;
    state Count[] = zeros();
    Z[..., n: ..., units] = +(X[..., k] * Kernel[k, n]);
    Y = activation(Z + Bias);
    update Count = Count + 1; // up
}
model Net(blocks = [Dense(3), Dense(2, mode = b)])(X) -> (Out) {
    for block, n in blocks { Y, Out = X |> block |> [relu, sigmoid]; }
    if training { A = 1; } else if n > 3 { A = 2; } else { A = error(\"no\"); }
    scan Xt in X along 1, Yt in X along 0 { Out = Out + Xt; yield All = A; }
}";

/// Runs all operations of the crate on a text. Checks that formatting keeps the meaning.
fn exercise(source: &str) {
    tokens_text(source);
    let parsed = parse(source);
    let tree = ast_text(&parsed.file);
    let checked = check(source);
    assert_eq!(
        checked.program.is_none(),
        checked.diagnostics.iter().any(|diagnostic| diagnostic.is_error())
    );
    render(&checked.diagnostics, &checked.sources, true);
    let Ok(once) = format(source) else { return };
    let again = parse(&once);
    assert_eq!(ast_text(&again.file), tree, "{source}\n{once}");
    let comments = |source: &str, spans: &[tile_lang::span::Span]| {
        let mut texts: Vec<String> = spans
            .iter()
            .map(|span| source[span.start as usize..span.end as usize].trim_end().to_string())
            .collect();
        texts.sort();
        texts
    };
    assert_eq!(comments(&once, &again.comments), comments(source, &parsed.comments));
    assert_eq!(format(&once).as_deref(), Ok(once.as_str()), "{source}");
}

fn expression() -> impl Strategy<Value = String> + Clone {
    let leaf =
        select(vec!["A", "B2'", "#b", "i", "3i", "7", "2.50", "1e3", "N", "[]", "\"a b\"", "else"]);
    let operators = vec!["^", "|", "&", "==", "<", ">=", "<<", "+", "-", "*", "/", "// note\n +"];
    leaf.prop_map(String::from).prop_recursive(6, 40, 3, move |inner| {
        let binary = (inner.clone(), select(operators.clone()), inner.clone());
        prop_oneof![
            binary.prop_map(|(a, op, b)| format!("{a} {op} {b}")),
            inner.clone().prop_map(|a| format!("({a})")),
            (select(vec!["-", "~"]), inner.clone()).prop_map(|(op, a)| format!("{op}{a}")),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(a, b, c)| format!("{a}?{b}:{c}")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("f({a},\n\n{b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("g[{a}]( if={b} )(A)")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("[{a} ,{b}]")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} |> ({b}))")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("[{a}|>f|>[{b}] , h(2)]")),
            (inner.clone(), inner).prop_map(|(a, b)| format!("T[{a} , {b}]")),
        ]
    })
}

fn statements() -> impl Strategy<Value = String> {
    let gap = || select(vec!["", "\n", "\n\n\n", " // c\n"]);
    let leaf = prop_oneof![
        Just("A = b;".to_string()),
        expression().prop_map(|e| format!("$if,b={e};")),
        (expression(), expression()).prop_map(|(a, b)| format!("[[a({a})]] P[{b}:{b}]=+({a});")),
        (expression(), expression())
            .prop_map(|(a, b)| format!("param W[{a}]={a} regularizer={b} if {b} else {a};")),
        expression().prop_map(|e| format!("state S[]={e}; update S={e};yield S={e};")),
    ];
    leaf.prop_recursive(4, 12, 3, move |inner| {
        let block = (gap(), prop::collection::vec((inner, gap()), 0..3)).prop_map(|(gap, body)| {
            body.into_iter().fold(gap.to_string(), |text, (statement, gap)| text + &statement + gap)
        });
        let header = (expression(), gap());
        prop_oneof![
            (header.clone(), block.clone())
                .prop_map(|((e, gap), body)| format!("for f,s in {e}{gap}{{{body}}}")),
            (header.clone(), block.clone())
                .prop_map(|((e, gap), body)| format!("if {e}{gap}{{{body}}}")),
            (header.clone(), block.clone(), block.clone())
                .prop_map(|((e, gap), a, b)| format!("if {e}{{{a}}}{gap}else{gap}{{{b}}}")),
            (header.clone(), block.clone(), block.clone()).prop_map(|((e, gap), a, b)| format!(
                "if {e}{{{a}}}{gap}else {gap}if {e}{{{b}}}else{{{a}}}"
            )),
            (header, block).prop_map(|((e, gap), body)| format!(
                "scan A in {e} along 1,b in T along {e}{gap}{{{body}}}"
            )),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_text(source in any::<String>()) {
        exercise(&source);
    }

    #[test]
    fn any_words(words in prop::collection::vec(select(WORDS), 0..60), space in select(vec!["", " "])) {
        exercise(&words.join(space));
        exercise(&format!("function f(A[N]) -> (O) {{ {} }}", words.join(" ")));
    }

    #[test]
    fn any_mutation(program in select(PROGRAMS), edits in prop::collection::vec((any::<Index>(), 0..6usize, select(WORDS)), 1..4)) {
        let mut text: Vec<char> = program.chars().collect();
        for (place, removed, word) in edits {
            let start = place.index(text.len() + 1);
            let end = (start + removed).min(text.len());
            text.splice(start..end, word.chars());
        }
        exercise(&text.into_iter().collect::<String>());
    }

    #[test]
    fn formatting_any_statement_keeps_its_meaning(body in prop::collection::vec((statements(), select(vec!["", "\n", "\n\n\n", " // c\n"])), 1..4)) {
        let body = body.into_iter().fold(String::new(), |text, (statement, gap)| text + gap + &statement);
        let source = format!("function f(A) -> (O) {{{body}}}");
        // The only possible error is a chained comparison, `a < b < c`.
        assert!(parse(&source).diagnostics.iter().all(|diagnostic| diagnostic.code == "E0005"), "{source}");
        exercise(&source);
    }
}

/// Checks that deeply nested and long texts neither overflow the stack nor take long.
#[test]
fn depth() {
    let n = 20_000;
    let deep = |value: String| format!("function (A) -> (O) {{ O = {value}; }}");
    let too_deep = |source: &str| {
        exercise(source);
        let codes: Vec<_> =
            check(source).diagnostics.iter().map(|diagnostic| diagnostic.code).collect();
        assert_eq!(codes, ["E0004"]);
    };
    // Parentheses add no node to the tree.
    exercise(&deep(format!("{}A{}", "(".repeat(n), ")".repeat(n))));
    too_deep(&deep(format!("{}A", "-".repeat(n))));
    too_deep(&deep(format!("A{}", " + A".repeat(n))));
    too_deep(&deep(format!("A{}", " ? A : A".repeat(n))));
    too_deep(&deep(format!("{}A{}", "exp(".repeat(n), ")".repeat(n))));
    exercise(&deep(format!("A{}", " + A".repeat(MAX_DEPTH as usize - 1))));
    exercise(&"[".repeat(n));
    exercise(&"function (".repeat(n));
    exercise(&"A = ".repeat(n));
    too_deep(&deep(format!("A{}", " |> f".repeat(n))));
    too_deep(&deep(format!("f{}", "(A)".repeat(n))));
    too_deep(&deep(format!("{}{}", "[".repeat(n), "]".repeat(n))));
    too_deep(&format!("model M(X) -> (Y) {{ {} {} }}", "if a {".repeat(n), "}".repeat(n)));
    too_deep(&format!("model M(X) -> (Y) {{ if a {{}} {} }}", "else if b {}".repeat(n)));
    exercise(&format!("model M(X) -> (Y) {{ if a {{}} {} }}", "else if b {}".repeat(60)));
    exercise(&format!("model M(X) -> (Y) {{ {} }}", "if a {} else if b {} ".repeat(n / 20)));

    let chain: String =
        (0..2000).map(|i| format!("function f{i}(X) -> (Y) {{ Y = f{}(X); }}\n", i + 1)).collect();
    exercise(&format!("{chain}function f2000(X) -> (Y) {{ Y = X; }}"));
}
