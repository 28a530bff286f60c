use crate::graph::Graph;
use crate::pipeline;
use crate::plan::Plan;
use crate::profile::Profile;

fn plan(text: &str, profile: &Profile) -> Plan {
    let mut graph = Graph::parse(text).unwrap();
    graph.verify().unwrap();
    pipeline::optimise(&mut graph);
    pipeline::plan(&graph, profile).unwrap()
}

/// Two encoders of one dense layer with an activation each, then a softmax. Index names differ and mean nothing.
const ENCODERS: &str = "\
graph model(%0) -> (Y = %16)
%0 = input X : f32[8, 16]
%1 = weight encoder[0].ff.Kernel : f32[16, 16]
%2 = weight encoder[0].ff.Bias : f32[16]
%3 = weight encoder[1].ff.Kernel : f32[16, 16]
%4 = weight encoder[1].ff.Bias : f32[16]
%5 = constant 0.0 : f32[]
%6 = contract sum [n, u] (n: 0..8, u: 0..16, k: 0..16) { v0 = %0[n, k]; v1 = %1[k, u]; v2 = mul v0 v1; yield v2 } : f32[8, 16]  # Z in Dense at encoder[0].ff
%7 = add %6 %2 : f32[8, 16]  # Z in Dense at encoder[0].ff
%8 = max %7 %5 : f32[8, 16]  # Y in relu at encoder[0].ff
%9 = contract sum [m, n] (m: 0..8, n: 0..16, k: 0..16) { v0 = %8[m, k]; v1 = %3[k, n]; v2 = mul v0 v1; yield v2 } : f32[8, 16]  # Z in Dense at encoder[1].ff
%10 = add %9 %4 : f32[8, 16]  # Z in Dense at encoder[1].ff
%11 = max %10 %5 : f32[8, 16]  # Y in relu at encoder[1].ff
%12 = contract max [n, 0] (n: 0..8, c: 0..16) { v0 = %11[n, c]; yield v0 } : f32[8, 1]  # Max in softmax
%13 = sub %11 %12 : f32[8, 16]  # E in softmax
%14 = exp %13 : f32[8, 16]  # E in softmax
%15 = contract sum [n, 0] (n: 0..8, c: 0..16) { v0 = %14[n, c]; yield v0 } : f32[8, 1]  # Sum in softmax
%16 = div %14 %15 : f32[8, 16]  # Y in softmax
";

#[test]
fn equal_layers_share_a_kernel_and_steps_are_named_by_their_values() {
    insta::assert_snapshot!(plan(ENCODERS, &Profile::generic()), @"
    plan model for generic: 6 steps of 5 kernels
        inputs           512 B  X: f32[8, 16]
        weights         2.2 KB  4 tensors
        temporaries     1.5 KB  5 tensors in 3 slots
        outputs          512 B  Y: f32[8, 16]

    step  value            kernel       type        in       reads  writes  operands
       0  encoder[0].ff.Y  dense_relu   f32[8, 16]  slot 0  1.6 KB   512 B  X, encoder[0].ff.Kernel, encoder[0].ff.Bias
       1  encoder[1].ff.Y  dense_relu   f32[8, 16]  slot 1  1.6 KB   512 B  encoder[0].ff.Y, encoder[1].ff.Kernel, encoder[1].ff.Bias
       2  Max              softmax_max  f32[8, 1]   slot 0   512 B    32 B  encoder[1].ff.Y
       3  E                softmax_e    f32[8, 16]  slot 2   544 B   512 B  encoder[1].ff.Y, Max
       4  Sum              softmax_sum  f32[8, 1]   slot 1   512 B    32 B  E
       5  Y                softmax_y    f32[8, 16]  output   544 B   512 B  E, Sum
    ");
    let shared = |profile: &Profile| plan(ENCODERS, profile).steps.iter().map(|step| step.routine).collect::<Vec<_>>();
    assert_eq!(shared(&Profile::generic()), [0, 0, 1, 2, 3, 4]);
    assert_eq!(shared(&Profile::cpu()), [0, 0, 1, 2, 3, 4]);
}

/// Sizes, types and operations are part of what a kernel computes; names of kernels are distinct all the same.
#[test]
fn kernels_that_differ_are_told_apart() {
    let plan = plan(
        "\
graph g(%0, %1) -> (A = %2, B = %3, C = %4, D = %5)
%0 = input X : f32[4]
%1 = input Z : f32[5]
%2 = exp %0 : f32[4]  # Y in f
%3 = exp %1 : f32[5]  # Y in f
%4 = sin %0 : f32[4]  # Y_2 in f
%5 = sin %2 : f32[4]  # Y in f
",
        &Profile::generic(),
    );
    let names: Vec<_> = plan.routines.iter().map(|routine| routine.name.as_str()).collect();
    assert_eq!(names, ["f_y", "f_y_2", "f_y_2_2"]);
    for routine in &plan.routines {
        assert_eq!(routine.kernel.as_ref().unwrap().name, routine.name);
    }
    let steps: Vec<_> = plan.steps.iter().map(|step| (step.name.as_str(), step.routine)).collect();
    assert_eq!(steps, [("Y", 0), ("Y_2", 1), ("Y_2_2", 2), ("Y_3", 2)]);
}

/// A recurrent layer over [batch, time, unit], and the sum of its states.
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

    step  value    kernel        type                         in                reads    writes  operands
       0  Z        z             f32[4, 500, 16]              slot 0         129.0 KB  128.0 KB  X, rnn.Kernel
       1  %5       value         f32[4, 16]                   slot 1            256 B     256 B  Start
          500 times, carrying H:
       2    rnn.H  simple_rnn_h  f32[4, 16], f32[4, 500, 16]  carry, output    1.5 KB     512 B  H, rnn.RecurrentKernel, Z
    ");
    for profile in [Profile::generic(), Profile::cpu()] {
        let plans = [1, 5, 500].map(|length| plan(&recurrent(length), &profile));
        for (plan, length) in plans.iter().zip([1, 5, 500]) {
            let names: Vec<_> = plan.routines.iter().map(|routine| &routine.name).collect();
            assert_eq!(names, plans[0].routines.iter().map(|routine| &routine.name).collect::<Vec<_>>());
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

/// The slices of the sequence and of the stacked result are at positions that move with the turn.
#[test]
fn a_nest_of_a_loop() {
    let plan = plan(&recurrent(500), &Profile::generic());
    let routine = &plan.routines[plan.steps[plan.loops[0].steps.start].routine];
    insta::assert_snapshot!(routine, @"
    schedule contraction block 16x16x16 thread 2x2
    launch [1, 1, 1] workgroups of [8, 8, 1]
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
