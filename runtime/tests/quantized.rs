//! Programs whose weights are stored as 8-bit integers with scales, and 8-bit weights of programs
//! themselves, of which a GPU has four in a word.
#![cfg(feature = "compile")]

mod narrow;

use narrow::{bytes, devices, distance, inputs};
use tile_compiler::graph::Graph;
use tile_runtime::{DType, Device, Model, Scalar, Session, Tensor, TensorType};

/// A table that is the matrix of scores, too; a loop, a convolution, and products with few and with
/// an odd number of columns.
const MODEL: &str = "
    layer Tied(words, width)(Words[N, L], Hidden[N, D]) -> (Rows, Scores) {
        param Table[words, width] = random_uniform;
        Rows[n, l, d: N, L, width] = =(Table[Words[n, l], d]);
        Scores[n, w: N, words] = +(Hidden[n, d] * Table[w, d]);
    }
    model Net(Words[N, L], Image[N, 9, 9, 5]) -> (Y, Picture, Scores) {
        Picture = Image |> Conv2D(11, 3, activation = \"relu\") |> LayerNormalization();
        Flat = Picture |> Flatten() |> Dense(33);
        Rows, Scores = Tied(101, 40)(Words, Flat |> Dense(40));
        State = Rows |> LSTM(33);
        Y = (State + Flat) |> Dense(7) |> Softmax();
    }";

fn build(model: &Model, device: &Device, quantize: bool) -> Session {
    let builder = model.on(device).input("Words", TensorType::new(DType::I32, [3, 4]));
    let mut session = builder.dim("N", 3).quantize_weights(quantize).build().unwrap();
    session.initialise(5).unwrap();
    session
}

fn run(session: &mut Session) -> Vec<Tensor> {
    let inputs = inputs();
    let outputs = session.run(inputs.each_ref().map(|(name, value)| (*name, value))).unwrap();
    outputs.iter().map(|(_, tensor)| tensor.clone()).collect()
}

#[test]
fn results_are_those_of_the_rounded_weights() {
    let model = Model::compile(MODEL).unwrap();
    for device in devices() {
        let (mut wide, mut narrow) = (build(&model, &device, false), build(&model, &device, true));
        assert!(wide.weights().eq(narrow.weights()) && wide.outputs().eq(narrow.outputs()));
        let exact = run(&mut wide);
        let paths: Vec<String> = wide.weights().map(|(path, _)| path.to_owned()).collect();
        let mut rounded = 0;
        for path in &paths {
            let (own, value) = (wide.get(path).unwrap(), narrow.get(path).unwrap());
            // Half a step of a scale, which has 127 of them.
            assert!(distance(&value, &own) < 0.51 / 127.0 || own == value, "{path}");
            rounded += usize::from(own != value);
            wide.set(path, &value).unwrap();
        }
        assert_eq!(rounded, 7, "the kernels and the table");
        let (expected, found) = (run(&mut wide), run(&mut narrow));
        for ((found, expected), exact) in found.iter().zip(&expected).zip(&exact) {
            // Sums of up to 539 terms, in another order.
            assert!(distance(found, expected) < 1e-5, "{}", device.name());
            assert!(found != exact && distance(found, exact) < 0.05);
        }
        let (Some(plan), Some(whole)) = (narrow.plan(), wide.plan()) else { continue };
        // Biases stay f32.
        assert!(bytes(plan) * 10 < bytes(whole) * 6, "{plan}\n{whole}");
    }
}

#[test]
fn weights_are_shared_and_set_in_f32() {
    let model = Model::compile(MODEL).unwrap();
    for device in devices() {
        let narrow = build(&model, &device, true);
        for quantize in [false, true] {
            let builder = model.on(&device).input("Words", TensorType::new(DType::I32, [3, 4]));
            let builder = builder.dim("N", 3).quantize_weights(quantize);
            let mut session = builder.weights_of(&narrow).build().unwrap();
            let paths: Vec<String> = narrow.weights().map(|(path, _)| path.to_owned()).collect();
            for path in &paths {
                let (own, other) = (session.get(path).unwrap(), narrow.get(path).unwrap());
                assert!(own == other || distance(&own, &other) < 1e-6, "{path}");
            }
            let path = narrow.weights().find(|(_, ty)| ty.shape == [33, 7]).unwrap().0.to_owned();
            let other = Tensor::from_f32([33, 7], &[0.1; 231]).unwrap();
            session.set(&path, &other).unwrap();
            assert_eq!(session.get(&path).unwrap().to_f64s()[230] as f32, 0.1);
        }
    }
}

/// Weights of 8 bits are read alone, in pairs and in fours, wherever a row begins.
#[test]
fn weights_of_8_bits_have_their_values() {
    for device in devices() {
        for (dtype, least) in [(DType::I8, -128i64), (DType::U8, 0)] {
            for columns in [1usize, 2, 3, 4, 5, 6, 8, 12, 13, 64] {
                let text = format!(
                    "graph f(%0, %3) -> (Row = %4, Sum = %5, All = %6, Last = %8)\n\
                     %0 = input X : f32[6, 7]\n\
                     %1 = weight W : {dtype}[7, {columns}]\n\
                     %2 = cast %1 : f32[7, {columns}]\n\
                     %3 = input I : i32[2]\n\
                     %4 = contract assign [i, u] (i: 0..2, u: 0..{columns}) {{ @0 = %3[i]; v0 = %1[@0, u]; yield v0 }} : {dtype}[2, {columns}]\n\
                     %5 = contract sum [n, u] (n: 0..6, u: 0..{columns}, k: 0..7) {{ v0 = %0[n, k]; v1 = %2[k, u]; v2 = mul v0 v1; yield v2 }} : f32[6, {columns}]\n\
                     %6 = contract sum [k] (k: 0..7, u: 0..{columns}) {{ v0 = %2[k, u]; yield v0 }} : f32[7]\n\
                     %7 = scan 3 sequences () carries (%1) captures () yields () {{\n\
                         graph step(%0) -> (w = %1)\n\
                         %0 = input w : {dtype}[7, {columns}]\n\
                         %1 = add %0 %0 : {dtype}[7, {columns}]\n\
                     }} : {dtype}[7, {columns}]\n\
                     %8 = result 0 %7 : {dtype}[7, {columns}]\n"
                );
                let graph = Graph::parse(&text).unwrap();
                let mut session = Session::of_graph(graph, &device).unwrap();
                let value = |at: usize| least + (at * 37 % 256) as i64;
                let scalars = (0..7 * columns).map(|at| Scalar::from_i64(dtype, value(at)));
                let weight = TensorType::new(dtype, [7, columns]);
                session.set("W", &Tensor::from_scalars(weight, scalars).unwrap()).unwrap();
                let x: Vec<f32> = (0..42).map(|at| (at % 5) as f32 - 2.0).collect();
                let index = TensorType::new(DType::I32, [2]);
                let index = Tensor::from_scalars(index, [6, 3].map(Scalar::i32)).unwrap();
                let x = Tensor::from_f32([6, 7], &x).unwrap();
                let outputs = session.run([("X", &x), ("I", &index)]).unwrap();
                let find = |name: &str| outputs.get(name).unwrap().to_f64s();
                let of = |k: usize, u: usize| value(k * columns + u) as f64;
                for u in 0..columns {
                    assert_eq!(find("Row")[u], of(6, u));
                    assert_eq!(find("Row")[columns + u], of(3, u));
                    for n in 0..6 {
                        let terms =
                            (0..7).map(|k| ((n * 7 + k) % 5) as f64 * of(k, u) - 2.0 * of(k, u));
                        assert_eq!(find("Sum")[n * columns + u], terms.sum::<f64>());
                    }
                }
                // Three doublings, which wrap.
                for (at, last) in find("Last").into_iter().enumerate() {
                    let bits = Scalar::from_i64(dtype, value(at)).bits() << 3 & 0xff;
                    assert_eq!(last, Scalar::from_bits(dtype, bits).to_f64());
                }
                for k in 0..7 {
                    assert_eq!(find("All")[k], (0..columns).map(|u| of(k, u)).sum::<f64>());
                }
            }
        }
    }
}
