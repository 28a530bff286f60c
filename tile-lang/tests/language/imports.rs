//! Tests of programs with several files.

use insta::assert_snapshot;
use tile_lang::{Program, render};

use crate::{brief_of, check_files};

fn program(files: &[(&str, &str)]) -> Program {
    let checked = check_files(files);
    checked
        .program
        .unwrap_or_else(|| panic!("{}", render(&checked.diagnostics, &checked.sources, false)))
}

fn brief(files: &[(&str, &str)]) -> String {
    brief_of(&check_files(files))
}

#[test]
fn a_file_sees_what_it_imports_itself() {
    let files = [
        (
            "nets/main.tile",
            "import \"blocks/conv.tile\"; model M(X) -> (Y) { Y = X |> Conv() |> relu; }",
        ),
        (
            "nets/blocks/conv.tile",
            "import \"../util.tile\"; layer Conv()(X) -> (Y) { Y = half(X); } function relu(X) -> (Y) { Y = X; }",
        ),
        (
            "nets/util.tile",
            "import \"main.tile\"; function half(X) -> (Y) { Y = X / 2 |> M; } layer Conv()(X) -> (Y) { Y = X; }",
        ),
    ];
    let mut acyclic = files;
    acyclic[2].1 = "import \"main.tile\"; function half(X) -> (Y) { Y = X / 2; } layer Conv()(X) -> (Y) { Y = X; }";
    let program = program(&acyclic);
    assert_eq!(program.functions().len(), 1);
    assert!(program.entry(None).is_ok() && program.entry(Some("Conv")).is_ok());
    // Imports of the imported file are not visible.
    assert!(program.entry(Some("half")).is_err());
    // Files may import each other, but functions may not call each other.
    assert_snapshot!(brief(&files), @"E0111 `M` calls itself through `Conv`, `half`: `Conv`, `half` (and this call leads back), `M` (and this call leads back); help: Tile has no recursion: every call is inlined at compile time");
}

#[test]
fn a_train_block_makes_an_imported_model_the_entry() {
    let nets =
        "model A(X) -> (Y) { Y = X; } model B(X) -> (Y) { Y = X; } model C(X) -> (Y) { Y = X; }";
    let main = "import \"nets.tile\"; function half(X) -> (Y) { Y = X / 2; }
         train B { loss = half; } train A { loss = half; }";
    let program = program(&[("main.tile", main), ("nets.tile", nets)]);
    let name = |function: &tile_lang::ast::Function| function.name.as_ref().unwrap().name.clone();
    assert_eq!(name(program.entry(None).unwrap()), "A");
    assert_eq!(name(program.trained(None).unwrap()), "A");
    assert_eq!(program.trained_in_turn().into_iter().map(name).collect::<Vec<_>>(), ["B", "A"]);
}

#[test]
fn wrong_imports() {
    let files = [
        (
            "main.tile",
            "import \"a.tile\"; import \"b.tile\"; import \"c.tile\"; import \"core.tile\"; import \"cor.tile\";
             model M(X) -> (Y) { Y = f(X) + g(X); } function h(X) -> (Y) { Y = X; }",
        ),
        (
            "a.tile",
            "function f(X) -> (Y) { Y = X; } function h(X) -> (Y) { Y = X; } function f(X) -> (Y) { Y = 2 * X; }",
        ),
        ("b.tile", "function f(X) -> (Y) { Y = X; } function h(X) -> (Y) { Y = X; }"),
    ];
    assert_snapshot!(brief(&files), @r#"
    E0120 cannot find the file `c.tile`: `import "c.tile";`; help: a path starts from the folder of this file
    E0120 cannot find the file `cor.tile`: `import "cor.tile";`; help: a path starts from the folder of this file
    E0114 the function `f` is defined twice: `f`, `f` (the first one)
    E0121 `f` is defined in two imported files: `f`, `f` (the first one); help: rename one of them, or define `f` in the file that imports both
    "#);
}

#[test]
fn errors_show_the_file_that_they_are_in() {
    let files = [
        ("main.tile", "import \"a/b.tile\";\nmodel M(X) -> (Y) { Y = f(X, X); }"),
        (
            "a/b.tile",
            "// f\nfunction f(X) -> (Y) { Y = X + Z; }\nfunction unused(X, Z) -> (Y) { Y = X; }",
        ),
    ];
    let checked = check_files(&files);
    assert_snapshot!(render(&checked.diagnostics, &checked.sources, false), @"
    [E0103] Error: expected 1 argument for `f`, found 2
       ╭─[ main.tile:2:25 ]
       │
     2 │ model M(X) -> (Y) { Y = f(X, X); }
       │                         ┬
       │                         ╰── here
    ───╯
    [E0101] Error: unknown name `Z`
       ╭─[ a/b.tile:2:32 ]
       │
     2 │ function f(X) -> (Y) { Y = X + Z; }
       │                                ┬
       │                                ╰── here
    ───╯
    ");
    let wrong = [(
        "main.tile",
        "model M(X[N, M]) -> (Y) { Y = X |> builtin_softmax; Z = builtin_softmax(X); }",
    )];
    let checked = check_files(&wrong);
    assert_snapshot!(render(&checked.diagnostics, &checked.sources, false), @"
    [E0103] Error: missing input `R` of `builtin_softmax`
       ╭─[ main.tile:1:36 ]
       │
     1 │ model M(X[N, M]) -> (Y) { Y = X |> builtin_softmax; Z = builtin_softmax(X); }
       │                                    ───────┬───────
       │                                           ╰───────── here
       │
       ├─[ std/core.tile:8:29 ]
       │
     8 │ function builtin_softmax(X, R, C) -> (Y) {
       │                             ┬
       │                             ╰── it has no default
       │
       │ Help: several inputs are given as a list, as in `[A, B] |> …`
    ───╯
    [E0103] Error: expected 3 arguments for `builtin_softmax`, found 1
       ╭─[ main.tile:1:57 ]
       │
     1 │ model M(X[N, M]) -> (Y) { Y = X |> builtin_softmax; Z = builtin_softmax(X); }
       │                                                         ───────┬───────
       │                                                                ╰───────── here
    ───╯
    ");
}
