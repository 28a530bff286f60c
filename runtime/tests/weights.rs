//! Tests of weights through the public API, on every device of this machine.
#![cfg(feature = "weights")]

use tile_compiler::graph::Graph;
use tile_runtime::{Blame, Device, Error, Session, Tensor};

fn devices() -> impl Iterator<Item = Device> {
    ["reference", "cpu", "check", "wgpu:0"].into_iter().filter_map(|name| Device::named(name).ok())
}

fn vector(values: [f32; 2]) -> Tensor {
    Tensor::from_f32([2], &values).unwrap()
}

fn session(text: &str, device: &Device) -> Session {
    Session::of_graph(Graph::parse(text).unwrap(), device).unwrap()
}

/// `Y = X * Kernel + Bias`
const DENSE: &str = "\
graph dense(%0) -> (Y = %4)
%0 = input X : f32[2]
%1 = weight dense.Kernel : f32[2]
%2 = weight dense.Bias : f32[2]
%3 = mul %0 %1 : f32[2]
%4 = add %3 %2 : f32[2]
";

#[test]
fn weights_stay_once_they_are_given() {
    for device in devices() {
        let mut session = session(DENSE, &device);
        let x = vector([1.0, 2.0]);
        assert_eq!(
            session.weights().map(|(path, _)| path).collect::<Vec<_>>(),
            ["dense.Kernel", "dense.Bias"]
        );
        session.set("dense.Kernel", &vector([2.0, 3.0])).unwrap();
        let missing = session.run([("X", &x)]);
        assert!(matches!(missing, Err(Error::MissingWeight { path, .. }) if path == "dense.Bias"));
        // A weight given to a run persists. An input does not.
        let outputs = session.run([("X", &x), ("dense.Bias", &vector([0.5, 0.5]))]);
        assert_eq!(outputs.unwrap().remove("Y").unwrap(), vector([2.5, 6.5]));
        assert!(matches!(session.execute(), Err(Error::MissingInput { name, .. }) if name == "X"));
        session.set("dense.Bias", &vector([0.0, 1.0])).unwrap();
        assert_eq!(session.run([("X", &x)]).unwrap().remove("Y").unwrap(), vector([2.0, 7.0]));
    }
}

#[test]
fn what_is_given_wrongly_is_said_by_path() {
    let mut session = session(DENSE, &Device::cpu());
    let mut error = |given: &[(&str, &Tensor)]| {
        let error = session.run(given.iter().copied()).unwrap_err();
        assert_eq!(error.blame(), Blame::Input);
        error.to_string()
    };
    let (x, wrong) = (vector([1.0, 2.0]), Tensor::from_f32([3], &[0.0; 3]).unwrap());
    insta::assert_snapshot!(error(&[("X", &x)]), @"weight `dense.Kernel` has no value yet; it is f32[2]");
    insta::assert_snapshot!(error(&[("dense.Kernal", &x)]), @"there is no input or weight `dense.Kernal`; did you mean `dense.Kernel`?");
    insta::assert_snapshot!(error(&[("Z", &x)]), @"there is no input or weight `Z`; the inputs are X");
    insta::assert_snapshot!(error(&[("dense.Bias", &wrong)]), @"weight `dense.Bias` must be f32[2], but is f32[3]");
}

/// Results that depend only on weights are computed once for many runs, and again if a weight
/// changes.
#[test]
fn results_follow_the_weights() {
    let text = "\
graph norm(%0) -> (Y = %7, Scale = %5)
%0 = input X : f32[2]
%1 = weight Gamma : f32[2]
%2 = weight Deviation : f32[2]
%3 = constant 1.0 : f32[]
%4 = add %2 %3 : f32[2]  # Shifted
%5 = div %1 %4 : f32[2]  # Scale
%6 = mul %0 %5 : f32[2]
%7 = add %6 %4 : f32[2]
";
    for device in devices() {
        let mut session = session(text, &device);
        session.set("Gamma", &vector([4.0, 6.0])).unwrap();
        session.set("Deviation", &vector([1.0, 2.0])).unwrap();
        for (x, y) in [([1.0, 1.0], [4.0, 5.0]), ([2.0, 3.0], [6.0, 9.0])] {
            let mut outputs = session.run([("X", vector(x))]).unwrap();
            assert_eq!(outputs.remove("Y").unwrap(), vector(y), "{}", device.name());
            assert_eq!(outputs.remove("Scale").unwrap(), vector([2.0, 2.0]));
        }
        session.set("Gamma", &vector([8.0, 9.0])).unwrap();
        session.set("X", &vector([1.0, 1.0])).unwrap();
        for _ in 0..2 {
            session.execute().unwrap();
            let mut outputs = session.read().unwrap();
            assert_eq!(outputs.remove("Y").unwrap(), vector([6.0, 6.0]), "{}", device.name());
            assert_eq!(outputs.remove("Scale").unwrap(), vector([4.0, 3.0]));
        }
    }
}
