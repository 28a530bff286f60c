//! Invalid arguments that the library refuses, and its messages. Keras 3.15 refuses nearly all of
//! them; the others have no result here.

mod common;

use common::golden::render;
use tile_compiler::tensor::Tensor;
use tile_runtime::{Device, Error, Model, Session};

/// Returns a program with this result.
fn source(result: &str) -> String {
    format!(
        "model M() -> (Y) {{
            Images = fill([2, 8, 8, 4], 1.0);
            Sequences = fill([2, 12, 6], 1.0);
            Vectors = fill([2, 6], 1.0);
            Y = {result};
        }}"
    )
}

fn built(result: &str, training: bool) -> Result<Session, Error> {
    Model::compile(&source(result))?.on(&Device::reference()).training(training).build()
}

/// Programs, and the text of their errors.
const REFUSED: &[(&str, &str)] = &[
    // Sizes that must agree.
    (
        "[fill([2, 4, 3], 1.0), fill([2, 6, 5], 1.0)] |> Dot(2)",
        "inputs must have the same batch, and the same size along `axes`, and are [2, 4, 3] and [2, 6, 5]",
    ),
    (
        "[fill([2, 4, 3], 1.0), fill([3, 6, 3], 1.0)] |> Dot(2)",
        "inputs must have the same batch, and the same size along `axes`, and are [2, 4, 3] and [3, 6, 3]",
    ),
    ("[Sequences, Sequences] |> Dot(0)", "the axis of the batch, 0, cannot be one of `axes`"),
    ("[Sequences, fill([2, 30, 4], 1.0)] |> Attention()", "`C` is 4 in `Key`, but 6 before"),
    (
        "[Sequences, fill([2, 30, 4], 1.0)] |> AdditiveAttention()",
        "`C` is 4 in `Key`, but 6 before",
    ),
    (
        "[Sequences, fill([2, 30, 6], 1.0), fill([2, 9, 6], 1.0)] |> Attention()",
        "`S` is 9 in `Key`, but 30 before",
    ),
    (
        "Attention()(Sequences, Sequences, ValueMask = fill([2, 11], 1))",
        "`ValueMask` must be [2, 12], and is [2, 11]",
    ),
    (
        "MultiHeadAttention(2, 3)(Sequences, fill([2, 30, 6], 1.0), fill([2, 9, 6], 1.0))",
        "`Key` and `Value` must have the same sizes but for the last, and are [2, 9, 6] and [2, 30, 6]",
    ),
    (
        "MultiHeadAttention(2, 3)(Sequences, fill([3, 30, 6], 1.0))",
        "`Query` and `Value` must have the same batch, and are [2, 12, 6] and [3, 30, 6]",
    ),
    (
        "MultiHeadAttention(2, 3)(Sequences, Sequences, Mask = fill([2, 12, 11], 1))",
        "`Mask` must be [2, 12, 12], and is [2, 12, 11]",
    ),
    (
        "MultiHeadAttention(2, 3)(Sequences, Sequences, KeyMask = fill([2, 11], 1))",
        "`KeyMask` must be [2, 12], and is [2, 11]",
    ),
    (
        "GroupQueryAttention(4, 2, 2)(Sequences, fill([2, 30, 6], 1.0), fill([2, 9, 6], 1.0))",
        "`Key` and `Value` must have the same sizes but for the last, and are [2, 9, 6] and [2, 30, 6]",
    ),
    (
        "GroupQueryAttention(4, 3, 2)(Sequences, Sequences)",
        "`num_query_heads` must be divisible by `num_key_value_heads`",
    ),
    (
        "[fill([2, 3, 4, 6], 1.0), fill([2, 5, 6, 4], 1.0)] |> Concatenate(1)",
        "inputs must have the same sizes but along axis 1, and there are [2, 3, 4, 6] and [2, 5, 6, 4]",
    ),
    (
        "[Vectors, Sequences] |> Concatenate()",
        "inputs must have the same sizes but along axis -1, and there are [2, 6] and [2, 12, 6]",
    ),
    (
        "LSTM(4)(Sequences, [fill([2, 3], 0.0), fill([2, 3], 0.0)])",
        "`InitialState` must be [2, 4], and is [2, 3]",
    ),
    ("LSTM(4)(Sequences, fill([2, 4], 0.0))", "an initial state must have 2 parts, and has 1"),
    ("GRU(4)(Sequences, fill([2, 3], 0.0))", "`InitialState` must be [2, 4], and is [2, 3]"),
    ("SimpleRNN(4)(Sequences, fill([1, 4], 0.0))", "`InitialState` must be [2, 4], and is [1, 4]"),
    ("GRU(4)(Sequences, Mask = fill([2, 11], 1))", "`Mask` must be [2, 12], and is [2, 11]"),
    (
        "RNN(GRUCell(4))(Sequences, Mask = fill([1, 12], 1))",
        "`Mask` must be [2, 12], and is [1, 12]",
    ),
    (
        "RNN(LSTMCell(4))(Sequences, [fill([2, 3], 0.0), fill([2, 3], 0.0)])",
        "`InitialState` must be [2, 4], and is [2, 3]",
    ),
    (
        "ConvLSTM1D(4, 3)(Images, [fill([2, 4, 6], 0.0), fill([2, 4, 6], 0.0)])",
        "`InitialState` must be [2, 6, 4], and is [2, 4, 6]",
    ),
    ("ReversibleEmbedding(10, 4)(Vectors, reverse = true)", "`X` must be [2, 4], and is [2, 6]"),
    (
        "Sequences |> EinsumDense(\"ab,bc->ac\", 4)",
        "`ab,bc->ac` names 2 axes of the input, which is [2, 12, 6]",
    ),
    ("Sequences |> TransformerEncoderLayer(8, 2)", "`d_model` is 8, and the input has 6 features"),
    ("Sequences |> TransformerEncoderLayer(6, 4)", "6 features do not divide into 4 equal groups"),
    // Hyper-parameters.
    ("Vectors |> Dense(0)", "`units` must be a positive integer, and is 0"),
    ("Vectors |> Dense(2.5)", "`units` must be a positive integer"),
    ("Sequences |> LSTM(0)", "`units` must be a positive integer, and is 0"),
    ("Sequences |> RNN(SimpleRNNCell(-1))", "`units` must be a positive integer, and is -1"),
    ("Vectors |> Embedding(0, 4)", "`input_dim` must be a positive integer, and is 0"),
    ("Vectors |> Dropout(2)", "`rate` must be from 0 to 1"),
    ("Vectors |> Dropout(-1)", "`rate` must be from 0 to 1"),
    ("Vectors |> AlphaDropout(1.5)", "`rate` must be from 0 to 1"),
    ("Sequences |> SpatialDropout1D(2)", "`rate` must be from 0 to 1"),
    ("Vectors |> GaussianDropout(2)", "`rate` must be from 0 to 1"),
    ("Vectors |> GaussianNoise(-1)", "`stddev` must be from 0 to 1"),
    ("Images |> Conv2D(4, 0)", "`kernel_size` must be a positive integer, and is 0"),
    ("Images |> Conv2D(0, 3)", "`filters` must be a positive integer, and is 0"),
    ("Images |> Conv2D(4, 3, strides = 0)", "`strides` must be a positive integer, and is 0"),
    (
        "Images |> Conv2D(4, 3, dilation_rate = [1, 0])",
        "`dilation_rate` must be a positive integer, and is 0",
    ),
    ("Images |> Conv2D(4, 3, groups = 0)", "`groups` must be a positive integer, and is 0"),
    ("Images |> Conv2D(4, 3, groups = 3)", "4 channels do not divide into 3 equal groups"),
    ("Images |> Conv2D(6, 3, groups = 4)", "6 filters do not divide into 4 equal groups"),
    ("Images |> Conv2D(4, 9)", "a window of 9 does not fit into an axis of size 8"),
    (
        "Images |> DepthwiseConv2D(3, depth_multiplier = 0)",
        "`depth_multiplier` must be a positive integer, and is 0",
    ),
    (
        "Images |> SeparableConv2D(4, 3, depth_multiplier = 0)",
        "`depth_multiplier` must be a positive integer, and is 0",
    ),
    (
        "Images |> Conv2DTranspose(4, 3, strides = 0)",
        "`strides` must be a positive integer, and is 0",
    ),
    (
        "Images |> Conv2DTranspose(4, 3, strides = 2, output_padding = 2)",
        "`output_padding` must be less than `strides`, and not negative",
    ),
    (
        "Sequences |> Conv1DTranspose(4, 3, output_padding = -1)",
        "`output_padding` must be less than `strides`, and not negative",
    ),
    (
        "fill([2, 3, 8, 8, 4], 1.0) |> ConvLSTM2D(4, 0)",
        "`kernel_size` must be a positive integer, and is 0",
    ),
    (
        "fill([2, 3, 8, 8, 4], 1.0) |> ConvLSTM2D(4, 3, strides = 0)",
        "`strides` must be a positive integer, and is 0",
    ),
    ("Images |> MaxPooling2D(0)", "`pool_size` must be a positive integer, and is 0"),
    (
        "Images |> AveragePooling2D(2, strides = 0)",
        "`strides` must be a positive integer, and is 0",
    ),
    ("Images |> AdaptiveMaxPooling2D(0)", "`output_size` must be a positive integer, and is 0"),
    ("Images |> UpSampling2D(0)", "`size` must be a positive integer, and is 0"),
    ("Images |> ZeroPadding2D(-1)", "`padding` must not be negative"),
    ("Images |> Cropping2D(4)", "`cropping` leaves nothing of an axis of size 8"),
    ("Images |> Cropping2D(-1)", "`cropping` must not be negative"),
    ("Images |> CenterCrop(9, 8)", "a crop of [9, 8] does not fit into images of [8, 8]"),
    ("Images |> Resizing(0, 8)", "`height` must be a positive integer, and is 0"),
    (
        "Images |> Resizing(4, 8, crop_to_aspect_ratio = true, pad_to_aspect_ratio = true)",
        "only one of `crop_to_aspect_ratio` and `pad_to_aspect_ratio` can be true",
    ),
    ("Vectors |> Dense(3, lora_rank = 0)", "`lora_rank` must be a positive integer, and is 0"),
    (
        "Vectors |> Dense(3, lora_rank = 2, kernel_constraint = non_neg())",
        "cannot combine `lora_rank` with a constraint of the fixed weight",
    ),
    (
        "Vectors |> BatchNormalization(renorm = true, renorm_clipping = [1, 2])",
        "`renorm_clipping` must be `[rmin, rmax, dmax]`",
    ),
    (
        "Vectors |> BatchNormalization(renorm = true, renorm_clipping = [2, 1, none])",
        "rmin is greater than rmax in `renorm_clipping`",
    ),
    (
        "Vectors |> BatchNormalization(renorm = true, renorm_clipping = [none, none, -1])",
        "dmax is negative in `renorm_clipping`",
    ),
    ("Vectors |> RepeatVector(0)", "`n` must be a positive integer, and is 0"),
    ("Vectors |> Reshape([-1, -1])", "only one size of `target_shape` may be -1"),
    ("Vectors |> Reshape([-1, 5])", "`target_shape` has 5 elements, and a sample has 6"),
    ("Vectors |> Reshape([5])", "`target_shape` has 5 elements, and a sample has 6"),
    (
        "Sequences |> Permute([1, 1])",
        "[0, 1, 1] does not name each axis of the shape [2, 12, 6] once",
    ),
    ("Sequences |> Permute([1])", "[0, 1] does not name each axis of the shape [2, 12, 6] once"),
    (
        "Sequences |> EinsumDense(\"abc,cd->abd\", [none, 4], bias_axes = \"z\")",
        "`z` of `bias_axes` is no axis of the result of `abc,cd->abd`",
    ),
    ("Sequences |> GroupNormalization(0)", "`groups` must be a positive integer, and is 0"),
    ("Sequences |> GroupNormalization(5)", "6 channels do not divide into 5 equal groups"),
    ("Vectors |> LeakyReLU(-1)", "`negative_slope` must not be negative"),
    ("Vectors |> ReLU(max_value = -1)", "`max_value` must not be negative"),
    ("Vectors |> ActivityRegularization(l1 = -1)", "`l1` must not be negative"),
    ("Vectors |> CategoryEncoding(0)", "`num_tokens` must be a positive integer, and is 0"),
    (
        "MultiHeadAttention(0, 2)(Sequences, Sequences)",
        "`num_heads` must be a positive integer, and is 0",
    ),
    (
        "MultiHeadAttention(2, 0)(Sequences, Sequences)",
        "`key_dim` must be a positive integer, and is 0",
    ),
    // Ranks and axes.
    ("Images |> Flatten() |> Conv2D(4, 3)", "expected a tensor with 4 axes, found [2, 256]"),
    ("Sequences |> GlobalMaxPooling2D()", "expected a tensor with 4 axes, found [2, 12, 6]"),
    ("Sequences |> SpatialDropout2D(0.2)", "expected a tensor with 4 axes, found [2, 12, 6]"),
    ("Sequences |> ConvLSTM1D(4, 3)", "expected a tensor with 4 axes, found [2, 12, 6]"),
    (
        "Vectors |> TimeDistributed(Dense(3))",
        "`TimeDistributed` wants three axes at least, and the input is [2, 6]",
    ),
    ("mean(7)(Vectors)", "there is no axis 7 in a tensor with 2 axes"),
    ("mean([1, 1])(Vectors)", "the axis 1 is given twice"),
    ("mean([1, -1])(Vectors)", "the axis -1 is given twice"),
    ("Vectors |> UnitNormalization(5)", "there is no axis 5 in a tensor with 2 axes"),
    ("Vectors |> BatchNormalization(-3)", "there is no axis -3 in a tensor with 2 axes"),
    ("Vectors |> LayerNormalization([1, 2])", "there is no axis 2 in a tensor with 2 axes"),
    ("Vectors |> GroupNormalization(2, axis = 2)", "there is no axis 2 in a tensor with 2 axes"),
    ("Vectors |> RMSNormalization(2)", "there is no axis 2 in a tensor with 2 axes"),
    ("Vectors |> Softmax(5)", "there is no axis 5 in a tensor with 2 axes"),
    ("Vectors |> PReLU(shared_axes = [5])", "there is no axis 5 in a tensor with 2 axes"),
    ("Sequences |> Normalization(3)", "there is no axis 3 in a tensor with 3 axes"),
    ("[Vectors, Vectors] |> Concatenate(2)", "there is no axis 2 in a tensor with 2 axes"),
    ("[Sequences, Sequences] |> Dot(3)", "there is no axis 3 in a tensor with 3 axes"),
];

#[test]
fn what_keras_refuses_is_refused_by_name() {
    let mut faults = String::new();
    for (result, message) in REFUSED {
        for training in [false, true] {
            let found = match built(result, training) {
                Ok(_) => "nothing".to_owned(),
                Err(error) => render(&error),
            };
            let line = found.lines().next().unwrap_or_default();
            if line.split_once("Error: ").map(|(_, said)| said) != Some(message) {
                faults += &format!("{result}\n    {line}\n    not {message}\n");
            }
        }
    }
    assert!(faults.is_empty(), "{faults}");
}

/// Runs a program in inference, with the initial values of its weights.
fn run(result: &str) -> Tensor {
    let mut session =
        built(result, false).unwrap_or_else(|error| panic!("{result}: {}", render(&error)));
    session.initialise(1).unwrap_or_else(|error| panic!("{result}: {}", render(&error)));
    let outputs =
        session.run::<&str, Tensor>([]).unwrap_or_else(|error| panic!("{}", render(&error)));
    outputs.get("Y").unwrap().clone()
}

#[test]
fn an_activation_of_none_is_linear() {
    for layer in [
        "Vectors |> Dense(3, activation = ?)",
        "Images |> Conv2D(4, 3, activation = ?)",
        "Images |> Conv2DTranspose(4, 3, activation = ?)",
        "Sequences |> EinsumDense(\"abc,cd->abd\", [none, 4], activation = ?)",
        "Sequences |> SimpleRNN(3, activation = ?)",
        "Sequences |> GRU(3, activation = ?, recurrent_activation = ?)",
        "Sequences |> LSTM(3, activation = ?, recurrent_activation = ?)",
        "Images |> ConvLSTM1D(4, 3, activation = ?, recurrent_activation = ?)",
        "Vectors |> Activation(?)",
    ] {
        let [none, linear] =
            ["none", "linear"].map(|activation| run(&layer.replace('?', activation)));
        assert_eq!(none, linear, "{layer}");
    }
}

#[test]
fn an_empty_batch_gives_an_empty_result() {
    for (layer, shape) in [
        ("fill([0, 6], 1.0) |> LayerNormalization()", &[0, 6][..]),
        ("fill([0, 4, 6], 1.0) |> GroupNormalization(2)", &[0, 4, 6]),
        ("fill([0, 4, 6], 1.0) |> BatchNormalization()", &[0, 4, 6]),
        ("fill([0, 4, 6], 1.0) |> RMSNormalization()", &[0, 4, 6]),
        ("fill([0, 8, 8, 4], 1.0) |> GlobalAveragePooling2D()", &[0, 4]),
        ("fill([0, 8, 8, 4], 1.0) |> Flatten() |> Dense(3)", &[0, 3]),
        ("Softmax()(fill([0, 4], 1.0))", &[0, 4]),
    ] {
        assert_eq!(run(layer).shape(), shape, "{layer}");
    }
}
