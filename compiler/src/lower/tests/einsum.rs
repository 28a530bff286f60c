//! Compares `einsum` with NumPy, and checks its errors.

use super::*;
use crate::dtype::Scalar;
use crate::interpret::run;
use crate::tensor::Tensor;

fn numbers<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> Vec<T> {
    text.split_whitespace().map(|number| number.parse().unwrap()).collect()
}

#[test]
fn einsum_agrees_with_numpy() {
    for line in include_str!("einsum.txt").lines() {
        let parts: Vec<&str> = line.split(';').collect();
        let [equation, shapes @ .., shape, elements] = parts.as_slice() else { panic!("{line}") };
        let names: Vec<String> = (0..shapes.len()).map(|number| format!("X{number}")).collect();
        let source = format!(
            "function f({0}) -> (Y) {{ Y = einsum(\"{equation}\", {0}); }}",
            names.join(", ")
        );
        let mut bindings = Bindings::default();
        let mut inputs = Vec::new();
        for (k, (name, shape)) in names.iter().zip(shapes).enumerate() {
            let ty = TensorType::new(DType::I32, numbers::<usize>(shape));
            let values = (0..ty.elements()).map(|n| Scalar::i32(((7 * n + 3 * k) % 5) as i32 - 2));
            inputs.push((name.as_str(), Tensor::from_scalars(ty.clone(), values).unwrap()));
            bindings.inputs.insert(name.clone(), Binding::Tensor(ty));
        }
        let program = tile_lang::check(&source).program.unwrap();
        let network = lower(&program, None, &bindings).unwrap();
        network.graph.verify().unwrap();
        let results = run(&network.graph, &inputs).unwrap();
        let ty = TensorType::new(DType::I32, numbers::<usize>(shape));
        let expected =
            Tensor::from_scalars(ty, numbers::<i32>(elements).into_iter().map(Scalar::i32))
                .unwrap();
        assert_eq!(results[0].1, expected, "{line}");
    }
}

fn error(call: &str) -> String {
    lowered(&format!("function f(X) -> (Y) {{ Y = {call}; }}"), "X = f32[2, 3]")
}

#[test]
fn wrong_equations() {
    insta::assert_snapshot!(error("einsum(\"ab,bc->ac\", X, X)"), @r##"
    E0213: `b` is 2 here, but 3 before
      `X` 
      help: the shape here is [2, 3]
    "##);
    // The axes of a diagonal do not broadcast even if the size is 1.
    let diagonal = lowered("function f(X) -> (Y) { Y = einsum(\"ii->i\", X); }", "X = f32[1, 3]");
    insta::assert_snapshot!(diagonal, @r##"
    E0213: `i` is 3 here, but 1 before
      `X` 
      help: the shape here is [1, 3]
    "##);
    insta::assert_snapshot!(error("einsum(\"abc->c\", X)"), @r##"
    E0212: the equation names 3 axes here, and the tensor has the shape [2, 3]
      `X`
    "##);
    insta::assert_snapshot!(error("einsum(\"...abc->c\", X)"), @r##"
    E0212: the equation names at least 3 axes here, and the tensor has the shape [2, 3]
      `X`
    "##);
    insta::assert_snapshot!(error("einsum(\"ab->c\", X)"), @r##"
    E0234: `c` is an axis of the result, and of no tensor
      `"ab->c"`
    "##);
    insta::assert_snapshot!(error("einsum(\"ab->aa\", X)"), @r##"
    E0234: the result has `a` twice
      `"ab->aa"`
    "##);
    insta::assert_snapshot!(error("einsum(\"a.b->a\", X)"), @r##"
    E0234: `.` cannot stand in an equation
      `"a.b->a"` 
      help: it names axes with letters, as in `ab,bc->ac` or `...a,ab->...b`
    "##);
    insta::assert_snapshot!(error("einsum(\"...a...->a\", X)"), @r##"
    E0234: `...` stands twice in `...a...`
      `"...a...->a"`
    "##);
    insta::assert_snapshot!(error("einsum(\"...b->b\", X)"), @r##"
    E0234: `...` stands for axes that the result does not have
      `"...b->b"` 
      help: write `...` after `->`, too
    "##);
    insta::assert_snapshot!(error("einsum(\"ab,cd->abcd\", X)"), @r##"
    E0234: this equation is of 2 tensors, and 1 are given
      `"ab,cd->abcd"`
    "##);
    insta::assert_snapshot!(error("einsum(X, X)"), @r##"
    E0234: `einsum` takes an equation first, as in `einsum("ab,bc->ac", A, B)`
      `X`
    "##);
}
