//! Tests of every public function of the runtime with nonsensical values. None panics or aborts.
//! Impossible requests give an error or nothing.
#![cfg(all(feature = "data", feature = "keras", feature = "onnx"))]

mod trainers;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use tile_runtime::data::folder::{self, Wanted};
use tile_runtime::data::picture::{Pixels, encode, is_picture};
use tile_runtime::data::{npy, picture, write_whole};
use tile_runtime::train::{
    Arrays, Callback, Checkpoint, ColumnRole, Dataset, EarlyStopping, Epoch, Fit, Log, Monitor,
    Part, Progress, ReduceOnPlateau, Trainer, TrainerBuilder, Validation, as_model_takes,
};
use tile_runtime::weights::{self, LoadOptions, WeightsFile};
use tile_runtime::{
    DType, Declared, Device, Error, Imports, InputType, Limits, Model, Scalar, Session, Setting,
    Tensor, TensorType,
};

/// Sizes that exceed any memory, or overflow when multiplied.
const SIZES: [usize; 6] = [0, 1, 1 << 31, 1 << 45, usize::MAX / 2, usize::MAX];

const NAMES: [&str; 7] = ["", "X", "x", "\0", "Y.Z[0]", "../../x", "ünï𝄞"];

const NUMBERS: [f64; 7] = [0.0, -1.0, 0.5, 1e300, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];

const PROGRAM: &str = "
function scale(X[N], S) -> (Y) { Y = X * S; }

model Line(X[N, 1]) -> (Y) { Y = X |> Dense(1); }

train Line { loss = MeanSquaredError(); optimizer = Adam(); batch_size = 4; seed = 3; }
";

/// Runs a test. Reports its name if it panics.
fn calm<R>(what: &str, f: impl FnOnce() -> R) -> Option<R> {
    let result = catch_unwind(AssertUnwindSafe(f));
    assert!(result.is_ok(), "{what} panicked");
    result.ok()
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hostile").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Returns paths that cannot be read.
fn paths() -> Vec<PathBuf> {
    let folder = folder("paths");
    let mut paths: Vec<PathBuf> = ["", ".", "/", "no/such/file"].map(PathBuf::from).to_vec();
    let names = [
        "x.npy",
        "x.npz",
        "x.safetensors",
        "x.safetensors.index.json",
        "x.pt",
        "x.h5",
        "x.csv",
        "x.png",
        "x.onnx",
    ];
    for name in names.into_iter().chain(["a-images-idx3-ubyte.gz", "a-labels-idx1-ubyte"]) {
        fs::write(folder.join(name), b"").unwrap();
        paths.extend([folder.join(name), folder.join("none").join(name)]);
    }
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt;
        let name = std::ffi::OsStr::from_bytes(b"\xff\xfe.npz");
        paths.extend([folder.join(name), folder.join(name).with_extension("safetensors")]);
        paths.push(PathBuf::from(std::ffi::OsStr::from_bytes(b"a\0b.npy")));
    }
    paths.push(folder);
    paths
}

fn types() -> Vec<TensorType> {
    let mut types =
        vec![TensorType::scalar(DType::F32), TensorType::new(DType::F32, vec![1; 1000])];
    for dtype in DType::ALL {
        types.extend(SIZES.map(|size| TensorType::new(dtype, [size])));
        types.push(TensorType::new(dtype, [usize::MAX, usize::MAX]));
        types.push(TensorType::new(dtype, [0, usize::MAX, 2]));
    }
    types
}

fn small() -> Vec<Tensor> {
    let special = NUMBERS.map(|number| number as f32);
    let mut tensors =
        vec![Tensor::from_f32([7], &special).unwrap(), Tensor::from_f32([], &[1.0]).unwrap()];
    for dtype in DType::ALL {
        tensors.extend(Tensor::zeros(TensorType::new(dtype, [0])));
        tensors.extend(Tensor::zeros(TensorType::new(dtype, [4, 1])));
        tensors.extend(Tensor::from_scalars(
            TensorType::new(dtype, [1, 3, 3, 3]),
            [Scalar::f32(f32::NAN); 27],
        ));
    }
    tensors
}

#[test]
fn tensors() {
    for ty in types() {
        calm(&format!("{ty:?}"), || {
            let _ = (ty.rank(), ty.checked_elements(), ty.elements(), ty.strides(), ty.to_string());
            let _ = Tensor::from_bytes(ty.clone(), vec![0; 3]);
            let _ = Tensor::from_scalars(ty.clone(), []);
            if ty.checked_elements().is_none_or(|elements| !(10..=1 << 40).contains(&elements)) {
                let _ = Tensor::zeros(ty.clone());
                let _ = Tensor::from_scalars(ty.clone(), std::iter::repeat_n(Scalar::f32(1.0), 20));
            }
            let _ = Tensor::from_f32(ty.shape.clone(), &[1.0, 2.0]);
            let _ = ty.clone().tensor_type();
        });
    }
    // Too many or too few scalars are refused, even an endless iterator.
    assert_eq!(
        Tensor::from_scalars(TensorType::new(DType::F32, [3]), std::iter::repeat(Scalar::f32(1.0))),
        None
    );
    assert_eq!(Tensor::from_scalars(TensorType::new(DType::F32, [1 << 45]), []), None);
    for mut tensor in small() {
        calm(&format!("{tensor:?}"), || {
            for position in SIZES {
                let _ = tensor.get(position);
                tensor.set(position, Scalar::f32(f32::NAN));
            }
            for order in [&[][..], &[0], &[1, 0], &[0, 0], &[7], &[usize::MAX], &[3, 2, 1, 0]] {
                let _ = tensor.transposed(order);
            }
            let _ = (tensor.is_finite(), tensor.to_f64s(), tensor.scalars().count());
        });
    }
    for dtype in DType::ALL {
        for number in NUMBERS {
            let scalar = Scalar::from_f64(dtype, number);
            let _ = (
                scalar.to_f64(),
                scalar.to_i64(),
                scalar.is_true(),
                scalar.to_string(),
                scalar.bits(),
            );
            DType::ALL.into_iter().for_each(|other| _ = scalar.cast(other));
        }
        let _ = [0, -1, i64::MAX, i64::MIN].map(|number| Scalar::from_i64(dtype, number));
        let _ = Scalar::from_bits(dtype, u64::MAX);
    }
}

#[test]
fn devices_and_models() {
    for name in NAMES.into_iter().chain(["wgpu:", "wgpu:-1", "wgpu:99999999999999999999", "cpu:0"])
    {
        calm(name, || Device::named(name).map(|_| ()).unwrap_err());
        calm(name, || _ = Model::compile(name));
        calm(name, || _ = Model::compile_file(name, "import \"y.tile\";", &|_: &str| None.into()));
    }
    calm("wgpu", || _ = Device::wgpu(usize::MAX));
    let device = Device::cpu().exact();
    let _ = (device.name(), device.warnings(), device.tuning(), device.profile(), Device::list());
    for path in paths() {
        calm(&format!("{path:?}"), || _ = Model::open_onnx(&path));
    }
    let model = Model::compile(PROGRAM).unwrap();
    let _ = (
        model.is_onnx(),
        model.onnx_inputs(),
        model.onnx_sizes(&NAMES),
        model.warnings(),
        model.sources(),
    );
}

#[test]
fn sessions_of_wrong_sizes() {
    let model = Model::compile(PROGRAM).unwrap();
    for name in ["cpu", "reference", "check"] {
        let device = Device::named(name).unwrap();
        let on = || model.on(&device).entry("scale").constant("S", Scalar::f32(2.0));
        for entry in NAMES {
            calm(entry, || {
                _ = model.on(&device).entry(entry).input(entry, [1]).dim(entry, 1).build()
            });
            calm(entry, || _ = on().set(entry, Setting::Float(f64::NAN)).build());
        }
        for size in SIZES.into_iter().skip(2) {
            let what = format!("{name}: {size}");
            calm(&what, || assert!(on().input("X", [size]).build().is_err(), "{what}"));
            calm(&what, || assert!(on().dim("N", size).build().is_err(), "{what}"));
        }
        for number in NUMBERS {
            calm("constant", || {
                _ = on().constant("S", Scalar::f32(number as f32)).input("X", [1]).build()
            });
        }
        for ty in types().into_iter().filter(|ty| ty.elements() > 1 << 40 || ty.rank() > 1) {
            calm(&format!("{name}: {ty}"), || _ = on().input("X", ty).build());
        }
        let few = Limits { bytes: 10_000_000, ..Limits::default() };
        let error =
            on().input("X", [10_000_000]).limits(few).build().map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("the limit is 10000000 bytes"), "{error}");
        assert!(on().input("X", [10]).limits(few).build().is_ok());
        calm("network", || _ = on().input("X", [usize::MAX]).network());
        calm("training", || _ = on().input("X", [0]).training(true).factors(DType::Bool).build());
        calm("value", || _ = on().value("", Tensor::from_f32([1], &[f32::NAN]).unwrap()).build());
        calm("import", || _ = on().import());
    }
}

#[test]
fn runs_of_wrong_tensors() {
    let model = Model::compile(PROGRAM).unwrap();
    for name in ["cpu", "reference", "check"] {
        let device = Device::named(name).unwrap();
        let mut session = model.on(&device).entry("Line").input("X", [4, 1]).build().unwrap();
        let x = Tensor::from_f32([4, 1], &[1.0; 4]).unwrap();
        calm("before a run", || {
            let _ = (
                session.read(),
                session.execute(),
                session.trace(),
                session.repeat(3),
                session.repeat(0),
            );
            let _ = session.run([("X", &x)]);
        });
        for tensor in small() {
            for input in NAMES {
                calm(input, || _ = session.run([(input, &tensor)]));
                calm(input, || _ = session.set(input, &tensor));
                calm(input, || _ = session.get(input));
            }
        }
        session.initialise(u64::MAX).unwrap();
        session.seed(u64::MAX, u32::MAX).unwrap();
        session.initialise(0).unwrap();
        let mut outputs = session.run([("X", &x)]).unwrap();
        for output in NAMES {
            let error = calm(output, || outputs.remove(output).unwrap_err()).unwrap();
            assert!(matches!(error, Error::UnknownOutput { .. }), "{error}");
        }
        assert_eq!(outputs.remove("Y").unwrap().shape(), [4, 1]);
        assert_eq!(
            outputs.remove("Y").unwrap_err().to_string(),
            "unknown output `Y`: there are no outputs left"
        );
        for path in paths() {
            calm(&format!("{path:?}"), || _ = session.load(&path));
            calm(&format!("{path:?}"), || {
                _ = session.load_with(&LoadOptions::file(&path).allow_extra(true).partial(true))
            });
        }
        calm("save", || _ = session.save("no/such/folder/x.npz"));
        calm("save", || _ = session.save(""));
        let _ = (
            session.plan().is_some(),
            session.cost(),
            session.inputs().count(),
            session.outputs().count(),
        );
        calm("fit", || _ = session.fit(&Arrays::default(), Fit::epochs(1)));
        calm("evaluate", || _ = session.evaluate(&Arrays::default(), usize::MAX));
    }
}

#[test]
fn files() {
    let declared = Declared {
        dtype: DType::F32,
        sizes: vec![Some(usize::MAX), None, None],
        channels_last: true,
    };
    for path in paths() {
        let what = format!("{path:?}");
        calm(&what, || _ = npy::open(&path).unwrap_err());
        calm(&what, || _ = folder::open(&path));
        calm(&what, || {
            _ = folder::open_for(
                &path,
                &Wanted { classes: NAMES.map(str::to_owned).into(), ..Wanted::default() },
            )
        });
        calm(&what, || {
            picture::read(&path, &declared, Pixels::Torchvision).map(|_| ()).unwrap_err()
        });
        calm(&what, || WeightsFile::open(&path).map(|_| ()).unwrap_err());
        calm(&what, || _ = is_picture(&path));
    }
    for tensor in small() {
        calm(&format!("{tensor:?}"), || {
            for (_, pixels) in Pixels::ALL {
                let _ = encode(Path::new("x.png"), &tensor, pixels);
                let _ = encode(Path::new("x"), &tensor, pixels);
            }
            let mut bytes = Vec::new();
            npy::write(&tensor, &mut bytes).unwrap();
            let _ = (npy::read(&bytes[..]), npy::read_type(&bytes[..bytes.len() / 2]));
        });
    }
    let folder = folder("written");
    let many = Tensor::zeros(TensorType::new(DType::U8, vec![1; 40_000])).unwrap();
    calm("axes", || npy::write(&many, Vec::new()).unwrap_err());
    for name in NAMES {
        for extension in ["npz", "safetensors", "h5", "pt", "json", ""] {
            let path = folder.join("x").with_extension(extension);
            let named = |tensor: &Tensor| (name.to_owned(), tensor.clone());
            calm(name, || {
                _ = weights::write(&path, &small().iter().map(named).collect::<Vec<_>>())
            });
            calm(name, || _ = weights::write(&path, &[]));
        }
    }
    calm("whole", || _ = write_whole(Path::new(""), |_| Ok::<(), std::io::Error>(())));
    let path = folder.join("x.safetensors");
    weights::write(&path, &[("a".to_owned(), Tensor::from_f32([1], &[1.0]).unwrap())]).unwrap();
    let mut file = WeightsFile::open(&path).unwrap();
    calm("number", || file.read(usize::MAX).map(|_| ()).unwrap_err());
    // The file is now shorter than when it was opened.
    fs::write(&path, b"").unwrap();
    calm("short", || file.read(0).map(|_| ()).unwrap_err());
}

/// An error keeps its cause.
#[test]
fn sources_of_errors() {
    let path = folder("none").join("x.npz");
    let mut session = Model::compile(PROGRAM)
        .unwrap()
        .on(&Device::cpu())
        .entry("Line")
        .input("X", [1, 1])
        .build()
        .unwrap();
    let errors = [
        folder::open(&path.with_extension("csv")).map(|_| ()).unwrap_err(),
        session.load(&path).map(|_| ()).unwrap_err(),
        Model::open_onnx(&path).map(|_| ()).unwrap_err(),
        npy::open(&path).map_err(Error::from).map(|_| ()).unwrap_err(),
    ];
    for error in &errors[1..] {
        let mut source = std::error::Error::source(error);
        while let Some(inner) = source.and_then(std::error::Error::source) {
            source = Some(inner);
        }
        let io = source.and_then(|source| source.downcast_ref::<std::io::Error>());
        assert_eq!(io.map(std::io::Error::kind), Some(std::io::ErrorKind::NotFound), "{error:?}");
    }
}
