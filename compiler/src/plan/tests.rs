use crate::dense::Id;
use crate::graph::Graph;
use crate::kernel::Access;
use crate::pipeline;
use crate::plan::{Content, Cost, Plan, Step};
use crate::profile::Profile;

fn optimised(text: &str) -> Graph {
    let mut graph = Graph::parse(text).unwrap();
    graph.verify().unwrap();
    pipeline::optimise(&mut graph);
    graph
}

pub(super) fn plan(text: &str, profile: &Profile) -> Plan {
    let graph = optimised(text);
    pipeline::plan(&graph, profile).unwrap()
}

/// Three dense layers with an activation each, then a softmax. Index names differ, and have no
/// meaning.
const ENCODERS: &str = "\
graph model(%0) -> (Y = %21)
%0 = input X : f32[8, 16]
%1 = weight encoder[0].ff.Kernel : f32[16, 16]
%2 = weight encoder[0].ff.Bias : f32[16]
%3 = weight encoder[1].ff.Kernel : f32[16, 16]
%4 = weight encoder[1].ff.Bias : f32[16]
%5 = weight encoder[2].ff.Kernel : f32[16, 16]
%6 = weight encoder[2].ff.Bias : f32[16]
%7 = constant 0.0 : f32[]
%8 = contract sum [n, u] (n: 0..8, u: 0..16, k: 0..16) { v0 = %0[n, k]; v1 = %1[k, u]; v2 = mul v0 v1; yield v2 } : f32[8, 16]  # Z in Dense at encoder[0].ff
%9 = add %8 %2 : f32[8, 16]  # Z in Dense at encoder[0].ff
%10 = max %9 %7 : f32[8, 16]  # Y in relu at encoder[0].ff
%11 = contract sum [m, n] (m: 0..8, n: 0..16, k: 0..16) { v0 = %10[m, k]; v1 = %3[k, n]; v2 = mul v0 v1; yield v2 } : f32[8, 16]  # Z in Dense at encoder[1].ff
%12 = add %11 %4 : f32[8, 16]  # Z in Dense at encoder[1].ff
%13 = max %12 %7 : f32[8, 16]  # Y in relu at encoder[1].ff
%14 = contract sum [n, u] (n: 0..8, u: 0..16, k: 0..16) { v0 = %13[n, k]; v1 = %5[k, u]; v2 = mul v0 v1; yield v2 } : f32[8, 16]  # Z in Dense at encoder[2].ff
%15 = add %14 %6 : f32[8, 16]  # Z in Dense at encoder[2].ff
%16 = max %15 %7 : f32[8, 16]  # Y in relu at encoder[2].ff
%17 = contract max [n, 0] (n: 0..8, c: 0..16) { v0 = %16[n, c]; yield v0 } : f32[8, 1]  # Max in softmax
%18 = sub %16 %17 : f32[8, 16]  # E in softmax
%19 = exp %18 : f32[8, 16]  # E in softmax
%20 = contract sum [n, 0] (n: 0..8, c: 0..16) { v0 = %19[n, c]; yield v0 } : f32[8, 1]  # Sum in softmax
%21 = div %19 %20 : f32[8, 16]  # Y in softmax
";

#[test]
fn equal_layers_share_a_kernel_and_steps_are_named_by_their_values() {
    insta::assert_snapshot!(plan(ENCODERS, &Profile::generic()), @"
    plan model for generic: 3 steps of 2 kernels
        inputs           512 B  X: f32[8, 16]
        weights         3.3 KB  6 tensors
        temporaries     1.0 KB  2 tensors in 2 slots
        outputs          512 B  Y: f32[8, 16]
        memory          5.3 KB  for all of these
        traffic         6.3 KB  1.00 times the least, 6.3 KB
        operations       13.7K
        time           15.8 ns  at least, with 12.0 TFLOP/s and 400.0 GB/s

    step  value            kernel              type        in       reads  writes  operations    time  operands
       0  encoder[0].ff.Y  dense_relu          f32[8, 16]  slot 0  1.6 KB   512 B        4.4K  5.3 ns  X, encoder[0].ff.Kernel, encoder[0].ff.Bias
       1  encoder[1].ff.Y  dense_relu          f32[8, 16]  slot 1  1.6 KB   512 B        4.4K  5.3 ns  encoder[0].ff.Y, encoder[1].ff.Kernel, encoder[1].ff.Bias
       2  Y                dense_relu_softmax  f32[8, 16]  output  1.6 KB   512 B        5.0K  5.3 ns  encoder[1].ff.Y, encoder[2].ff.Kernel, encoder[2].ff.Bias
    ");
    let shared = |profile: &Profile| {
        plan(ENCODERS, profile).steps.iter().map(|step| step.routine.number()).collect::<Vec<_>>()
    };
    // On a shader profile, the last product is fused with the softmax of its rows.
    assert_eq!(shared(&Profile::generic()), [0, 0, 1]);
    assert_eq!(shared(&Profile::cpu()), [0, 0, 0, 1]);
}

/// Kernels are shared only for equal sizes, types and operations. Names of kernels are distinct.
#[test]
fn kernels_that_differ_are_told_apart() {
    let plan = plan(
        "\
graph g(%0, %1, %2) -> (A = %3, B = %4, C = %5, D = %6)
%0 = input X : f32[4]
%1 = input Z : f32[5]
%2 = input W : f32[4]
%3 = exp %0 : f32[4]  # Y in f
%4 = exp %1 : f32[5]  # Y in f
%5 = sin %0 : f32[4]  # Y_2 in f
%6 = sin %2 : f32[4]  # Y in f
",
        &Profile::generic(),
    );
    let names: Vec<_> = plan.routines.iter().map(|routine| routine.name.as_str()).collect();
    assert_eq!(names, ["f_y", "f_y_2", "f_y_2_2"]);
    for routine in &plan.routines {
        assert_eq!(routine.kernel.as_ref().unwrap().name, routine.name);
    }
    let steps: Vec<_> =
        plan.steps.iter().map(|step| (step.name(), step.routine.number())).collect();
    assert_eq!(
        steps,
        [("Y", 0), ("Y_2", 1), ("Y_2_2", 2), ("Y_3", 2)]
            .map(|(name, routine)| (name.to_owned(), routine))
    );
}

/// Batch normalization after a product: the prelude computes what depends on weights alone, and a
/// run reads it.
#[test]
fn what_depends_on_weights_alone_is_in_the_prelude() {
    let text = "\
graph model(%0) -> (Y = %15, Penalty = %17)
%0 = input X : f32[64, 16]
%1 = weight dense.Kernel : f32[16, 32]
%2 = weight norm.Gamma : f32[32]
%3 = weight norm.Beta : f32[32]
%4 = weight norm.Mean : f32[32]
%5 = weight norm.Variance : f32[32]
%6 = constant 0.001 : f32[]
%7 = contract sum [n, u] (n: 0..64, u: 0..32, k: 0..16) { v0 = %0[n, k]; v1 = %1[k, u]; v2 = mul v0 v1; yield v2 } : f32[64, 32]  # Y in Dense at dense
%8 = add %5 %6 : f32[32]  # Scale in BatchNormalization at norm
%9 = rsqrt %8 : f32[32]  # Scale in BatchNormalization at norm
%10 = mul %2 %9 : f32[32]  # Scale in BatchNormalization at norm
%11 = mul %4 %10 : f32[32]  # Offset in BatchNormalization at norm
%12 = sub %3 %11 : f32[32]  # Offset in BatchNormalization at norm
%13 = mul %7 %10 : f32[64, 32]  # Y in BatchNormalization at norm
%14 = add %13 %12 : f32[64, 32]  # Y in BatchNormalization at norm
%15 = max %14 %6 : f32[64, 32]  # Y in relu at norm
%16 = mul %1 %1 : f32[16, 32]  # Squares in l2
%17 = contract sum [] (k: 0..16, u: 0..32) { v0 = %16[k, u]; yield v0 } : f32[]  # Sum in l2
";
    insta::assert_snapshot!(plan(text, &Profile::generic()), @"
    plan model for generic: 3 steps of 3 kernels, 2 of them once
        inputs          4.1 KB  X: f32[64, 16]
        weights         2.6 KB  5 tensors
        kept             256 B  2 tensors
        outputs         8.2 KB  Y: f32[64, 32], Penalty: f32[]
        memory         15.1 KB  for all of these
        traffic        14.6 KB  1.00 times the least, 14.6 KB
        operations       71.7K
        time           36.5 ns  at least, with 12.0 TFLOP/s and 400.0 GB/s

    step  value                    kernel                          type              in           reads  writes  operations     time  operands
    once, and when weights change:
       0  norm.Scale, norm.Offset  batch_normalization             f32[32], f32[32]  kept, kept   512 B   256 B         160   1.9 ns  norm.Gamma, norm.Variance, norm.Beta, norm.Mean
       1  Sum                      l2_sum                          f32[]             output      2.0 KB     4 B        1.0K   5.1 ns  dense.Kernel
    in each run:
       2  norm.Y                   dense_batch_normalization_relu  f32[64, 32]       output      6.4 KB  8.2 KB       71.7K  36.5 ns  X, dense.Kernel, norm.Scale, norm.Offset
    ");
}

/// The products' operations are those that PyTorch's FlopCounterMode counts: 210, 31104 and 2592.
#[test]
fn costs() {
    let cost = |text: &str| {
        let plan = plan(text, &Profile::cpu());
        assert_eq!(plan.steps.len(), 1);
        let cost = plan.cost();
        assert_eq!(cost, plan.step_cost(&plan.steps[0]));
        cost
    };
    // The sum with the bias and the maximum count one more operation each.
    let dense = cost("\
graph dense(%0) -> (Y = %6)
%0 = input X : f32[5, 7]
%1 = weight Kernel : f32[7, 3]
%2 = weight Bias : f32[3]
%3 = contract sum [m, n] (m: 0..5, n: 0..3, k: 0..7) { v0 = %0[m, k]; v1 = %1[k, n]; v2 = mul v0 v1; yield v2 } : f32[5, 3]
%4 = add %3 %2 : f32[5, 3]
%5 = constant 0.0 : f32[]
%6 = max %4 %5 : f32[5, 3]
");
    assert_eq!(dense, Cost { flops: 210 + 2 * 15, bytes: 4 * (35 + 21 + 3 + 15) });
    let convolution = cost("\
graph conv(%0) -> (Y = %2)
%0 = input Image : f32[1, 8, 8, 3]
%1 = weight Kernel : f32[3, 3, 3, 16]
%2 = contract sum [0, y, x, o] (y: 0..6, x: 0..6, o: 0..16, j: 0..3, i: 0..3, c: 0..3) { v0 = %0[0, y + j, x + i, c]; v1 = %1[j, i, c, o]; v2 = mul v0 v1; yield v2 } : f32[1, 6, 6, 16]
");
    assert_eq!(convolution, Cost { flops: 31104, bytes: 4 * (192 + 432 + 576) });
    let depthwise = cost("\
graph conv(%0) -> (Y = %2)
%0 = input Image : f32[1, 8, 8, 4]
%1 = weight Kernel : f32[3, 3, 4]
%2 = contract sum [0, y, x, c] (y: 0..6, x: 0..6, c: 0..4, j: 0..3, i: 0..3) { v0 = %0[0, y + j, x + i, c]; v1 = %1[j, i, c]; v2 = mul v0 v1; yield v2 } : f32[1, 6, 6, 4]
");
    assert_eq!(depthwise, Cost { flops: 2592, bytes: 4 * (256 + 36 + 144) });
    // Arithmetic on indices and integers, selects and conversions are no floating-point operations.
    let choice = cost(
        "\
graph choice(%0, %1) -> (Y = %5)
%0 = input X : f32[6]
%1 = input I : i32[6]
%2 = add %1 %1 : i32[6]
%3 = cmp_lt %2 %1 : bool[6]
%4 = exp %0 : f32[6]
%5 = select %3 %4 %0 : f32[6]
",
    );
    assert_eq!(choice, Cost { flops: 6, bytes: 4 * 18 });
}

/// A plan's cost excludes the traffic of intermediate results; a step's cost includes it.
#[test]
fn costs_of_steps() {
    let plan = plan(ENCODERS, &Profile::generic());
    let steps = plan
        .steps
        .iter()
        .map(|step| plan.step_cost(step))
        .fold(Cost::default(), std::ops::Add::add);
    let lasting = 4 * (8 * 16 + 3 * (16 * 16 + 16) + 8 * 16);
    let temporary = |reads: u64, elements: u64| 4 * (1 + reads) * elements;
    // The result of each layer, except for the last, is read by one step.
    let between = 2 * temporary(1, 128);
    assert_eq!((plan.cost().bytes, steps.bytes), (lasting, lasting + between));
    assert_eq!(plan.cost().flops, steps.flops);
    // Three dense layers, the maxima, the differences and exponentials, the sums, the quotients.
    assert_eq!(steps.flops, 3 * (2 * 8 * 16 * 16 + 2 * 128) + 128 + 2 * 128 + 128 + 128);
}
/// Returns a recurrent layer over [batch, time, unit], and the sum of its states.
fn recurrent(length: usize) -> String {
    format!(
        "\
graph rnn(%0, %1) -> (All = %8, Last = %7)
%0 = input X : f32[4, {length}, 16]
%1 = input Start : f32[4, 16]
%2 = weight rnn.Kernel : f32[16, 16]
%3 = weight rnn.RecurrentKernel : f32[16, 16]
%4 = contract sum [b, t, u] (b: 0..4, t: 0..{length}, u: 0..16, k: 0..16) {{ v0 = %0[b, t, k]; v1 = %2[k, u]; v2 = mul v0 v1; yield v2 }} : f32[4, {length}, 16]  # Z
%5 = neg %1 : f32[4, 16]
%6 = scan {length} sequences (%4 along 1) carries (%5) captures (%3) yields (along 1) {{
    graph step(%0, %1, %2) -> (H = %5, All = %5)
    %0 = input Zt : f32[4, 16]
    %1 = input H : f32[4, 16]
    %2 = input U : f32[16, 16]
    %3 = contract sum [b, u] (b: 0..4, u: 0..16, k: 0..16) {{ v0 = %1[b, k]; v1 = %2[k, u]; v2 = mul v0 v1; yield v2 }} : f32[4, 16]
    %4 = add %0 %3 : f32[4, 16]
    %5 = tanh %4 : f32[4, 16]  # H in SimpleRNN at rnn
}} : f32[4, 16]
%7 = result 0 %6 : f32[4, 16]
%8 = result 1 %6 : f32[4, {length}, 16]
"
    )
}

#[test]
fn a_scan_is_a_loop_of_the_same_kernels_at_every_length() {
    insta::assert_snapshot!(plan(&recurrent(500), &Profile::generic()), @"
    plan rnn for generic: 3 steps of 3 kernels
        inputs        128.3 KB  X: f32[4, 500, 16], Start: f32[4, 16]
        weights         2.0 KB  2 tensors
        temporaries   128.5 KB  3 tensors in 3 slots
        outputs       128.3 KB  All: f32[4, 500, 16], Last: f32[4, 16]
        memory        387.1 KB  for all of these
        traffic         1.3 MB  1.66 times the least, 770.6 KB
        operations        2.1M
        time            3.2 µs  at least, with 12.0 TFLOP/s and 400.0 GB/s

    step  value    kernel        type                         in                reads    writes  operations      time  operands
       0  Z        z             f32[4, 500, 16]              slot 0         129.0 KB  128.0 KB        1.0M  642.6 ns  X, rnn.Kernel
       1  %5       value         f32[4, 16]                   slot 1            256 B     256 B          64    1.3 ns  Start
          500 times, carrying H:
       2    rnn.H  simple_rnn_h  f32[4, 16], f32[4, 500, 16]  carry, output    1.5 KB     512 B        2.2K    5.1 ns  H, rnn.RecurrentKernel, Z
    ");
    for profile in [Profile::generic(), Profile::cpu()] {
        let plans = [1, 5, 500].map(|length| plan(&recurrent(length), &profile));
        for (plan, length) in plans.iter().zip([1, 5, 500]) {
            let names: Vec<_> = plan.routines.iter().map(|routine| &routine.name).collect();
            assert_eq!(
                names,
                plans[0].routines.iter().map(|routine| &routine.name).collect::<Vec<_>>()
            );
            assert_eq!((plan.steps.len(), plan.loops[0].length), (plans[0].steps.len(), length));
            let mut launches = 0;
            plan.launches(|_| {
                launches += 1;
                Ok::<(), ()>(())
            })
            .unwrap();
            assert_eq!(launches, 2 + length);
        }
    }
    let none = plan(&recurrent(0), &Profile::generic());
    assert_eq!((none.steps.len(), none.loops.len()), (1, 0));
}

/// The slices of the sequence and of the stacked result have positions that depend on the turn.
#[test]
fn a_nest_of_a_loop() {
    let plan = plan(&recurrent(500), &Profile::generic());
    let routine = &plan.routines[plan.steps[plan.loops[0].steps.start].routine];
    insta::assert_snapshot!(routine, @"
    schedule contraction block 16x16x16 thread 2x2 warp 8 buffers 1 band 1
    launch [1, 1, 1] workgroups of [64, 1, 1]
    nest simple_rnn_h [b: 4, u: 16] sum [k: 16] in loops [t: 500]
      in0: f32[4, 16]
      in1: f32[16, 16]
      in2: f32[4, 500, 16]
      out0: f32[4, 16]
      out1[8000*b + u + 16*t]: f32[4, 500, 16]
      body
        v0 = in0[16*b + k] : f32
        v1 = in1[u + 16*k] : f32
        v2 = mul v0 v1 : f32
        yield v2
      epilogue
        v0 = in2[8000*b + u + 16*t] : f32
        v1 = accumulator : f32
        v2 = add v0 v1 : f32
        v3 = tanh v2 : f32
        yield v3 v3
    ");
}

#[test]
fn a_chain_of_temporaries_needs_two_slots() {
    let text = "\
graph g(%0) -> (Y = %4)
%0 = input X : f32[4, 8]
%1 = contract sum [i] (i: 0..4, k: 0..8) { v0 = %0[i, k]; yield v0 } : f32[4]
%2 = contract max [i, j] (i: 0..4, j: 0..8, k: 0..4) { v0 = %1[k]; v1 = %0[i, j]; v2 = mul v0 v1; yield v2 } : f32[4, 8]
%3 = contract min [i] (i: 0..2, j: 0..8, k: 0..4) { v0 = %2[k, j]; v1 = %2[i, j]; v2 = mul v0 v1; yield v2 } : f32[2]
%4 = contract sum [i] (i: 0..3, k: 0..2) { v0 = %3[k]; v1 = exp v0; yield v1 } : f32[3]
";
    let plan = plan(text, &Profile::generic());
    let of = |step: &Step| plan.buffers[step.outputs[0]].content.clone();
    let temporary = |slot| Content::Temporary { slot };
    assert_eq!(
        plan.steps.iter().map(of).collect::<Vec<_>>(),
        [temporary(0), temporary(1), temporary(0), Content::Output]
    );
    assert_eq!(plan.slots, [16, 128]);
}

/// Returns the plan of a step that updates its weights, and for each weight whether its next value
/// is written over it.
pub(super) fn updates(text: &str) -> (Plan, Vec<bool>) {
    let graph = optimised(text);
    let plan = pipeline::plan_updates(&graph, &Profile::generic()).unwrap();
    let is_over = |&(weight, output): &(usize, usize)| {
        let weight = plan.weights[weight].buffer;
        plan.buffers[plan.outputs[output].buffer].content == Content::Over { weight }
    };
    let over = plan.updates.iter().map(is_over).collect();
    (plan, over)
}

#[test]
fn a_weight_is_written_over_once_nothing_reads_it() {
    // The gradient of X needs the old W, so it is computed first.
    let text = "\
graph step(%0, %1) -> (DX = %7, W = %6)
%0 = input X : f32[8, 4]
%1 = input G : f32[8, 6]
%2 = weight W : f32[4, 6]
%3 = contract sum [k, u] (k: 0..4, u: 0..6, n: 0..8) { v0 = %0[n, k]; v1 = %1[n, u]; v2 = mul v0 v1; yield v2 } : f32[4, 6]  # DW
%4 = constant 0.1 : f32[]
%5 = mul %3 %4 : f32[4, 6]
%6 = sub %2 %5 : f32[4, 6]  # Next
%7 = contract sum [n, k] (n: 0..8, k: 0..4, u: 0..6) { v0 = %1[n, u]; v1 = %2[k, u]; v2 = mul v0 v1; yield v2 } : f32[8, 4]  # DX
";
    let (plan, over) = updates(text);
    assert_eq!(over, [true]);
    assert_eq!(plan.steps.iter().map(|step| step.name()).collect::<Vec<_>>(), ["DX", "Next"]);
    let routine = &plan.routines[plan.steps[1].routine];
    let operand = routine.over(0).unwrap();
    assert_eq!(plan.steps[1].operands[operand], plan.weights[0].buffer);
    assert_eq!(routine.kernel.as_ref().unwrap().buffers[operand].access, Access::Update);
    // If updates are not requested, or the device has no kernels, the next value has memory of its
    // own.
    assert_eq!(plan.steps.len(), self::plan(text, &Profile::generic()).steps.len());
    assert!(
        self::plan(text, &Profile::generic())
            .buffers
            .iter()
            .all(|buffer| !matches!(buffer.content, Content::Over { .. }))
    );
}

#[test]
fn a_weight_that_is_read_elsewhere_is_not_written_over() {
    // Each next value depends on the other weight, so one of the two must be kept.
    let (_, over) = updates(
        "\
graph step() -> (A = %2, B = %3)
%0 = weight A : f32[8]
%1 = weight B : f32[8]
%2 = exp %1 : f32[8]
%3 = sin %0 : f32[8]
",
    );
    assert_eq!(over, [true, false]);
    // A is transposed, so it is not read in place; B is also an output.
    let (_, over) = updates(
        "\
graph step() -> (A = %2, B = %3, Old = %1)
%0 = weight A : f32[4, 4]
%1 = weight B : f32[8]
%2 = contract assign [i, j] (i: 0..4, j: 0..4) { v0 = %0[j, i]; yield v0 } : f32[4, 4]
%3 = exp %1 : f32[8]
",
    );
    assert_eq!(over, [false, false]);
}

/// D is read by Y, by Z and by a statistic, which are all in one kernel: no other kernel reads it,
/// so it is not stored.
#[test]
fn what_a_kernel_alone_reads_is_not_stored() {
    const ROWS: &str = "\
graph rows(%0, %1) -> (Y = %5, Z = %7)
%0 = input X : f32[8, 1024]
%1 = input U : f32[8, 1]
%2 = contract max [n, 0] (n: 0..8, m: 0..1024) { v0 = %0[n, m]; yield v0 } : f32[8, 1]  # T
%3 = sub %0 %2 : f32[8, 1024]  # D
%4 = contract sum [n, 0] (n: 0..8, m: 0..1024) { v0 = %3[n, m]; yield v0 } : f32[8, 1]  # S
%5 = mul %3 %1 : f32[8, 1024]  # Y
%6 = add %5 %3 : f32[8, 1024]  # Z
%7 = add %6 %4 : f32[8, 1024]  # Z
";
    let plan = plan(ROWS, &Profile::generic());
    let stored: Vec<&[String]> = plan.steps.iter().map(|step| &step.values[..]).collect();
    assert_eq!(stored, [["Y", "Z"]]);
}
