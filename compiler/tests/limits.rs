//! Small programs that ask for much work: each compiles, or is refused because it exceeds the
//! budget. The counted units decide, so no test depends on a clock. The sizes are such that each
//! took minutes or gigabytes before work was counted.

use tile_compiler::graph::Graph;
use tile_compiler::lower::{Bindings, lower};
use tile_compiler::pipeline;
use tile_compiler::profile::Profile;
use tile_lang::diagnostic::Diagnostic;
use tile_lang::{Budget, Imported, Limits};

/// Compiles a program for `N = 3`, `B = 2`, and returns the codes of its errors.
fn compile(source: &str) -> Vec<&'static str> {
    let budget = Budget::new(Limits::default());
    let checked = tile_lang::check_within("program.tile", source, &|_| Imported::Missing, &budget);
    let codes = |errors: &[Diagnostic]| errors.iter().map(|error| error.code).collect::<Vec<_>>();
    let Some(program) = checked.program else { return codes(&checked.diagnostics) };
    let mut bindings = Bindings::default();
    for (name, size) in [("N", 3), ("B", 2)] {
        if source.contains(&format!("[{name}")) {
            bindings.sizes.insert(name.to_owned(), size);
        }
    }
    match lower(&program, None, &bindings) {
        Ok(network) => plan(network.graph),
        Err(errors) => codes(&errors),
    }
}

/// Plans a graph for both kinds of devices, and returns the codes of the errors.
fn plan(mut graph: Graph) -> Vec<&'static str> {
    pipeline::optimise(&mut graph);
    let mut codes = Vec::new();
    for profile in [Profile::cpu(), Profile::generic()] {
        if let Err(error) = pipeline::plan(&graph, &profile) {
            codes.push(error.diagnostic(&graph).unwrap_or_else(|| panic!("{error}")).code);
        }
    }
    codes
}

/// Asserts that a program is refused for the work or memory that it takes.
fn refused(source: &str) {
    let codes = compile(source);
    assert!(
        codes.contains(&"E0007"),
        "{codes:?}: {}",
        source.chars().take(200).collect::<String>()
    );
}

/// Returns a function of `X[N]` with the statements `line(0)` … `line(count - 1)`.
fn function(count: usize, line: impl Fn(usize) -> String) -> String {
    let lines: String = (0..count).map(line).collect();
    format!("function f(X[N]) -> (Y) {{ Y = X; {lines} }}")
}

#[test]
fn loops_are_counted() {
    let nested = |range: &str, body: &str| {
        let loops: String = (0..8).map(|k| format!("for i{k} in range({range}) {{ ")).collect();
        format!("function f(X[N]) -> (Y) {{ Y = X; {loops}{body}{} }}", "}".repeat(8))
    };
    refused(&nested("1000", "a = 1;"));
    refused(&nested("100000", ""));
    let mut twice = "function f0(X[N]) -> (Y) { Y = X + 1.0; }\n".to_owned();
    for i in 1..60 {
        twice += &format!("function f{i}(X[N]) -> (Y) {{ A = f{0}(X); Y = f{0}(A); }}\n", i - 1);
    }
    refused(&twice);
}

#[test]
fn lists_are_shared_and_counted() {
    let list =
        |rest: &str| format!("function f(X[N]) -> (Y) {{ Y = X; a = range(1000000); {rest} }}");
    let codes = compile(&list("for i in range(100000) { b = a; c = len(a); d = a[i]; }"));
    assert_eq!(codes, [""; 0]);
    refused(&list("for i in range(1000000) { b = slice(a, 1); }"));
    refused(&list("for i in range(100000) { b = product(a); }"));
    refused(&list("for i in range(100000) { b = a + [i]; }"));
    refused("function f(X[N]) -> (Y) { Y = X; a = [0]; for i in range(1000000) { a = a + [i]; } }");
    refused("function f(X[N]) -> (Y) { Y = X; a = range(1000000000000); }");
    refused("function f(X[N]) -> (Y) { Y = X; a = \"x\"; for i in range(100) { a = a + a; } }");
    // Nested lists share their items, however large they would be when written out.
    assert_eq!(
        compile("function f(X[N]) -> (Y) { Y = X; a = [1]; for i in range(200) { a = [a, a]; } }"),
        [""; 0]
    );
    refused(
        "function f(X[N]) -> (Y) { Y = X; a = [1]; for i in range(200) { a = [a, a]; } b = a == [a, a]; c = a == a + []; }",
    );
    let deep =
        compile("function f(X[N]) -> (Y) { Y = X; a = [1]; for i in range(100000) { a = [a]; } }");
    assert_eq!(deep, ["E0205"]);
}

#[test]
fn copies_of_layers_are_counted() {
    let model = |body: &str| {
        format!("layer L(l)(X) -> (Y) {{ Y = X; }}\nmodel M(X[N]) -> (Y) {{ Y = X; {body} }}")
    };
    refused(&model("a = Identity(); a = repeat(10000, a); a = repeat(10000, a);"));
    refused(&model("a = Identity(); for i in range(9) { a = L(repeat(10000, a)); }"));
    refused(&model("a = Identity(); for i in range(200) { a = L([clone(a), clone(a)]); }"));
    refused(&model("a = Identity(); for i in range(100) { a = L([a, a]); } b = clone(a);"));
    assert_eq!(
        compile(&model(
            "a = Identity(); for i in range(100) { a = L([a, a]); } b = has_states(a);"
        )),
        [""; 0]
    );
    assert_eq!(compile(&model("a = Identity(); for i in range(100000) { a = L(a); }")), ["E0205"]);
}

#[test]
fn names_are_compared_within_bounds() {
    let unknown = compile(&function(20_000, |i| format!("A{i} = Z{i}; ")));
    assert_eq!(unknown.len(), 20_000);
    let name = "a".repeat(2000);
    assert!(!compile(&function(2000, |i| format!("A{name}{i} = Z{name}{i}; "))).is_empty());
    let callees: String =
        (0..5000).map(|i| format!("function g{i}(X) -> (Y) {{ Y = X; }}\n")).collect();
    assert!(!compile(&(callees + &function(5000, |i| format!("A{i} = foo{i}(X); ")))).is_empty());
    let aliases: String = (0..20_000).map(|i| format!("g{i} = g{};\n", i + 1)).collect();
    refused(&format!("function f(X[N]) -> (Y) {{ Y = X; }}\n{aliases}g20000 = f;\n"));
    refused(&function(20_000, |i| {
        format!("A{i} = X; if N == {i} {{ B{i} = X; }} else {{ C{i} = X; }} ")
    }));
}

#[test]
fn texts_are_counted() {
    refused(&format!("function f(X[N]) -> (Y) {{ Y = {}; }}", "= ; ".repeat(1_000_000)));
    refused(&function(1_000_000, |i| format!("A{i} = X; ")));
}

#[test]
fn graphs_are_counted() {
    let body = |line: &str| format!("function f(X[N]) -> (Y) {{ Y = X; {line} }}");
    refused(&body("for i in range(1000000) { Y = sin(Y) * X; }"));
    // Each product is compared with all that read the same operands.
    let products = "Q[i, k: N, N] = +(Y[i] * X[k]); Y[i: N] = +(Q[i, k] * X[k]); ";
    compile(&body(&format!("for i in range(6000) {{ {products}}}")));
    compile(&body("B = X; for i in range(50000) { C = Y + B; Y = B; B = C; }"));
    refused(&body("for i in range(100000) { Y = softmax(Y); }"));
    refused(&body(
        "Z = reshape(X, [N] + list(1, 20000)); for i in range(10000) { Z = sin(Z) + Z; }",
    ));
    refused(&body(
        "for i in range(1000) { Y = sin(Y) * X; } L[] = +(Y[k]); for i in range(1000) { Y = grad(L, X); }",
    ));
    refused(&body("for i in range(60) { L[] = +(Y[k]); Y = grad(L, X) * sin(X) + sin(Y); }"));
}
