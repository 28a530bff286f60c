//! Classifies a picture with a pack, without the compiler:
//!
//! ```text
//! tilec build examples/models/mobilenet.tile -o mobilenet.tilepack \
//!     --shape Image=1x224x224x3 --random 1
//! cargo run --release -p classify -- mobilenet.tilepack picture.f32 probabilities.f32
//! ```
//!
//! `picture.f32` has the numbers of the model's input, in row-major order as little-endian floats.
//! The probabilities are written in the same form. `TILE_DEVICE` names the device.

use std::error::Error;

use tile_runtime::{Device, Model, Tensor};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [pack, picture, probabilities] = &arguments[..] else {
        return Err("usage: classify PACK PICTURE.f32 PROBABILITIES.f32".into());
    };
    let model = Model::open_pack(pack)?;
    let device = Device::named(&std::env::var("TILE_DEVICE").unwrap_or("cpu".into()))?;
    let mut session = model.on(&device).build()?;
    let (name, ty) = session.inputs().next().ok_or("the model has no input")?;
    let (name, ty) = (name.to_owned(), ty.clone());
    let bytes = std::fs::read(picture)?;
    let wrong = format!("{picture} has {} bytes, and the input is {ty}", bytes.len());
    let input = Tensor::from_bytes(ty, bytes).ok_or(wrong)?;
    let outputs = session.run([(name, input)])?;
    let (_, output) = outputs.iter().next().ok_or("the model has no output")?;
    std::fs::write(probabilities, output.bytes())?;
    let scores = output.to_f64s();
    let mut classes: Vec<usize> = (0..scores.len()).collect();
    classes.sort_by(|&one, &other| scores[other].total_cmp(&scores[one]));
    for class in classes.into_iter().take(5) {
        println!("{class} {:.4}", scores[class]);
    }
    Ok(())
}
