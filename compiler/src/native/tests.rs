//! Programs of small graphs as text, and broken programs.

use super::{Action, Implementation, NativeProgram, ProductBlocks, TapeStep};
use crate::graph::Graph;
use crate::pipeline;
use crate::profile::Profile;

/// Returns the native programs of a graph.
fn programs(text: &str) -> Vec<NativeProgram> {
    let mut graph = Graph::parse(text).unwrap();
    graph.verify().unwrap();
    pipeline::optimise(&mut graph);
    let plan = pipeline::plan(&graph, &Profile::cpu()).unwrap();
    let programs = plan.routines.iter().filter_map(|routine| routine.native.as_deref().cloned());
    let programs: Vec<NativeProgram> = programs.collect();
    for program in &programs {
        assert_eq!(program.verify(), Ok(()));
        assert_eq!(program.to_string().parse().as_ref(), Ok(program));
    }
    programs
}

/// Returns the program of a graph that has statistics, or else the first one.
fn program(text: &str) -> NativeProgram {
    let mut programs = programs(text);
    let number =
        programs.iter().position(|program| program.epilogue.row_length.is_some()).unwrap_or(0);
    programs.swap_remove(number)
}

const DENSE: &str = "\
graph dense(%0) -> (Y = %6)
%0 = input X : f32[32, 48]
%1 = weight W : f32[48, 64]
%2 = weight B : f32[64]
%3 = contract sum [n, u] (n: 0..32, u: 0..64, k: 0..48) { v0 = %0[n, k]; v1 = %1[k, u]; v2 = mul v0 v1; yield v2 } : f32[32, 64]
%4 = add %3 %2 : f32[32, 64]
%5 = constant 0.0 : f32[]
%6 = max %4 %5 : f32[32, 64]
";

const SOFTMAX: &str = "\
graph softmax(%0) -> (Y = %8)
%0 = input X : f32[4, 80]
%1 = contract max [n] (n: 0..4, k: 0..80) { v0 = %0[n, k]; yield v0 } : f32[4]
%2 = reshape %1 : f32[4, 1]
%3 = sub %0 %2 : f32[4, 80]
%4 = exp %3 : f32[4, 80]
%5 = contract sum [n] (n: 0..4, k: 0..80) { v0 = %4[n, k]; yield v0 } : f32[4]
%6 = reshape %5 : f32[4, 1]
%8 = div %4 %6 : f32[4, 80]
";

const GATHERED: &str = "\
graph gathered(%0, %1) -> (Y = %2)
%0 = input T : i32[20]
%1 = input X : f32[20, 32]
%2 = contract sum [v, d] (v: 0..100, d: 0..32, n: 0..20) { v0 = %0[n]; v1 = index v; v2 = cmp_eq v0 v1; v3 = %1[n, d]; yield v3 v2 } : f32[100, 32]
";

const RUNNING: &str = "\
graph running(%0) -> (Y = %1)
%0 = input X : f32[3, 50, 7]
%1 = contract sum [b, n, c] (b: 0..3, n: 0..50, c: 0..7, k: 0..50) where k - n - 1 >= 0 { v0 = %0[b, k, c]; yield v0 } : f32[3, 50, 7]
";

#[test]
fn running() {
    let Implementation::Running(running) = program(RUNNING).implementation else {
        panic!("a running sum")
    };
    assert_eq!((running.axis, running.reversed, running.added), (1, true, 0..49));
}

#[test]
fn dense() {
    insta::assert_snapshot!(program(DENSE));
}

#[test]
fn softmax() {
    insta::assert_snapshot!(program(SOFTMAX));
}

#[test]
fn gathered() {
    insta::assert_snapshot!(program(GATHERED));
}

#[test]
fn broken_programs_are_refused() {
    let fault = |text: &str, change: &dyn Fn(&mut NativeProgram)| {
        let mut program = program(text);
        change(&mut program);
        program.verify().unwrap_err()
    };
    let operand = fault(DENSE, &|program| drop(program.operands.pop()));
    assert!(operand.ends_with("reads in2, which there is not"), "{operand}");
    let order = fault(SOFTMAX, &|program| program.epilogue.steps.reverse());
    assert!(order.ends_with("is read before it is made"), "{order}");
    let small = fault(SOFTMAX, &|program| program.epilogue.registers[2] = 3);
    assert!(small.contains("bytes in r2, which has 3"), "{small}");
    let shared = fault(SOFTMAX, &|program| {
        let Some(TapeStep { action: Action::Chain(chain), .. }) = program.epilogue.steps.last_mut()
        else {
            panic!("a chain at the end")
        };
        chain.registers.iter_mut().for_each(|(_, register)| *register = 0);
    });
    assert!(shared.contains("in r0, which the caller fills"), "{shared}");
    let types = fault(GATHERED, &|program| {
        let Implementation::Scatter(scatter) = &mut program.implementation else {
            panic!("a scatter")
        };
        scatter.key.dtypes.iter_mut().for_each(|dtype| *dtype = crate::dtype::DType::F32);
    });
    assert!(types.ends_with("reads i32[20]"), "{types}");
    let blocks = |change: &dyn Fn(&mut ProductBlocks)| {
        fault(DENSE, &|program| {
            let Implementation::Product(product) = &mut program.implementation else {
                panic!("a product")
            };
            change(&mut product.blocks);
        })
    };
    assert!(blocks(&|blocks| blocks.terms = 0).ends_with("blocks of 0 terms"));
    assert!(blocks(&|blocks| blocks.terms = 385).ends_with("blocks of 385 terms"));
    assert!(blocks(&|blocks| blocks.rows = 1025).ends_with("blocks of 1025 rows"));
    let pace = fault(DENSE, &|program| program.extents[0] = 31);
    assert!(pace.ends_with("a space has other extents than its axes"), "{pace}");
}

#[test]
fn wrong_texts_are_refused() {
    let text = program(DENSE).to_string();
    let refused = |from: &str, to: &str| {
        assert!(text.contains(from), "{text}");
        text.replacen(from, to, 1).parse::<NativeProgram>().unwrap_err().to_string()
    };
    assert_eq!(refused("product f32", "produce f32"), "line 6: `produce` is not an implementation");
    assert_eq!(refused("a1]", "a9]"), "line 20: `a9` is not a variable here");
}
