//! Neural style transfer: paints one picture in the style of another, by the features that VGG19
//! finds in both. The program is `style_transfer.tile`; this file handles pictures and weights, and
//! loops over the program's steps.
//!
//!     cargo run --release --example style_transfer -- content.jpg style.jpg \
//!         --weights vgg19.safetensors -o out.png

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use image::imageops::FilterType;
use image::{ImageReader, RgbImage};
use tile_runtime::weights::WeightsFile;
use tile_runtime::{DType, Device, Model, Outputs, Session, Setting, Tensor, TensorType};

const PROGRAM: &str = include_str!("style_transfer.tile");

/// The outputs of the model `Features`: the content, and the style.
const CONTENT: &str = "Content";
const STYLES: [&str; 5] = ["Style1", "Style2", "Style3", "Style4", "Style5"];

/// The convolutions of VGG19 that are needed, by their names in Keras, and their numbers in
/// torchvision.
const CONVOLUTIONS: [(&str, usize); 13] = [
    ("block1_conv1", 0),
    ("block1_conv2", 2),
    ("block2_conv1", 5),
    ("block2_conv2", 7),
    ("block3_conv1", 10),
    ("block3_conv2", 12),
    ("block3_conv3", 14),
    ("block3_conv4", 16),
    ("block4_conv1", 19),
    ("block4_conv2", 21),
    ("block4_conv3", 23),
    ("block4_conv4", 25),
    ("block5_conv1", 28),
];

/// Paints one picture in the style of another.
#[derive(Parser)]
struct Arguments {
    /// Content image, png or jpeg
    content: PathBuf,
    /// Style image, png or jpeg
    style: PathBuf,
    /// Weights of VGG19, .safetensors or .npz, under the names of Keras (block1_conv1.Kernel) or
    /// torchvision (features.0.weight)
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
    /// Random weights instead, of a network with so many filters in its first block: 64 is VGG19
    #[arg(
        long,
        value_name = "WIDTH",
        conflicts_with = "weights",
        required_unless_present = "weights"
    )]
    random: Option<usize>,
    /// The picture to write, png or jpeg
    #[arg(short, long, default_value = "out.png", value_name = "FILE")]
    output: PathBuf,
    /// The longer side of the picture, in pixels
    #[arg(long, default_value_t = 512)]
    size: u32,
    #[arg(long, default_value_t = 300)]
    steps: usize,
    /// How far a pixel moves in a step, at most about this: of 255
    #[arg(long, default_value_t = 2.0)]
    lr: f64,
    #[arg(long, default_value_t = 1.0)]
    content_weight: f64,
    #[arg(long, default_value_t = 10.0)]
    style_weight: f64,
    /// Where to compute: cpu, wgpu, wgpu:N [default: the best real GPU, else cpu]
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let device = arguments.device.as_deref().map_or_else(Device::best, Device::named)?;
    let weights = match (&arguments.weights, arguments.random) {
        (Some(path), _) => Vgg19::open(path)?,
        (None, width) => Vgg19::random(width.unwrap_or(64)),
    };
    let (content, style) =
        (open(&arguments.content, arguments.size)?, open(&arguments.style, arguments.size)?);
    let settings = [
        ("content_weight", arguments.content_weight),
        ("style_weight", arguments.style_weight),
        ("lr", arguments.lr),
    ];
    let mut transfer = Transfer::new(&device, &weights, &content, &style, &settings)?;
    for step in 1..=arguments.steps {
        let loss = transfer.step()?;
        if step % 10 == 0 || step == arguments.steps {
            eprintln!("step {step}/{} - loss: {loss:.4}", arguments.steps);
        }
    }
    transfer.picture().save(&arguments.output)?;
    Ok(())
}

/// Opens a picture, and resizes its longer side to `size`.
fn open(path: &Path, size: u32) -> Result<RgbImage, Box<dyn Error>> {
    let failed = |error: &dyn Error| format!("{}: {error}", path.display());
    let reader = ImageReader::open(path)
        .and_then(ImageReader::with_guessed_format)
        .map_err(|e| failed(&e))?;
    let picture = reader.decode().map_err(|e| failed(&e))?;
    Ok(picture.resize(size, size, FilterType::Lanczos3).to_rgb8())
}

/// Weights for the program, such as `vgg19.block1_conv1.Kernel`.
struct Vgg19 {
    width: usize,
    /// The preparation of pictures for these weights: `caffe` or `torch`.
    preprocessing: &'static str,
    /// The weights, or `None` for random ones.
    values: Option<Vec<(String, Tensor)>>,
}

impl Vgg19 {
    fn random(width: usize) -> Vgg19 {
        Vgg19 { width, preprocessing: "torch", values: None }
    }

    /// Reads a file with Keras' names and shapes, or torchvision's. Other entries are ignored.
    fn open(path: &Path) -> Result<Vgg19, Box<dyn Error>> {
        let mut file = WeightsFile::open(path)?;
        let names: Vec<String> = file.tensors().iter().map(|(name, _)| name.clone()).collect();
        let find = |wanted: &str| names.iter().position(|name| name == wanted);
        let is_torch = find("features.0.weight").is_some();
        let mut values = Vec::new();
        for (name, number) in CONVOLUTIONS {
            for (part, torch) in [("Kernel", "weight"), ("Bias", "bias")] {
                let wanted = if is_torch {
                    format!("features.{number}.{torch}")
                } else {
                    format!("{name}.{part}")
                };
                let at = find(&wanted)
                    .ok_or_else(|| format!("{}: there is no `{wanted}` in it", path.display()))?;
                let value = file.read(at)?;
                let value = if is_torch && part == "Kernel" {
                    kernel_of_torch(&value)?
                } else {
                    as_f32(&value)?
                };
                values.push((format!("vgg19.{name}.{part}"), value));
            }
        }
        let width = values[0].1.shape().last().copied().unwrap_or(0);
        Ok(Vgg19 {
            width,
            preprocessing: if is_torch { "torch" } else { "caffe" },
            values: Some(values),
        })
    }

    /// Loads the weights into one of the program's models.
    fn give(&self, session: &mut Session) -> Result<(), Box<dyn Error>> {
        match &self.values {
            None => session.initialise(0)?,
            Some(values) => values.iter().try_for_each(|(path, value)| session.set(path, value))?,
        }
        Ok(())
    }
}

fn as_f32(tensor: &Tensor) -> Result<Tensor, Box<dyn Error>> {
    let tensor =
        Tensor::from_scalars(TensorType::new(DType::F32, tensor.shape()), tensor.scalars());
    tensor.ok_or_else(|| "a weight is too large".into())
}

/// Converts `[out, in, y, x]` to `[y, x, in, out]`.
fn kernel_of_torch(kernel: &Tensor) -> Result<Tensor, Box<dyn Error>> {
    let &[outs, ins, height, width] = kernel.shape() else {
        return Err(format!("a kernel is {}, and should have four axes", kernel.ty()).into());
    };
    let place = |position: usize| {
        let (rest, o) = (position / outs, position % outs);
        let (rest, i) = (rest / ins, rest % ins);
        let (y, x) = (rest / width, rest % width);
        kernel.get(((o * ins + i) * height + y) * width + x)
    };
    let ty = TensorType::new(DType::F32, [height, width, ins, outs]);
    let count = ty.elements();
    Tensor::from_scalars(ty, (0..count).map(place)).ok_or_else(|| "a weight is too large".into())
}

/// A picture that is being transferred.
struct Transfer {
    session: Session,
    /// The picture and the optimizer's states for it, as the program's inputs.
    state: [(&'static str, Tensor); 3],
    steps: usize,
}

impl Transfer {
    /// Starts with the content. `settings` are hyper-parameters of the model `Step`.
    fn new(
        device: &Device,
        weights: &Vgg19,
        content: &RgbImage,
        style: &RgbImage,
        settings: &[(&str, f64)],
    ) -> Result<Transfer, Box<dyn Error>> {
        let model = Model::compile(PROGRAM)?;
        let (width, preprocessing) =
            (Setting::Int(weights.width as i64), Setting::Name(weights.preprocessing.to_owned()));
        let on = |entry: &str| {
            let builder = model.on(device).entry(entry);
            builder.set("width", width.clone()).set("preprocessing", preprocessing.clone())
        };
        let features = |picture: &Tensor| -> Result<Outputs, Box<dyn Error>> {
            let mut session = on("Features").input("Picture", picture.shape()).build()?;
            weights.give(&mut session)?;
            Ok(session.run([("Picture", picture)])?)
        };
        let picture = tensor(content)?;
        let wanted = features(&picture)?.remove(CONTENT)?;
        let mut styles = features(&tensor(style)?)?;
        let mut builder =
            on("Step").input("Picture", picture.shape()).input(CONTENT, wanted.ty().clone());
        for (name, value) in settings {
            builder = builder.set(*name, Setting::Float(*value));
        }
        for name in STYLES {
            let shape = styles.get(name).map(|tensor| tensor.shape().to_vec()).unwrap_or_default();
            builder = builder.input(name, shape);
        }
        let mut session = builder.build()?;
        weights.give(&mut session)?;
        session.set(CONTENT, &wanted)?;
        for name in STYLES {
            session.set(name, &styles.remove(name)?)?;
        }
        let zeros = Tensor::zeros(picture.ty().clone()).ok_or("the picture is too large")?;
        let state = [("Picture", picture), ("Momentum", zeros.clone()), ("Velocity", zeros)];
        Ok(Transfer { session, state, steps: 0 })
    }

    /// Makes a step, and returns the loss before it.
    fn step(&mut self) -> Result<f64, Box<dyn Error>> {
        self.steps += 1;
        let number = Tensor::from_f32([], &[self.steps as f32]).ok_or("a number is a tensor")?;
        let inputs =
            self.state.iter().map(|(name, tensor)| (*name, tensor)).chain([("Number", &number)]);
        let mut outputs = self.session.run(inputs)?;
        for (name, tensor) in &mut self.state {
            *tensor = outputs.remove(&format!("Next{name}"))?;
        }
        Ok(outputs.remove("Loss")?.get(0).to_f64())
    }

    fn picture(&self) -> RgbImage {
        let picture = &self.state[0].1;
        let bytes = picture.scalars().map(|value| value.to_f64().round() as u8).collect();
        let (height, width) = (picture.shape()[1] as u32, picture.shape()[2] as u32);
        RgbImage::from_raw(width, height, bytes).expect("a picture has three bytes for each pixel")
    }
}

/// Returns f32[1, y, x, 3], from 0 to 255.
fn tensor(picture: &RgbImage) -> Result<Tensor, Box<dyn Error>> {
    let values: Vec<f32> = picture.as_raw().iter().map(|&byte| f32::from(byte)).collect();
    let shape = [1, picture.height() as usize, picture.width() as usize, 3];
    Tensor::from_f32(shape, &values).ok_or_else(|| "the picture is too large".into())
}

#[cfg(test)]
mod tests {
    use tile_runtime::weights;

    use super::*;

    fn picture(color: impl Fn(u32, u32) -> [u8; 3]) -> RgbImage {
        RgbImage::from_fn(32, 24, |x, y| image::Rgb(color(x, y)))
    }

    fn disc() -> RgbImage {
        picture(|x, y| {
            if x.abs_diff(16).pow(2) + y.abs_diff(12).pow(2) < 80 {
                [230, 40, 40]
            } else {
                [20, 30, 90]
            }
        })
    }

    fn stripes() -> RgbImage {
        picture(|x, y| if (x + y) % 8 < 4 { [250, 220, 60] } else { [30, 120, 60] })
    }

    #[test]
    fn the_loss_falls() {
        let settings = [("style_weight", 10.0), ("lr", 4.0)];
        let weights = Vgg19::random(4);
        let mut transfer =
            Transfer::new(&Device::cpu(), &weights, &disc(), &stripes(), &settings).unwrap();
        let losses: Vec<f64> = (0..40).map(|_| transfer.step().unwrap()).collect();
        assert!(losses[39] < 0.2 * losses[0], "{losses:?}");
        let painted = transfer.picture();
        assert_eq!(painted.dimensions(), (32, 24));
        assert_ne!(painted, disc());
    }

    /// Both axis orders give the same weights.
    #[test]
    fn weights_of_keras_and_torchvision() {
        let folder = std::env::temp_dir().join(format!("tilec-style-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let tensor = |shape: &[usize], value: &dyn Fn([usize; 4]) -> usize| {
            let strides = TensorType::new(DType::F32, shape).strides();
            let places = 0..shape.iter().product::<usize>();
            let index = |place: usize, axis: usize| {
                strides.get(axis).map_or(0, |stride| place / stride % shape[axis])
            };
            let values: Vec<f32> = places
                .map(|p| value([0, 1, 2, 3].map(|axis| index(p, axis))) as f32 / 1e7)
                .collect();
            Tensor::from_f32(shape, &values).unwrap()
        };
        let (mut keras, mut torch) = (Vec::new(), Vec::new());
        let channels = [3, 2, 2, 4, 4, 8, 8, 8, 8, 16, 16, 16, 16, 16];
        for ((name, number), channels) in CONVOLUTIONS.iter().zip(channels.windows(2)) {
            let (ins, outs) = (channels[0], channels[1]);
            let code = |o: usize, i: usize, y: usize, x: usize| {
                ((number * 16 + o) * 16 + i) * 9 + y * 3 + x
            };
            keras.push((
                format!("{name}.Kernel"),
                tensor(&[3, 3, ins, outs], &|[y, x, i, o]| code(o, i, y, x)),
            ));
            torch.push((
                format!("features.{number}.weight"),
                tensor(&[outs, ins, 3, 3], &|[o, i, y, x]| code(o, i, y, x)),
            ));
            let bias = tensor(&[outs], &|[o, ..]| o);
            keras.push((format!("{name}.Bias"), bias.clone()));
            torch.push((format!("features.{number}.bias"), bias));
        }
        let (keras_file, torch_file) = (folder.join("keras.npz"), folder.join("torch.safetensors"));
        weights::write(&keras_file, &keras).unwrap();
        weights::write(&torch_file, &torch).unwrap();
        let (of_keras, of_torch) =
            (Vgg19::open(&keras_file).unwrap(), Vgg19::open(&torch_file).unwrap());
        assert_eq!((of_keras.width, of_keras.preprocessing), (2, "caffe"));
        assert_eq!((of_torch.width, of_torch.preprocessing), (2, "torch"));
        assert_eq!(of_keras.values, of_torch.values);
        let mut transfer =
            Transfer::new(&Device::cpu(), &of_keras, &disc(), &stripes(), &[]).unwrap();
        assert!(transfer.step().unwrap() > 0.0);
        weights::write(&keras_file, &keras[..3]).unwrap();
        let error =
            Vgg19::open(&keras_file).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.ends_with("there is no `block1_conv2.Bias` in it"), "{error}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
