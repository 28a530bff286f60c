//! Files that are missing, of another kind, or that do not fit.

use std::fs;
use std::io::Write;
use std::path::Path;

use tile_runtime::{DType, Tensor, TensorType};

use super::{Edit, Mistake, Net};

pub const MISTAKES: &[Mistake] = &[
    (
        "a program that is not there",
        Net,
        "run nett.tile",
        &["cannot read nett.tile: there is no such file; did you mean `net.tile`?"],
    ),
    (
        "a folder for a program",
        Net,
        "run empty",
        &["empty is a folder: name a file that ends in .tile"],
    ),
    (
        "a model of Keras",
        Net,
        "run model.keras",
        &[
            "cannot read model.keras: it is a model of Keras, not a Tile program: convert it, with `tilec import FILE -o model.tile`, or give it to a program, with `--weights`",
        ],
    ),
    (
        "a model of PyTorch",
        Net,
        "run model.pt",
        &[
            "cannot read model.pt: it is a file of PyTorch, not a Tile program: write the layers in Tile, and give them the file, with `--weights`",
        ],
    ),
    (
        "weights of Keras for a program",
        Net,
        "run weights.h5",
        &[
            "cannot read weights.h5: it is an HDF5 file, as Keras writes them, not a Tile program: give it to a program, with `--weights`",
        ],
    ),
    (
        "an array for a program",
        Net,
        "run x.npy",
        &[
            "cannot read x.npy: it is an array of NumPy, not a Tile program: give it to a program, with `--input X=FILE`",
        ],
    ),
    (
        "a picture for a program",
        Net,
        "run picture.png",
        &[
            "cannot read picture.png: it is a PNG picture, not a Tile program: give it to a program, with `--input Image=FILE`, or with `tilec predict`",
        ],
    ),
    (
        "a compressed file for a program",
        Net,
        "run net.tile.gz",
        &[
            "cannot read net.tile.gz: it is compressed with gzip, not a Tile program: unpack it first, with `gunzip`",
        ],
    ),
    (
        "weights for a program",
        Net,
        "summary net.safetensors",
        &[
            "cannot read net.safetensors: it is a file of weights, not a Tile program: give it to a program, with `--weights`",
        ],
    ),
    (
        "an ONNX file of another name",
        Net,
        "run onnx.tile",
        &[
            "cannot read onnx.tile: it is an ONNX model, not a Tile program: give it a name that ends in .onnx",
        ],
    ),
    ("a program of Python", Net, "run net.py", &["this is a program in Python, not in Tile"]),
    (
        "an array that is not there",
        Net,
        "run net.tile --input Point=nothere.npy --weights net.safetensors",
        &["nothere.npy: there is no such file"],
    ),
    (
        "a table for an array",
        Net,
        "run net.tile --input Point=words.csv --weights net.safetensors",
        &["words.csv is a table, and `--input` takes an array (.npy), a picture or numbers"],
    ),
    (
        "an array that is cut",
        Net,
        "run net.tile --input Point=cut.npy --weights net.safetensors",
        &["numpy.save writes such a file"],
    ),
    (
        "an array of another size",
        Net,
        "run net.tile --input Point=three.npy --weights net.safetensors",
        &["`Point` must have the size 2 here, and 3 is given: [4, 3]"],
    ),
    (
        "numbers that do not fill the input",
        Net,
        "run net.tile --input Point=1,2,3 --weights net.safetensors",
        &["`Point` takes a multiple of 2 numbers, and 3 are given"],
    ),
    (
        "no weights",
        Net,
        "run net.tile --input Point=1,2",
        &[
            "the program's weights have no values: give them with `--weights FILE`, or first values with `--random SEED`. They are",
        ],
    ),
    (
        "weights that are not there",
        Net,
        "run net.tile --input Point=1,2 --weights nothere.safetensors",
        &["nothere.safetensors"],
    ),
    (
        "weights of another model",
        Edit("Dense(8", "Dense(9"),
        "run net.tile --input Point=1,2 --weights net.safetensors",
        &["net.safetensors: it does not have the program's weights:"],
    ),
    (
        "weights with a layer too few",
        Edit("|> Dense(2", "|> Dense(4) |> Dense(2"),
        "run net.tile --input Point=1,2 --weights net.safetensors",
        &["net.safetensors: it does not have the program's weights:"],
    ),
    (
        "a program for weights",
        Net,
        "run net.tile --input Point=1,2 --weights net.tile",
        &[
            "net.tile: the name of a file of weights ends in .safetensors, .safetensors.index.json, .npz, .pt, .pth, .h5, .hdf5 or .keras",
        ],
    ),
    (
        "a model of PyTorch for weights",
        Net,
        "run net.tile --input Point=1,2 --weights model.pt",
        &[
            "model.pt: this is not a valid file of PyTorch: it is damaged or cut off: invalid Zip archive",
        ],
    ),
    (
        "data with a letter wrong",
        Net,
        "train net.tile --data point.csv",
        &["point.csv: there is no such file; did you mean `points.csv`?"],
    ),
    (
        "data without an option",
        Net,
        "train net.tile points.csv",
        &["`train` takes one program, and `points.csv` is another file: `--data points.csv`"],
    ),
    (
        "an input without an option",
        Net,
        "run net.tile three.npy",
        &["`--input NAME=three.npy` gives an input its array"],
    ),
    (
        "a program without its ending",
        Net,
        "check net",
        &["cannot read net: there is no such file; did you mean `net.tile`?"],
    ),
    (
        "data of other sizes than the model's",
        Edit("Point[N, 2]", "Point[N, 1, 2]"),
        "train net.tile --data points.csv",
        &[
            "a sample of `Point` is f32[2], and the model declares the sizes [1, 2]",
            "`x.reshape(-1, 1, 2)` in NumPy",
        ],
    ),
    (
        "class numbers for a single output",
        Edit("Dense(2, activation = softmax)", "Dense(1, activation = softmax)"),
        "train net.tile --data points.csv",
        &["the model has one number for a sample, and so one class, 0", "BinaryCrossentropy"],
    ),
    (
        "weights to import",
        Net,
        "import model.pt",
        &["model.pt is a file of weights without a program"],
    ),
    (
        "data that are not there",
        Net,
        "train net.tile --data nothere",
        &["nothere: there is no such file"],
    ),
    (
        "an empty folder of data",
        Net,
        "train net.tile --data empty",
        &[
            "empty: there are no samples in it: expected idx files, arrays called x and y or by the model's inputs and outputs (.npy, .npz), a .csv, or pictures",
        ],
    ),
    (
        "data of an unknown form",
        Net,
        "train net.tile --data net.tile",
        &[
            "net.tile: there are no samples in it: expected idx files, arrays called x and y or by the model's inputs and outputs (.npy, .npz), a .csv, or pictures",
        ],
    ),
    (
        "a table with words",
        Net,
        "train net.tile --data words.csv",
        &["words.csv: line 2, `inside`: `yes` is no number"],
    ),
    (
        "a table with a hole",
        Net,
        "train net.tile --data hole.csv",
        &["hole.csv: line 3, `y`: it is empty"],
    ),
    (
        "a table with a short row",
        Net,
        "train net.tile --data short.csv",
        &["short.csv: line 3: expected 3 columns, found 2"],
    ),
    (
        "a table with too many columns",
        Net,
        "train net.tile --data wide.csv",
        &["a sample of `Point` is f32[3], and the model declares the sizes [2]"],
    ),
    (
        "arrays of different lengths",
        Net,
        "train net.tile --data lengths",
        &["lengths/y.npy has 5 samples, and lengths/x.npy has 4"],
    ),
    (
        "inputs without targets",
        Net,
        "train net.tile --data inputs",
        &["the data have no targets, and `loss` needs them", "an array called `y` or `Y`"],
    ),
    ("NaN in the data", Net, "train net.tile --data nan.csv", &["nan.csv: line 3, `x`: it is NaN"]),
    ("labels that start at one", Net, "train net.tile --data one.csv", &[]),
    (
        "names of classes that are not there",
        Net,
        "predict net.tile --weights net.safetensors points.csv --labels nothere.txt",
        &["cannot read nothere.txt"],
    ),
    (
        "no picture to predict",
        Net,
        "predict net.tile --weights net.safetensors nothere.png",
        &["nothere.png"],
    ),
    (
        "a table whose first column has the classes",
        Net,
        "train net.tile --data first.csv",
        &[
            "label 0.5 in line 2 of first.csv: the model has classes 0 to 1",
            "the targets are the last column, `height`, because no column is called `label`",
        ],
    ),
];

/// Writes the files that the commands read.
pub fn write(folder: &Path) {
    fs::write(folder.join("first.csv"), "kind,width,height\n0,1.5,0.5\n1,0.5,2.5\n").unwrap();
    let path = |name: &str| folder.join(name);
    for name in ["empty", "lengths", "inputs"] {
        fs::create_dir(path(name)).unwrap();
    }
    let write =
        |name: &str, bytes: &[u8]| fs::File::create(path(name)).unwrap().write_all(bytes).unwrap();
    write("model.keras", b"PK\x03\x04\x14\0\0\0\0\0\0\0!\0\0\0\0\0metadata.json");
    write("model.pt", b"PK\x03\x04\0\0\x08\x08\0\0\0\0\0\0\0\0\0\0archive/data.pkl");
    write("weights.h5", b"\x89HDF\r\n\x1a\n\0\0\0\0\0\x08\x08\0");
    write("net.tile.gz", &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 3, 0]);
    write("onnx.tile", b"\x08\x08\x12\x07pytorch\x1a\x051.0.0:\x80\x01");
    write("net.py", b"import keras\nmodel = keras.Sequential()\n");
    image::RgbImage::new(4, 4).save(path("picture.png")).unwrap();
    let array = |name: &str, shape: &[usize]| {
        let ty = TensorType::new(DType::F32, shape.to_vec());
        let tensor = Tensor::from_bytes(ty.clone(), vec![0; 4 * ty.elements()]).unwrap();
        tile_runtime::data::npy::write(&tensor, fs::File::create(path(name)).unwrap()).unwrap();
    };
    for (name, shape) in [
        ("x.npy", &[4usize, 2][..]),
        ("three.npy", &[4, 3][..]),
        ("lengths/x.npy", &[4, 2][..]),
        ("lengths/y.npy", &[5][..]),
        ("inputs/x.npy", &[4, 2][..]),
    ] {
        array(name, shape);
    }
    write("cut.npy", &fs::read(path("x.npy")).unwrap()[..140]);
    for (name, rows) in [
        ("words.csv", "x,y,inside\n1,2,yes\n3,4,no\n"),
        ("hole.csv", "x,y,inside\n1,2,0\n3,,1\n"),
        ("short.csv", "x,y,inside\n1,2,0\n3,1\n"),
        ("wide.csv", "x,y,z,inside\n1,2,3,0\n3,4,5,1\n"),
        ("nan.csv", "x,y,inside\n1,2,0\nnan,4,1\n"),
        ("one.csv", "x,y,inside\n1,2,1\n3,4,2\n"),
    ] {
        write(name, rows.as_bytes());
    }
}
