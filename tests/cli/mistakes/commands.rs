//! Mistakes on the command line, and training that diverges.

use super::{Edit, Mistake, Net, Text};

pub const MISTAKES: &[Mistake] = &[
    (
        "models trained in turn with other numbers of epochs",
        Text(
            "\
model First(Point[N, 2]) -> (Y) { Y = Point |> Dense(2, activation = softmax); }
train First { loss = SparseCategoricalCrossentropy(); optimizer = Adam(); epochs = 2; }
model Second(Point[N, 2]) -> (Y) { Y = Point |> Dense(2, activation = softmax); }
train Second { loss = SparseCategoricalCrossentropy(); optimizer = Adam(); epochs = 3; }
",
        ),
        "train net.tile --data points.csv",
        &["the `train` blocks set different values for `epochs`"],
    ),
    (
        "a part to train that is misspelt",
        Edit("batch_size = 8;", "trained = \"dnse\";"),
        "train net.tile --data points.csv",
        &["cannot train `dnse`: there is no such layer or weight", "did you mean `dense`?"],
    ),
    (
        "a command misspelt",
        Net,
        "trian net.tile",
        &["`trian` is neither a command nor a file: did you mean `train`?"],
    ),
    (
        "no command",
        Net,
        "net.tile",
        &[
            "net.tile is not enough: say what to do with it, as in `tilec check net.tile`; `tilec --help` lists the commands, and `--emit KIND` prints a listing",
        ],
    ),
    ("no data", Net, "train net.tile", &["the following required arguments were not provided:"]),
    (
        "an option misspelt on the command line",
        Net,
        "train net.tile --data points.csv --epoch 3",
        &["`train` has no option `--epoch`: did you mean `--epochs`?"],
    ),
    (
        "the learning rate on the command line",
        Net,
        "train net.tile --data points.csv --lr 0.1",
        &["`train` has no option `--lr`: it is in the program's `train` block"],
    ),
    (
        "the loss on the command line",
        Net,
        "train net.tile --data points.csv --loss mse",
        &["`train` has no option `--loss`: it is in the program's `train` block"],
    ),
    (
        "a negative number of epochs on the command line",
        Net,
        "train net.tile --data points.csv --epochs -1",
        &["`--epochs` takes a whole number of at least 0, and this is `-1`"],
    ),
    (
        "a negative seed",
        Net,
        "run net.tile --dim N=1 --random -1",
        &["`--random` takes a whole number of at least 0, and this is `-1`"],
    ),
    (
        "a number that is a word",
        Net,
        "train net.tile --data points.csv --epochs ten",
        &["`--epochs` takes a whole number of at least 0, and this is `ten`"],
    ),
    (
        "an empty batch on the command line",
        Net,
        "train net.tile --data points.csv --batch-size 0",
        &["a batch has at least one sample"],
    ),
    (
        "a device that is not there",
        Net,
        "train net.tile --data points.csv --device cuda",
        &["there is no device `cuda`: the names are cpu, wgpu, wgpu:N, reference and check"],
    ),
    (
        "a shape with commas",
        Net,
        "run net.tile --shape Point=2,3 --random 1",
        &[
            "invalid value 'Point=2,3' for '--shape <X=SHAPE>': expected sizes with `x` between them, as in Point=2x3",
        ],
    ),
    (
        "a size without a value",
        Net,
        "run net.tile --dim N --random 1",
        &["invalid value 'N' for '--dim <N=SIZE>': expected NAME=VALUE"],
    ),
    (
        "a negative size",
        Net,
        "run net.tile --dim N=-1 --random 1",
        &["invalid value 'N=-1' for '--dim <N=SIZE>': `-1` is not a size"],
    ),
    ("a size misspelt", Net, "run net.tile --dim M=1 --random 1", &["it has N"]),
    (
        "an input misspelt on the command line",
        Net,
        "run net.tile --input Piont=1,2 --random 1",
        &["did you mean `Point`?"],
    ),
    (
        "an entry misspelt",
        Net,
        "run net.tile --entry Nat --dim N=1 --random 1",
        &["did you mean `Net`?"],
    ),
    (
        "a hyper-parameter that is not there",
        Net,
        "run net.tile --set units=3 --dim N=1 --random 1",
        &["it has no hyper-parameters"],
    ),
    (
        "a kind of listing that is not there",
        Net,
        "net.tile --emit cuda",
        &["invalid value 'cuda' for '--emit <KIND>'"],
    ),
    (
        "a target that is not there",
        Net,
        "net.tile --emit wgsl --target cuda",
        &[
            "invalid value 'cuda' for '--target <NAME>': the targets are generic, apple, amd-gcn, amd-rdna, amd-rdna3, intel-xe, nvidia, mobile, cpu, wgpu and wgpu:N",
        ],
    ),
    (
        "a percentage for a fraction",
        Net,
        "train net.tile --data points.csv --validation 20",
        &[
            "a fraction for `--validation` is at least 0, and below 1, and this is 20; a folder of this name is ./20",
        ],
    ),
    (
        "a format of weights that is not written",
        Net,
        "train net.tile --data points.csv --save net.pt",
        &[
            "the name of the file for `--save` ends in .safetensors or .npz or .weights.h5, and this is net.pt",
        ],
    ),
    (
        "a learning rate that is too high",
        Edit("Adam(0.01)", "SGD(1e30)"),
        "train net.tile --data points.csv",
        &["try a tenth of it"],
    ),
    (
        "a loss that grows until it is infinite",
        Text(
            "model Net(Point[N, 2]) -> (Y) { Y = Point |> Dense(8) |> Dense(1); }\n\
             train Net { loss = MeanSquaredError(); optimizer = SGD(30.0); epochs = 20; batch_size = 8; }\n",
        ),
        "train net.tile --data points.csv",
        &["try a tenth of it"],
    ),
    (
        "a logarithm of negative numbers",
        Edit("Y = Point\n", "Y = log(Point - 5)\n"),
        "train net.tile --data points.csv",
        &["`Y` is the first tensor with NaN: a logarithm of a negative number"],
    ),
    (
        "a loss with the targets first",
        Text(
            "loss Mine()(YTrue, YPred) -> (L) { L = mean(-1)((YPred - YTrue) * (YPred - YTrue)); }\n",
        ),
        "check net.tile",
        &["the first input of a loss is the predictions, and this is called `YTrue`"],
    ),
    (
        "a file with layers only",
        Text("layer L()(X) -> (Y) { Y = X; }\n"),
        "run net.tile --random 1",
        &["choose a layer with `--entry`: L"],
    ),
    (
        "an empty file",
        Text(""),
        "run net.tile --random 1",
        &["expected a model or a function, found none in this file"],
    ),
    (
        "an option of another command",
        Net,
        "run net.tile --epochs 3",
        &["`run` has no option `--epochs`: it is an option of `tilec train`"],
    ),
    (
        "a class by name",
        Net,
        "train net.tile --data points.csv --class-weight cat=2",
        &["`--class-weight cat=…`: the classes have no names; give the number of one"],
    ),
    (
        "an output misspelt",
        Net,
        "run net.tile --dim N=1 --random 1 --output Z=y.npy",
        &["there is no output `Z`; the outputs are Y"],
    ),
    (
        "an output of an unknown form",
        Net,
        "run net.tile --dim N=1 --random 1 --output Y=y.txt",
        &[
            "invalid value 'Y=y.txt' for '--output <Y=FILE>': it wants a file that ends in .npy, .png, .jpg or .jpeg",
        ],
    ),
    (
        "an option with one dash",
        Net,
        "train net.tile -data points.csv",
        &["`train` has no option `-data`: write `--data`"],
    ),
];
