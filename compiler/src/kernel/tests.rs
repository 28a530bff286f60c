use insta::assert_snapshot;
use proptest::prelude::*;

use super::*;

/// A kernel with every kind of statement.
const SUM: &str = "\
kernel sum workgroup(64, 1, 1) grid(4, 1, 1) {
    read a: f32x4[4096];
    write out: f32[256];
    shared tile: f32[64];
    let row = workgroup.x * 64 + local.x;
    var total = -inf;
    for k in 0..16 step 4 {
        total = fma(a[row * 4 + k // 4].x, 2.0, total);
        tile[row % 64] = total;
        barrier;
    }
    if row < 250 & local.y == 0 {
        out[row] = total - (1.0 - 3.0);
    } else {
        out[row] = f32(7_u32);
    }
}
";

#[test]
fn the_text_form_parses_back() {
    let kernel = Kernel::parse(SUM).unwrap();
    kernel.verify().unwrap();
    assert_eq!(kernel.to_string(), SUM);
    assert_eq!(
        kernel.variables.iter().nth(1).unwrap().clone(),
        Variable { name: "total".into(), ty: Type::scalar(DType::F32) }
    );
}

proptest! {
    #[test]
    fn print_and_parse_are_inverse(
        arbitrary::Printed(kernel) in arbitrary::kernel(&[DType::F32, DType::U32, DType::F16, DType::I64])
    ) {
        let text = kernel.to_string();
        prop_assert_eq!(Kernel::parse(&text).unwrap(), kernel);
    }

    #[test]
    fn mutated_texts_never_panic(at in 0..SUM.len(), with in "[a-z0-9{}()\\[\\]._ ;é-]{0,3}") {
        let _ = Kernel::parse(&format!("{}{with}{}", &SUM[..at], &SUM[at + 1..])).map(|k| k.verify());
    }
}

/// Returns the error for `SUM` with one piece replaced.
fn refused(old: &str, new: &str) -> String {
    assert!(SUM.contains(old));
    match Kernel::parse(&SUM.replacen(old, new, 1)) {
        Ok(kernel) => kernel.verify().unwrap_err().message,
        Err(error) => error.to_string(),
    }
}

#[test]
fn what_the_verifier_refuses() {
    let messages = [
        // A barrier in a loop with a varying number of iterations, and one in an `if`.
        refused("0..16", "0..local.x"),
        refused("out[row] = f32(7_u32);", "barrier;"),
        refused("(4, 1, 1)", "(4, 0, 1)"),
        refused("let row", "let k = 1; let row"),
        refused("f32[256]", "f32[0]"),
        refused("f32[256]", "bf16[256]"),
        refused("total = fma", "row = 1; total = fma"),
        refused("f32(7_u32)", "f32(k)"),
        refused("out[row] = total", "out[row] = row"),
        refused("out[row] = total", "a[row] = total"),
        refused("out[row] = f32", "out[row] = out[row] + f32"),
        refused("row < 250", "row"),
        refused("row < 250", "row < 2.5"),
        refused("f32(7_u32)", "erf(1.0)"),
        refused("a[row", "b[row"),
    ];
    assert_snapshot!(messages.join("\n"), @r"
    a barrier that some invocations may not reach
    a barrier that some invocations may not reach
    a launch has at least one invocation along every axis
    two things are called `k`
    `out` has no elements
    shaders have no bf16, the type of `out`
    `row` is no `var`, in `row = 1;`
    `k` is not in scope, in `out[row] = f32(k);`
    `sub` of i32 and f32, in `out[row] = row - (1.0 - 3.0);`
    `a` is read, so it can't be written, in `a[row] = total - (1.0 - 3.0);`
    `out` is written, so it can't be read, in `out[row] = out[row] + f32(7_u32);`
    `bit_and` of i32 and bool, in `if row & local.y == 0 {`
    `cmp_lt` of i32 and f32, in `if row < 2.5 & local.y == 0 {`
    shaders have no `erf` of f32, in `out[row] = erf(1.0);`
    line 8: `b` is not declared
    ");
}

/// A product of matrices by two subgroups of 32.
const PRODUCT: &str = include_str!("../../../tests/kernels/matrix.kernel");

#[test]
fn what_the_verifier_refuses_of_matrices() {
    let refused = |old, new| {
        assert!(PRODUCT.contains(old));
        match Kernel::parse(&PRODUCT.replacen(old, new, 1)) {
            Ok(kernel) => kernel.verify().unwrap_err().message,
            Err(error) => error.to_string(),
        }
    };
    let messages = [
        refused("a: f16[8]", "a: f16[4]"),
        refused("matrix sum total: f32", "matrix sum total: f16"),
        refused("workgroup(64, 1, 1)", "workgroup(32, 2, 1)"),
        refused("a = left", "a = right_2"),
        refused("a = left", "a = sums"),
        refused("a = left[k * 8] by 8", "a = left[k * 8] by 12"),
        refused("a = left[k * 8] by 8", "a = left[1.0] by 8"),
        refused("total += a * b", "total += b * a"),
        refused("total += a * b", "if subgroup.id == 0 { total += a * b; } barrier"),
        refused("total += a * b", "let x = total"),
        refused("for k in 0..16", "for k in 0..local.x"),
    ];
    assert_snapshot!(messages.join("\n"), @"
    shaders have no left matrix f16[4], the type of `a`
    shaders have no sum matrix f16[8], the type of `total`
    matrices are held by subgroups of workgroups of one dimension alone
    line 21: `right_2` is not declared
    `sums` is f32, and `a` f16, in `a = sums[k * 8] by 8;`
    lines of `a` 12 elements apart, in `a = left[k * 8] by 12;`
    f32 where i32 is wanted, in `a = left[1.0] by 8;`
    a sum of products of a left and a right matrix is wanted, of one size, in `total += b * a;`
    some invocations may not reach this, in `total += a * b;`
    line 23: `total` is a matrix, whose elements no invocation sees
    some invocations may not reach this, in `a = left[k * 8] by 8;`
    ");
}

#[test]
fn constructors_fold_what_is_known() {
    let x = || Expr::local(0);
    assert_eq!((x() + 1 + 2) * 1, x() + 3);
    assert_eq!((Expr::from(6) + 4) * x() * 2, x() * 20);
    assert_eq!((x() * 12).quotient(4), x() * 3);
    assert_eq!((x() * 12).remainder(4), 0.into());
    assert_eq!(x().lt(4).and(Expr::from(3).lt(4)), x().lt(4));
    assert_eq!(Expr::vector(vec![x(), 7.into()]).lane(1), 7.into());
    // Floats do not fold: 0 * x is not 0 for every x.
    assert!(matches!(Expr::from(0.0) * Expr::from(1.0), Expr::Binary(..)));
}

#[test]
fn the_builder_makes_names_unique_and_keeps_the_first_mistake() {
    let mut b = Builder::new("k", [1; 3], [1; 3]);
    let out = b.write("out", Type::I32, 4);
    for _ in 0..2 {
        b.for_("i", 0, 2, 1, |b, i| b.store(out, i, 1));
    }
    b.for_("once", 3, 4, 1, |b, i| b.store(out, i, 1));
    assert_snapshot!(b.finish().unwrap(), @r"
    kernel k workgroup(1, 1, 1) grid(1, 1, 1) {
        write out: i32[4];
        for i in 0..2 {
            out[i] = 1;
        }
        for i_2 in 0..2 {
            out[i_2] = 1;
        }
        out[3] = 1;
    }
    ");

    let mut b = Builder::new("k", [1; 3], [1; 3]);
    b.let_("x", Expr::from(1.0) + Expr::local(0));
    assert_eq!(b.finish().unwrap_err().to_string(), "kernel `k`: `add` of f32 and i32");
}

#[test]
fn deep_nesting_is_refused() {
    let most = 100_000;
    let bodies = [
        format!("let a = {}1{};", "(".repeat(most), ")".repeat(most)),
        format!("let a = 1{};", " + 1".repeat(most)),
        format!("let a = 1{};", " // 2".repeat(most)),
        format!("{}{}", "if true { ".repeat(most), "} ".repeat(most)),
    ];
    for body in bodies {
        let text = format!("kernel k workgroup(1, 1, 1) grid(1, 1, 1) {{ {body} }}");
        let error = Kernel::parse(&text).unwrap_err();
        assert!(error.message.contains("nested deeper"), "{}", error.message);
    }
}
