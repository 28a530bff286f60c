//! Pictures as inputs and outputs. tests/pictures.rs checks their values.

use std::path::Path;

use insta::assert_snapshot;

use crate::tilec::{empty_folder, program, tilec};

const SHAPES: &str = "tests/golden/pictures/shapes.png";

/// A program that inverts colors.
const NEGATIVE: &str = "function negative(Image[H, W, C]) -> (Out) { Out = 255 - Image; }";

fn pixels(path: &Path) -> image::DynamicImage {
    image::open(path).unwrap()
}

fn run(program: &Path, arguments: &[&str]) -> crate::tilec::Run {
    tilec(["run", program.to_str().unwrap()].into_iter().chain(arguments.iter().copied()))
}

#[test]
fn in_and_out() {
    let negative = program("pictures", NEGATIVE);
    let out = empty_folder("pictures-out");
    let file = |name: &str| out.join(name).to_str().unwrap().to_owned();
    let input = format!("Image={SHAPES}");
    let png = file("out.png");
    let said = run(&negative, &["--input", &input, "--output", &format!("Out={png}")]).ok();
    assert_eq!(said.text(), format!("Out f32[37, 53, 3] {png}\n"));
    let (before, after) =
        (pixels(Path::new(SHAPES)).into_rgb8(), pixels(Path::new(&png)).into_rgb8());
    assert!(before.iter().zip(after.iter()).all(|(a, b)| a + b == 255));

    // A given size resizes the picture; values that were scaled are written as colors.
    let sized = ["--input", &input, "--shape", "Image=20x30x3", "--pictures", "keras-tf", "--json"];
    let said =
        run(&negative, &[&sized[..], &["--output", &format!("Out={}", file("out.jpg"))]].concat())
            .ok();
    assert!(said.text().contains("\"shape\":[20,30,3],\"file\":"), "{}", said.text());
    assert_eq!(
        (pixels(&out.join("out.jpg")).width(), pixels(&out.join("out.jpg")).height()),
        (30, 20)
    );

    // A folder for all outputs, and an array.
    let array = format!("Out={}", file("array.npy"));
    run(&negative, &["--input", &input, "--output", &array, "--output-dir", &file("all")]).ok();
    assert!(out.join("array.npy").is_file() && !out.join("all/Out.npy").exists());

    // The sizes of one input follow from an array for another.
    let two = "function two(Mask[H, W], Image[H, W, 3]) -> (Out) { Out[y, x, c: H, W, 3] = +(Image[y, x, c] * Mask[y, x]); }";
    let two = program("pictures-two", two);
    let mask = out.join("mask.npy");
    let ones = tile_runtime::Tensor::from_f32([10, 12], &[1.0; 120]).unwrap();
    tile_runtime::data::npy::write(&ones, std::fs::File::create(&mask).unwrap()).unwrap();
    let said = run(&two, &["--input", &input, "--input", &format!("Mask={}", mask.display())]).ok();
    assert!(said.text().starts_with("Out f32[10, 12, 3]\n"), "{}", said.text());
}

/// The channel axis of an ONNX file's picture follows from its sizes.
#[test]
fn for_onnx() {
    let input = format!("X={SHAPES}");
    for values in ["raw", "torchvision"] {
        tilec([
            "run",
            "tests/golden/onnx/convolutions.onnx",
            "--input",
            &input,
            "--pictures",
            values,
        ])
        .ok();
    }
}

#[test]
fn refused() {
    let negative = program("pictures-refused", NEGATIVE);
    let any = program("pictures-any", "function any(X) -> (Y) { Y = X + 1; }");
    let wide = program(
        "pictures-wide",
        "function wide(X[H, W]) -> (Y) { Y[y, x, c: H, W, 7] = =(X[y, x]); }",
    );
    let folder = empty_folder("pictures-broken");
    // Returns the message without the place in the program.
    let refused = |program: &Path, arguments: &[&str]| {
        let run = run(program, arguments);
        assert_ne!(run.code, 0);
        let mut lines =
            run.err.lines().filter(|line| line.contains("rror: ") && !line.contains("XDG"));
        lines.next().unwrap().replace(&folder.display().to_string(), "FOLDER")
    };
    let (broken, out) = (folder.join("broken.png"), folder.join("out.png"));
    std::fs::write(&broken, &std::fs::read(SHAPES).unwrap()[..1000]).unwrap();
    let (image, x) = (format!("Image={SHAPES}"), format!("X={SHAPES}"));
    let all = [
        refused(&negative, &["--input", &format!("Image={}", broken.display())]),
        refused(&negative, &["--input", "Image=none.jpg"]),
        refused(&negative, &["--input", &image, "--shape", "Image=2x8x8x3"]),
        refused(&negative, &["--input", &image, "--dim", "C=2"]),
        refused(
            &negative,
            &["--input", &image, "--shape", "Image=u8:8x8x3", "--pictures", "keras-tf"],
        ),
        refused(&negative, &["--input", &image, "--pictures", "caffe"]),
        refused(&negative, &["--input", &image, "--output", "Uot=out.png"]),
        refused(&negative, &["--input", &image, "--output", "Out=out.gif"]),
        refused(&any, &["--input", &x]),
        refused(&wide, &["--input", &x, "--output", &format!("Y={}", out.display())]),
    ];
    assert_snapshot!(all.join("\n"), @"
    [E0301] Error: FOLDER/broken.png: unexpected end of file
    [E0301] Error: none.jpg: there is no such file
    [E0301] Error: tests/golden/pictures/shapes.png: the input is [2, 8, 8, 3]: it is a batch of 2 pictures, and this is one
    [E0301] Error: tests/golden/pictures/shapes.png: the input is [?, ?, 2]: it is no picture, which is [H, W], [H, W, C] or [C, H, W], with 1, 3 or 4 channels, or one such in a batch
    [E0301] Error: tests/golden/pictures/shapes.png: the input is of the type u8, which has no place for scaled values of pixels
    error: invalid value 'caffe' for '--pictures <VALUES>': it wants one of raw, keras-tf, keras-caffe, keras-torch, torchvision
    error: there is no output `Uot`; did you mean `Out`?
    error: invalid value 'Out=out.gif' for '--output <Y=FILE>': it wants a file that ends in .npy, .png, .jpg or .jpeg
    [E0301] Error: `X` is no input whose number of axes is known, and so none for a picture
    error: FOLDER/out.png: the output is f32[37, 53, 7]: it is no picture, which is [H, W], [H, W, C] or [C, H, W], with 1, 3 or 4 channels, or one such in a batch
    ");
}
