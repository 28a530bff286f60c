//! Labels and token ids out of the model's range: they are found before the first step.

use tile_runtime::train::{Arrays, Column, ColumnRole, Dataset, Fit, Trainer, Validation};
use tile_runtime::{DType, Device, Error, Model, Scalar, Tensor, TensorType};

/// A model of labels with this loss.
fn labelled(loss: &str) -> String {
    format!(
        "model Three(X[N, 1]) -> (Y) {{ Y = X |> Dense(3); }}
        train Three {{ loss = {loss}; optimizer = SGD(0.1); batch_size = 2; shuffle = false; }}"
    )
}

const SPARSE: &str = "SparseCategoricalCrossentropy(from_logits = true)";

/// A model of token ids and of one label for each token.
const TOKENS: &str = "
    model Tagger(Ids[N, T]) -> (Y) { Y = Ids |> Embedding(5, 2) |> Dense(3); }
    train Tagger { loss = SparseCategoricalCrossentropy(from_logits = true); optimizer = SGD(0.1); batch_size = 2; }";

fn trainer(source: &str) -> Trainer {
    Model::compile(source).unwrap().trainer(&Device::cpu()).build().unwrap()
}

fn array(dtype: DType, shape: &[usize], values: &[f64]) -> Tensor {
    let values = values.iter().map(|value| Scalar::from_f64(DType::F64, *value));
    Tensor::from_scalars(TensorType::new(dtype, shape), values).unwrap()
}

/// Returns samples with these labels.
fn samples(dtype: DType, labels: &[f64]) -> Arrays {
    let count = labels.len();
    Arrays::new(array(DType::F32, &[count, 1], &vec![0.5; count]), array(dtype, &[count], labels))
        .unwrap()
}

/// Returns samples with these token ids, two in a sample.
fn tokens(dtype: DType, ids: &[f64]) -> Arrays {
    let rows = ids.len() / 2;
    Arrays::new(array(dtype, &[rows, 2], ids), array(DType::I32, &[rows, 2], &vec![1.0; 2 * rows]))
        .unwrap()
}

/// Samples that are read on demand.
struct Stream(Arrays);

impl Dataset for Stream {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn columns(&self) -> Vec<Column> {
        self.0.columns()
    }

    fn batch(&self, samples: &[usize]) -> Result<Vec<Tensor>, Error> {
        self.0.batch(samples)
    }
}

/// Returns the error of training, which has changed no weight if `steps` is 0.
fn refused(source: &str, data: &dyn Dataset, steps: usize) -> String {
    let mut trainer = trainer(source);
    let mut made = 0;
    struct Count<'a>(&'a mut usize);
    impl tile_runtime::train::Callback for Count<'_> {
        fn step(&mut self, _: &mut tile_runtime::train::Progress) -> Result<(), Error> {
            *self.0 += 1;
            Ok(())
        }
    }
    let error = trainer.fit(data, Fit::epochs(1).callback(Count(&mut made))).unwrap_err();
    assert_eq!(made, steps, "{error}");
    error.to_string()
}

#[test]
fn labels_out_of_range() {
    let source = labelled(SPARSE);
    for dtype in [DType::I32, DType::U8, DType::I64, DType::F32] {
        trainer(&source).fit(&samples(dtype, &[0.0, 2.0, 1.0, 2.0]), Fit::epochs(1)).unwrap();
        let data = samples(dtype, &[0.0, 2.0, 1.0, 14.0]);
        assert_eq!(
            refused(&source, &data, 0),
            "label 14 in row 3: the model has classes 0 to 2",
            "{dtype}"
        );
        let error = trainer(&source).evaluate(&data, 2).unwrap_err();
        assert_eq!(error.to_string(), "label 14 in row 3: the model has classes 0 to 2");
        assert!(trainer(&source).predict(&data, 2).is_ok());
    }
    let wrong = |value| refused(&source, &samples(DType::F32, &[0.0, value]), 0);
    assert_eq!(wrong(-1.0), "label -1 in row 1: the model has classes 0 to 2");
    assert_eq!(wrong(0.5), "label 0.5 in row 1: the model has classes 0 to 2");
    // The fraction that is kept back and other validation data are checked before the first step.
    let kept = Fit::epochs(1).validation(Validation::Fraction(0.5));
    let error =
        trainer(&source).fit(&samples(DType::I32, &[0.0, 1.0, 2.0, 3.0]), kept).unwrap_err();
    assert_eq!(error.to_string(), "label 3 in row 3: the model has classes 0 to 2");
    let other = samples(DType::I32, &[0.0, 3.0]);
    let mut fitted = trainer(&source);
    let fit = Fit::epochs(1).validation(Validation::Set(&other)).class_weight(1, 2.0);
    let error = fitted.fit(&samples(DType::I32, &[0.0, 1.0]), fit).unwrap_err();
    assert_eq!(
        error.to_string(),
        "label 3 in row 1 of the validation data: the model has classes 0 to 2"
    );
    assert!(fitted.history().is_empty());
}

/// The session of a program checks as its trainer does.
#[test]
fn sessions_check() {
    let model = Model::compile(&labelled(SPARSE)).unwrap();
    let mut session = model.on(&Device::cpu()).input("X", [2, 1]).build().unwrap();
    let error = session.fit(&samples(DType::I32, &[3.0, 0.0]), Fit::epochs(1)).unwrap_err();
    assert_eq!(error.to_string(), "label 3 in row 0: the model has classes 0 to 2");
}

/// A class to ignore is valid, and so are labels that the loss does not compare with classes.
#[test]
fn labels_that_are_valid() {
    let ignoring = labelled("SparseCategoricalCrossentropy(from_logits = true, ignore_class = -1)");
    trainer(&ignoring).fit(&samples(DType::I32, &[0.0, -1.0, 2.0]), Fit::epochs(1)).unwrap();
    let error = refused(&ignoring, &samples(DType::I32, &[0.0, -1.0, 3.0]), 0);
    assert_eq!(error, "label 3 in row 2: the model has classes 0 to 2, and ignores -1");
    let shared = labelled("Circle()");
    trainer(&shared).fit(&samples(DType::I32, &[7.0, 7.0, -3.0, 9.0]), Fit::epochs(1)).unwrap();
}

#[test]
fn tokens_out_of_range() {
    for dtype in [DType::I32, DType::U16, DType::I64, DType::F32] {
        let data = tokens(dtype, &[0.0, 4.0, 1.0, 5.0]);
        let error = "token 5 in row 1, position 1 of input `Ids`: the model has tokens 0 to 4";
        assert_eq!(refused(TOKENS, &data, 0), error, "{dtype}");
    }
    let place = "in row 1, position 1 of input `Ids`: the model has tokens 0 to 4";
    for (dtype, id) in [(DType::I32, -1.0), (DType::F32, -1.0), (DType::F32, 1.5)] {
        let data = tokens(dtype, &[0.0, 4.0, 1.0, id]);
        let error = format!("token {id} {place}");
        assert_eq!(refused(TOKENS, &data, 0), error, "{dtype}");
        assert_eq!(trainer(TOKENS).evaluate(&data, 2).unwrap_err().to_string(), error);
        for batch in [1, 2] {
            assert_eq!(trainer(TOKENS).predict(&data, batch).unwrap_err().to_string(), error);
            let stream = Stream(tokens(dtype, &[0.0, 4.0, 1.0, id]));
            assert_eq!(trainer(TOKENS).predict(&stream, batch).unwrap_err().to_string(), error);
        }
    }
    trainer(TOKENS).predict(&tokens(DType::F32, &[0.0, 4.0, 1.0, 3.0]), 2).unwrap();
    let labels = array(DType::I32, &[2, 2], &[0.0, 1.0, 3.0, 0.0]);
    let data = Arrays::new(array(DType::I32, &[2, 2], &[0.0; 4]), labels).unwrap();
    assert_eq!(
        refused(TOKENS, &data, 0),
        "label 3 in row 1, position 0: the model has classes 0 to 2"
    );
}

/// Data that are not in memory are checked before the step that uses them.
#[test]
fn batches_out_of_range() {
    let data = Stream(samples(DType::I32, &[0.0, 1.0, 2.0, 0.0, 1.0, 9.0]));
    assert_eq!(
        refused(&labelled(SPARSE), &data, 2),
        "label 9 in row 5: the model has classes 0 to 2"
    );
    let error = trainer(&labelled(SPARSE)).evaluate(&data, 4).unwrap_err();
    assert_eq!(error.to_string(), "label 9 in row 5: the model has classes 0 to 2");
}

/// The names of targets tell several of them apart.
#[test]
fn labels_of_two_outputs() {
    let source = format!(
        "model Two(X[N, 1]) -> (A, B) {{ A = X |> Dense(3); B = X |> Dense(2); }}
        train Two {{ loss = [{SPARSE}, {SPARSE}]; optimizer = SGD(0.1); }}"
    );
    let data = samples(DType::I32, &[0.0, 2.0]).with(
        ColumnRole::Target,
        None,
        array(DType::I32, &[2], &[0.0, 2.0]),
    );
    let error = refused(&source, &data.unwrap(), 0);
    assert_eq!(error, "label 2 in row 1 of target `B`: the model has classes 0 to 1");
}

/// Shares are from 0 to 1, in each loss that takes them.
#[test]
fn targets_out_of_range() {
    let source = |loss: &str| {
        format!(
            "model Share(X[N, 1]) -> (Y) {{ Y = X |> Dense(2); }}
            train Share {{ loss = {loss}(from_logits = true); optimizer = SGD(0.1); batch_size = 2; }}"
        )
    };
    let data = |dtype, shares: &[f64]| {
        let (x, y) = (array(DType::F32, &[2, 1], &[0.5; 2]), array(dtype, &[2, 2], shares));
        Arrays::new(x, y).unwrap()
    };
    let rule =
        "the loss or a metric takes targets from 0 to 1, and `from_logits` is about predictions";
    for loss in [
        "BinaryCrossentropy",
        "BinaryFocalCrossentropy",
        "CategoricalCrossentropy",
        "CategoricalFocalCrossentropy",
    ] {
        let source = source(loss);
        trainer(&source).fit(&data(DType::F32, &[0.0, 1.0, 0.25, 0.75]), Fit::epochs(1)).unwrap();
        for (dtype, share) in [(DType::F32, 1.5), (DType::F32, -0.25), (DType::I32, 2.0)] {
            let data = data(dtype, &[0.0, 1.0, share, 1.0]);
            let error = format!("target {share} in row 1, position 0: {rule}");
            assert_eq!(refused(&source, &data, 0), error, "{loss} {dtype}");
            assert_eq!(trainer(&source).evaluate(&data, 2).unwrap_err().to_string(), error);
        }
    }
}
