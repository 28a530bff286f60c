//! Which results have a mask, and which of their parts it counts.

use super::*;
use crate::dtype::Scalar;
use crate::interpret::run;
use crate::tensor::Tensor;

/// Returns what the mask of `expression` counts, for inputs with the masks M = [1, 1, 0, 0] and
/// N = [1, 0, 1, 0]: `""` if it has none.
fn counted(expression: &str) -> String {
    let source = format!(
        "model Masked(A[T, D], B[T, D], C[D], M[T], N[T]) -> (Y) {{
            X = with_mask(A, M);
            Z = with_mask(B, N);
            R = {expression};
            Y = mask_of(R) == none ? fill([0], 0) : as_int(mask_of(R), 32);
        }}"
    );
    let program = tile_lang::check(&source).program.unwrap_or_else(|| panic!("{expression}"));
    let bindings = bindings("A = f32[4, 3]; B = f32[4, 3]; C = f32[3]; M = i32[4]; N = bool[4]");
    let network = lower(&program, None, &bindings).unwrap();
    network.graph.verify().unwrap();
    let floats =
        |shape: &[usize]| Tensor::from_f32(shape, &vec![1.0; shape.iter().product()]).unwrap();
    let flags = |dtype, flags: [i64; 4]| {
        let flags = flags.map(|flag| Scalar::from_i64(dtype, flag));
        Tensor::from_scalars(TensorType::new(dtype, [4]), flags).unwrap()
    };
    let inputs = [
        ("A", floats(&[4, 3])),
        ("B", floats(&[4, 3])),
        ("C", floats(&[3])),
        ("M", flags(DType::I32, [1, 1, 0, 0])),
        ("N", flags(DType::Bool, [1, 0, 1, 0])),
    ];
    let results = run(&network.graph, &inputs).unwrap();
    results[0].1.to_f64s().iter().map(|flag| flag.to_string()).collect()
}

#[test]
fn masks_are_kept_by_elementwise_operations() {
    for kept in
        ["X", "-X", "exp(X)", "as_int(X, 32)", "X + 1", "X * C", "C - X", "X > 0 ? X : 0", "X + B"]
    {
        assert_eq!(counted(kept), "1100", "{kept}");
    }
    for both in ["X + Z", "Z * X", "X > Z", "A > 0 ? X : Z"] {
        assert_eq!(counted(both), "1110", "{both}");
    }
    let dropped = [
        "A",
        "with_mask(X, none)",
        "reshape(X, 4, 3)",
        "sum(0)(X)",
        "softmax(0)(A)",
        "fill([4, 3], 1)",
    ];
    for dropped in dropped {
        assert_eq!(counted(dropped), "", "{dropped}");
    }
    // The first axis of a result of other rank is another one.
    assert_eq!(counted("X + fill([4, 4, 3], 1)"), "");
    // A mask of size 1 along an axis counts the same at all places of it.
    assert_eq!(counted("with_mask(fill([1, 3], 1.0), fill([1], 1)) + A"), "1111");
    assert_eq!(counted("with_mask(fill([1, 3], 1.0), fill([1], 0)) * X"), "1100");
    assert_eq!(counted("with_mask(X, N)"), "1010");
    assert_eq!(counted("with_mask(X, N) + X"), "1110");
}

#[test]
fn masks_are_of_the_first_axes() {
    let source = "function f(X[N, T], M[T]) -> (Y) { Y = with_mask(X, M); }";
    insta::assert_snapshot!(lowered(source, "X = f32[2, 3]; M = bool[3]"), @"
    E0208: the mask has the shape [3], and the tensor [2, 3]
      `M` 
      help: the shape of a mask is the first axes of the tensor's
    ");
}
