//! Data for `tilec train` in every format, from files that NumPy and Pillow made, and the errors
//! for damaged files.

use std::fs;
use std::path::{Path, PathBuf};

use insta::assert_snapshot;
use tile_runtime::data::folder::{Samples, Wanted, open, open_for};
use tile_runtime::data::npy;
use tile_runtime::data::picture::{Pixels, read};
use tile_runtime::train::{Arrays, ColumnRole, Dataset, Fit, as_model_takes};
use tile_runtime::{DType, Declared, Device, Error, Model, Scalar, Tensor, TensorType};

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/data").join(name)
}

fn samples(name: &str) -> Samples {
    open(&path(name)).unwrap()
}

/// Returns the values of the picture with this number.
fn picture(number: usize) -> Vec<f64> {
    (0..6).map(|i| (40 * number + 10 * (i / 3) + i % 3) as f64).collect()
}

/// Returns the inputs and the target of one sample.
fn sample(data: &dyn Dataset, number: usize) -> (Vec<f64>, f64) {
    let columns = data.columns();
    assert_eq!(
        columns.iter().map(|column| column.role).collect::<Vec<_>>(),
        [ColumnRole::Input, ColumnRole::Target]
    );
    let batch = data.batch(&[number]).unwrap();
    (batch[0].to_f64s(), batch[1].to_f64s()[0])
}

/// Asserts that the samples are `count` pictures from number `first` on.
fn are_pictures(data: &dyn Dataset, first: usize, count: usize) {
    assert_eq!(data.len(), count);
    for number in 0..count {
        assert_eq!(sample(data, number), (picture(first + number), ((first + number) % 2) as f64));
    }
}

#[test]
fn whole_and_split() {
    for name in ["idx", "split.npz"] {
        let samples = samples(name);
        are_pictures(samples.train.as_ref(), 0, 3);
        are_pictures(samples.test.unwrap().as_ref(), 3, 2);
    }
    for name in ["npy", "whole.npz", "last.csv"] {
        let samples = samples(name);
        are_pictures(samples.train.as_ref(), 0, 5);
        assert!(samples.test.is_none());
    }
    // The target is one number of a type for classes.
    for name in ["idx", "npy", "whole.npz", "last.csv", "pictures"] {
        let ty = samples(name).train.columns()[1].ty.clone();
        assert!(ty.shape.is_empty() && !ty.dtype.is_float(), "{name}: {ty}");
    }
}

/// The target is the column `label`; of points with an x and a y, the last column.
#[test]
fn columns_of_tables() {
    let labelled = samples("label.csv").train;
    assert_eq!(sample(labelled.as_ref(), 3), (picture(3), 1.0));
    let points = samples("points.csv").train;
    assert_eq!(sample(points.as_ref(), 1), (vec![40.0, 41.0], 42.0));
}

#[test]
fn pictures() {
    let grey = samples("pictures").train;
    assert_eq!(grey.columns()[0].ty.shape, [2, 3, 1]);
    // Folders are read class by class.
    for (number, of) in [0, 2, 4, 1, 3].into_iter().enumerate() {
        assert_eq!(sample(grey.as_ref(), number), (picture(of), (of % 2) as f64));
    }
    let Samples { train, test, .. } = samples("jpeg");
    assert_eq!(
        (train.columns()[0].ty.shape.as_slice(), train.len(), test.unwrap().len()),
        (&[8, 8, 3][..], 2, 1)
    );
    let (values, class) = sample(train.as_ref(), 1);
    assert_eq!(class, 1.0);
    let green =
        |(i, value): (usize, &f64)| (value - if i % 3 == 1 { 255.0 } else { 0.0 }).abs() <= 3.0;
    assert!(values.iter().enumerate().all(green), "{values:?}");
}

/// Makes an empty folder for one test.
fn empty_folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("data").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Returns the error for a file of these bytes, without its folder.
fn refused(name: &str, bytes: &[u8]) -> String {
    let folder = empty_folder(name);
    fs::write(folder.join(name), bytes).unwrap();
    let error = match open(&folder.join(name)) {
        Err(error @ (Error::Data { .. } | Error::Read { .. })) => error.to_string(),
        Err(error) => panic!("{error:?}"),
        Ok(_) => panic!("{name} was read"),
    };
    error.replace(&format!("{}{}", folder.display(), std::path::MAIN_SEPARATOR), "")
}

#[test]
fn damaged_files() {
    let whole = fs::read(path("whole.npz")).unwrap();
    let all = [
        refused("words.csv", b"a,b\n1,2\n3,x\n"),
        refused("short.csv", b"a,b,c\n1,2,3\n4,5\n"),
        refused("bare.csv", b"1,2\n3,4\n"),
        refused("one.csv", b"a\n1\n"),
        refused("empty.csv", b""),
        refused("not.npz", b"PK and nothing else"),
        refused("cut.npz", &whole[..whole.len() / 2]),
        refused("other.txt", b"hello"),
        refused("semicolons.csv", b"a;b\n1;2\n"),
        refused("header.csv", b"a,b\n"),
        refused("double.csv", b"a,b,a\n1,2,3\n"),
        refused("nan.csv", b"a,b\n1,2\nnan,2\n"),
        refused("inf.csv", b"a,b\n1,2\n3,-1e99\n"),
    ];
    assert_snapshot!(all.join("\n"), @"
    words.csv: line 3, `b`: `x` is no number
    short.csv: line 3: expected 3 columns, found 2
    bare.csv: the first line has numbers, and should have the columns' names
    one.csv: a table of samples has at least two columns, the last of which is the target
    empty.csv: it is empty
    not.npz: invalid Zip archive: Could not find EOCD
    cut.npz: invalid Zip archive: Could not find EOCD
    other.txt: there are no samples in it: expected idx files, arrays called x and y or by the model's inputs and outputs (.npy, .npz), a .csv, or pictures
    semicolons.csv: the separator of columns is a comma, and the first line has ';'
    header.csv: it has a header, and no samples
    double.csv: two columns are named `a`
    nan.csv: line 3, `a`: it is NaN
    inf.csv: line 3, `b`: it is -inf
    ");
}

/// A picture of another size and a file that is no picture are reported before training; a
/// truncated picture when it is read.
#[test]
fn damaged_pictures() {
    let read = |name: &str| fs::read(path(name)).unwrap();
    let (picture, jpeg) = (read("pictures/a/0.png"), read("jpeg/train/b/0.jpg"));
    let folder = empty_folder("cut_picture");
    fs::create_dir_all(folder.join("a")).unwrap();
    fs::write(folder.join("a/0.png"), &picture).unwrap();
    fs::write(folder.join("a/1.png"), &picture[..picture.len() - 20]).unwrap();
    let data = open(&folder).unwrap().train;
    assert!(data.batch(&[0]).is_ok());
    assert!(data.batch(&[1]).unwrap_err().to_string().contains("1.png: "));
    let all = [
        folder_refused("other_size", &[("a/0.png", &picture), ("b/0.jpg", &jpeg)]),
        folder_refused("no_picture", &[("a/0.png", &picture), ("b/1.png", b"no picture")]),
    ];
    assert_snapshot!(all.join("\n"), @"
    other_size/b/0.jpg: is 8 x 8 pixels, and the first picture 2 x 3: an input with declared sizes, as in `Image[N, 224, 224, 3]`, resizes them
    no_picture/b/1.png: The image format could not be determined
    ");
}

/// Returns the error for a folder of these files, without the folder.
fn folder_refused(name: &str, files: &[(&str, &[u8])]) -> String {
    let folder = empty_folder(name);
    for (file, bytes) in files {
        let file = folder.join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, bytes).unwrap();
    }
    let error = open(&folder).err().unwrap_or_else(|| panic!("{name} was read")).to_string();
    error.replace(&folder.display().to_string(), name).replace(std::path::MAIN_SEPARATOR, "/")
}

/// A folder that can be read in two ways, or that lacks one half, is an error.
#[test]
fn ambiguous_folders() {
    let csv = b"a,b\n1,2\n".as_slice();
    let read = |name: &str| fs::read(path(name)).unwrap();
    let (whole, x, picture) = (read("whole.npz"), read("npy/x.npy"), read("pictures/a/0.png"));
    let (images, labels) =
        (read("idx/t10k-images-idx3-ubyte.gz"), read("idx/t10k-labels-idx1-ubyte"));
    let all = [
        folder_refused("tables", &[("train.csv", csv), ("test.csv", csv)]),
        folder_refused("archives", &[("a.npz", &whole), ("b.npz", &whole)]),
        folder_refused("table_and_pictures", &[("labels.csv", csv), ("a/0.png", &picture)]),
        folder_refused("no_x", &[("y.npy", &x)]),
        folder_refused(
            "no_labels",
            &[
                ("train-images-idx3-ubyte.gz", &images),
                ("t10k-images-idx3-ubyte.gz", &images),
                ("t10k-labels-idx1-ubyte", &labels),
            ],
        ),
        folder_refused("other_class", &[("train/a/0.png", &picture), ("test/b/0.png", &picture)]),
        folder_refused("hidden", &[(".ipynb_checkpoints/0.png", &picture)]),
    ];
    assert_snapshot!(all.join("\n"), @"
    tables: it has test.csv and train.csv: say which, by its path
    archives: it has a.npz and b.npz: say which, by its path
    table_and_pictures: it has a .csv file and folders of pictures: say which by naming a file, or a folder with that alone
    no_x/y.npy is a target, and there is no input for it: expected arrays called `x_train` or `x`; there are y
    no_labels/train-images-idx3-ubyte.gz: the labels for it are missing
    other_class/test: there is no class `b` to train on: the classes are a
    hidden: there are no samples in it: expected idx files, arrays called x and y or by the model's inputs and outputs (.npy, .npz), a .csv, or pictures
    ");
}

/// Arrays belong to the inputs and outputs of their names, in an .npz file as in a folder.
#[test]
fn arrays_by_name() {
    let inputs = ["Left", "Right"].map(|name| (name.to_owned(), None)).into();
    let outputs = ["Near", "Far"].map(str::to_owned).into();
    let wanted = Wanted { inputs, outputs, ..Wanted::default() };
    let folder = empty_folder("by_name");
    let array = |samples: usize| {
        Tensor::from_f32([samples, 2], &vec![samples as f32; 2 * samples]).unwrap()
    };
    let save = |name: &str, samples: usize| {
        npy::write(&array(samples), fs::File::create(folder.join(name)).unwrap()).unwrap();
    };
    for name in ["Left.npy", "Right.npy", "Far.npy", "extra.npy", "Left_test.npy", "Right_test.npy"]
    {
        save(name, if name.contains("_test") { 3 } else { 4 });
    }
    let samples = open_for(&folder, &wanted).unwrap();
    let columns = samples.train.columns();
    let columns: Vec<_> =
        columns.iter().map(|column| (column.role, column.name.as_deref().unwrap())).collect();
    let (input, target) = (ColumnRole::Input, ColumnRole::Target);
    assert_eq!(columns, [(input, "Left"), (input, "Right"), (target, "Far")]);
    assert_eq!((samples.train.len(), samples.test.unwrap().len()), (4, 3));
    assert_eq!(samples.unused, ["extra"]);
    save("Right.npy", 5);
    let refused = || {
        let error = open_for(&folder, &wanted).err().unwrap().to_string();
        error
            .replace(&folder.display().to_string(), "by_name")
            .replace(std::path::MAIN_SEPARATOR, "/")
    };
    let counts = refused();
    fs::rename(folder.join("Right.npy"), folder.join("Rihgt.npy")).unwrap();
    let missing = refused();
    fs::remove_file(folder.join("Left.npy")).unwrap();
    assert_snapshot!([counts, missing, refused()].join("\n"), @"
    by_name/Right.npy has 5 samples, and by_name/Left.npy has 4
    by_name: there is no array `Right` for an input: there are Far, Left, Left_test, Right_test, Rihgt, extra; did you mean `Rihgt`?
    by_name/Far.npy is a target, and there is no input for it: expected arrays called `x_train` or `x`, or `Left`, `Right`; there are Far, Left_test, Right_test, Rihgt, extra
    ");
}

/// Folders with the names of inputs and outputs: pictures of equal names are one sample.
#[test]
fn pictures_by_name() {
    let folder = empty_folder("pictures_by_name");
    for (of, number) in [(0, "07"), (3, "11")] {
        for name in ["Image", "Mask"] {
            fs::create_dir_all(folder.join(name)).unwrap();
            let class = ["a", "b"][of % 2];
            let from = path("pictures").join(class).join(format!("{of}.png"));
            fs::copy(from, folder.join(name).join(format!("{number}.png"))).unwrap();
        }
    }
    let declared = |sizes: &[Option<usize>]| Declared {
        dtype: DType::F32,
        sizes: sizes.into(),
        channels_last: true,
    };
    let wanted = |sizes: &[Option<usize>]| Wanted {
        inputs: vec![("Image".to_owned(), Some(declared(sizes)))],
        outputs: vec!["Mask".to_owned()],
        ..Wanted::default()
    };
    let data = open_for(&folder, &wanted(&[None, None, None, None])).unwrap().train;
    let types: Vec<String> = data.columns().iter().map(|column| column.ty.to_string()).collect();
    assert_eq!(types, ["f32[2, 3, 1]", "i32[2, 3]"]);
    let batch = data.batch(&[1, 0]).unwrap();
    for tensor in &batch {
        assert_eq!(tensor.to_f64s(), [picture(3), picture(0)].concat());
    }
    // Inputs are resized to their declared sizes, and with them targets of the same size.
    let data = open_for(&folder, &wanted(&[None, Some(4), Some(5), Some(3)])).unwrap().train;
    let shapes: Vec<Vec<usize>> =
        data.batch(&[0, 1]).unwrap().iter().map(|tensor| tensor.shape().to_vec()).collect();
    assert_eq!(shapes, [vec![2, 4, 5, 3], vec![2, 4, 5]]);
    fs::rename(folder.join("Mask/11.png"), folder.join("Mask/12.png")).unwrap();
    let error = open_for(&folder, &wanted(&[None; 4])).err().unwrap().to_string();
    assert!(error.ends_with("`Image` has 11.png where `Mask` has 12.png"), "{error}");
}

/// Masks have the numbers that are stored, of 1 to 16 bits or of a palette, and are resized to
/// those of the nearest pixels.
#[test]
fn masks() {
    let open_mask = |name: &str, sizes: [Option<usize>; 4]| {
        let folder = empty_folder("masks");
        for (from, to) in [
            ("pictures/a/0.png".to_owned(), "Image/0.png"),
            (format!("masks/{name}.png"), "Mask/0.png"),
        ] {
            fs::create_dir_all(folder.join(to).parent().unwrap()).unwrap();
            fs::copy(path(&from), folder.join(to)).unwrap();
        }
        let declared = Declared { dtype: DType::F32, sizes: sizes.into(), channels_last: true };
        let inputs = vec![("Image".to_owned(), Some(declared))];
        let wanted = Wanted { inputs, outputs: vec!["Mask".to_owned()], ..Wanted::default() };
        open_for(&folder, &wanted).unwrap().train.batch(&[0]).unwrap().remove(1)
    };
    let classes = |count: usize| (0..6).map(|n| (n % count) as f64).collect::<Vec<_>>();
    for (name, expected) in [("1", classes(2)), ("8", classes(6)), ("palette_2", classes(4))] {
        assert_eq!(open_mask(name, [None; 4]).to_f64s(), expected, "{name}");
    }
    assert_eq!(
        open_mask("16", [None; 4]).to_f64s(),
        classes(6).iter().map(|n| n * 1000.0).collect::<Vec<_>>()
    );
    for name in ["palette_4", "palette_8"] {
        assert_eq!(open_mask(name, [None; 4]).to_f64s(), classes(4), "{name}");
    }
    let resized = open_mask("8", [None, Some(4), Some(6), Some(1)]);
    assert_eq!(resized.ty().to_string(), "i32[1, 4, 6]");
    let doubled = [[0, 0, 1, 1, 2, 2], [0, 0, 1, 1, 2, 2], [3, 3, 4, 4, 5, 5], [3, 3, 4, 4, 5, 5]];
    assert_eq!(resized.to_f64s(), doubled.concat().into_iter().map(f64::from).collect::<Vec<_>>());
}

/// Pictures in the folder itself are inputs without targets. Folders beside `train` and `test` are
/// named.
#[test]
fn pictures_without_classes() {
    let folder = empty_folder("flat");
    for part in ["train", "test", "val"] {
        fs::create_dir_all(folder.join(part)).unwrap();
        fs::copy(path("pictures/a/0.png"), folder.join(part).join("0.png")).unwrap();
    }
    let flat = open(&folder.join("val")).unwrap();
    assert_eq!((flat.train.columns().len(), flat.train.len(), flat.classes.len()), (1, 1, 0));
    // Three folders may be classes.
    assert_eq!(open(&folder).unwrap().classes, ["test", "train", "val"]);
    fs::remove_dir_all(folder.join("val")).unwrap();
    let parts = open(&folder).unwrap();
    assert_eq!((parts.train.len(), parts.test.unwrap().len(), parts.classes.len()), (1, 1, 0));
    for class in ["train/a", "val/a"] {
        fs::create_dir_all(folder.join(class)).unwrap();
        fs::copy(path("pictures/a/0.png"), folder.join(class).join("0.png")).unwrap();
    }
    fs::remove_file(folder.join("train/0.png")).unwrap();
    assert_eq!(open(&folder).unwrap().unused, ["val"]);
}

/// Pictures of different sizes, in folders of classes, are resized to what the model declares.
#[test]
fn pictures_are_resized() {
    let folder = empty_folder("resized");
    for (from, to) in [("pictures/a/0.png", "a/0.png"), ("jpeg/train/b/0.jpg", "b/0.jpg")] {
        fs::create_dir_all(folder.join(to).parent().unwrap()).unwrap();
        fs::copy(path(from), folder.join(to)).unwrap();
    }
    let text = "model M(Image[N, 4, 6, 3]) -> (Y) { Y = Image |> Flatten() |> Dense(2); }
        train M { loss = SparseCategoricalCrossentropy(from_logits = true); optimizer = SGD(1e-6); }";
    let mut trainer = Model::compile(text).unwrap().trainer(&Device::cpu()).build().unwrap();
    let data = open_for(&folder, &trainer.wanted()).unwrap().train;
    let batch = data.batch(&[0, 1]).unwrap();
    for (number, file) in ["a/0.png", "b/0.jpg"].into_iter().enumerate() {
        let sizes = [1, 4, 6, 3].map(Some).into();
        let declared = Declared { dtype: DType::F32, sizes, channels_last: true };
        let alone = read(&folder.join(file), &declared, Pixels::Raw).unwrap();
        assert_eq!(batch[0].to_f64s()[72 * number..][..72], alone.to_f64s());
    }
    assert_eq!(trainer.fit(&*data, Fit::epochs(1)).unwrap().len(), 1);
}

/// A file and its compressed form count as one.
#[test]
fn packed_and_plain() {
    let folder = empty_folder("packed");
    for name in ["t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte"] {
        fs::copy(path("idx").join(name), folder.join(name)).unwrap();
    }
    fs::write(folder.join("t10k-labels-idx1-ubyte.gz"), b"not looked at").unwrap();
    are_pictures(open(&folder).unwrap().train.as_ref(), 3, 2);
}

/// Folders without pictures are not classes. The classes of `test` have the numbers that they have
/// in `train`.
#[test]
fn classes_of_folders() {
    let folder = empty_folder("classes");
    for class in ["train/a", "train/b", "train/.hidden", "train/0_empty", "test/b"] {
        fs::create_dir_all(folder.join(class)).unwrap();
    }
    for file in ["train/a/0.png", "train/b/0.png", "train/.hidden/0.png", "test/b/0.png"] {
        fs::copy(path("pictures/a/0.png"), folder.join(file)).unwrap();
    }
    let Samples { train, test, classes, .. } = open(&folder).unwrap();
    assert_eq!((classes, train.len()), (vec!["a".to_owned(), "b".to_owned()], 2));
    assert_eq!(sample(test.unwrap().as_ref(), 0).1, 1.0);
    let classes = vec!["a".to_owned(), "b".to_owned()];
    let alone = open_for(&folder.join("test"), &Wanted { classes, ..Wanted::default() }).unwrap();
    assert_eq!(sample(alone.train.as_ref(), 0).1, 1.0);
}

/// A model gets stored numbers as f32, whatever their type; inputs that it uses as indices or for
/// their bits keep their type.
#[test]
fn types_of_inputs() {
    let text = "model M(X[N, 3]) -> (Y) { Y = X / 2; } train M { loss = MeanSquaredError(); optimizer = SGD(); }";
    let indexed = "model M(X[N, 3]) -> (Y) { Table = vector([1.0, 2.0, 5.0]); Y[n, i: N, 3] = =(Table[X[n, i]]); } train M { loss = MeanSquaredError(); optimizer = SGD(); }";
    let device = Device::reference();
    let array = |dtype| {
        let values = [0, 1, 1, 1, 0, 1].map(|value| Scalar::from_i64(DType::I64, value));
        Tensor::from_scalars(TensorType::new(dtype, [2, 3]), values).unwrap()
    };
    let predicted = |text: &str, dtype| {
        let data = Arrays::new(array(dtype), array(DType::F32)).unwrap();
        let mut trainer = Model::compile(text).unwrap().trainer(&device).build().unwrap();
        trainer.predict(&data, 2).map(|outputs| outputs.iter().next().unwrap().1.to_f64s())
    };
    for dtype in [
        DType::U8,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::U16,
        DType::Bool,
        DType::F64,
    ] {
        assert_eq!(predicted(text, dtype).unwrap(), [0.0, 0.5, 0.5, 0.5, 0.0, 0.5], "{dtype}");
    }
    assert!(predicted(indexed, DType::F32).is_err());
    assert_eq!(predicted(indexed, DType::U8).unwrap(), [1.0, 2.0, 2.0, 2.0, 1.0, 2.0]);
}

/// Without a `train` block, too, a model gets integers as f32, unless it computes integers from
/// them or indexes with them. A function gets them unchanged.
#[test]
fn types_of_inputs_that_nothing_trains() {
    let given = |text: &str, dtype: DType| {
        let array = Tensor::from_scalars(
            TensorType::new(dtype, [2]),
            [1, 0].map(|x| Scalar::from_i64(DType::I64, x)),
        );
        let mut arrays = [("X".to_owned(), array.unwrap())].into();
        as_model_takes(&Model::compile(text).unwrap(), None, &Default::default(), &mut arrays)
            .unwrap();
        arrays["X"].dtype()
    };
    let scaled = "model M(X[N]) -> (Y) { Y = X / 255 * 1.0; }";
    for dtype in [DType::U8, DType::I64, DType::Bool] {
        assert_eq!(given(scaled, dtype), DType::F32, "{dtype}");
    }
    for dtype in [DType::F64, DType::F16] {
        assert_eq!(given(scaled, dtype), dtype);
    }
    assert_eq!(given("model M(X[N]) -> (Y) { Y = X / 2; }", DType::I32), DType::I32);
    let indexed = "model M(X[N]) -> (Y) { Table = vector([1.0, 2.0]); Y[n: N] = =(Table[X[n]]); }";
    assert_eq!(given(indexed, DType::U8), DType::U8);
    assert_eq!(given("function f(X[N]) -> (Y) { Y = X / 255 * 1.0; }", DType::U8), DType::U8);
}
