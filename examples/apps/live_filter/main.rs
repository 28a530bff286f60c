//! A Tile filter over a moving picture in an app with its own GPU: nothing passes the host, and the
//! app submits its own commands.
//!
//!     cargo run --release -p live_filter                         # a window
//!     cargo run --release -p live_filter -- 100 512 edges.png    # 100 frames of 512 x 512, timed

mod filter;
mod window;

use std::error::Error;
use std::time::{Duration, Instant};

use image::GrayImage;
use wgpu::{Backends, Instance, InstanceDescriptor, PollType};

use filter::Filter;

/// Opens the first adapter. Returns `None` if there is none.
fn open(size: usize) -> Result<Option<Filter>, Box<dyn Error>> {
    let descriptor = InstanceDescriptor {
        backends: Backends::PRIMARY,
        ..InstanceDescriptor::new_without_display_handle()
    };
    let instance = Instance::new(descriptor);
    let adapters = pollster::block_on(instance.enumerate_adapters(Backends::PRIMARY));
    adapters.into_iter().next().map(|adapter| Filter::open(adapter, size)).transpose()
}

/// The times of a frame.
#[derive(Clone, Copy)]
struct FrameTimes {
    /// Recording the commands of both sessions.
    encode: Duration,
    /// From the first command to the end of the last kernel.
    all: Duration,
}

/// Computes the frame at a time in seconds, and waits for it.
fn frame(filter: &mut Filter, time: f32) -> Result<FrameTimes, Box<dyn Error>> {
    let started = Instant::now();
    let mut encoder = filter.device.create_command_encoder(&Default::default());
    let begun = Instant::now();
    filter.encode(&mut encoder, time)?;
    let encode = begun.elapsed();
    filter.queue.submit([encoder.finish()]);
    filter.device.poll(PollType::wait_indefinitely())?;
    Ok(FrameTimes { encode, all: started.elapsed() })
}

/// Returns the median in milliseconds.
fn median(times: impl Iterator<Item = Duration>) -> f64 {
    let mut times: Vec<Duration> = times.collect();
    times.sort_unstable();
    times.get(times.len() / 2).map_or(0.0, |time| time.as_secs_f64() * 1e3)
}

/// Computes frames without a window, prints their times, and writes the last one.
fn measure(frames: usize, size: usize, output: Option<&str>) -> Result<(), Box<dyn Error>> {
    let mut filter = open(size)?.ok_or("there is no adapter")?;
    frame(&mut filter, 0.0)?;
    let times = (1..=frames).map(|number| frame(&mut filter, number as f32 / 60.0));
    let times = times.collect::<Result<Vec<_>, _>>()?;
    let runs = frames.max(1) as u32;
    let started = Instant::now();
    filter.repeat(runs)?;
    let kernels = started.elapsed().as_secs_f64() * 1e3 / f64::from(runs);
    println!("a frame of {size} x {size} pixels, the median of {frames}:");
    println!("  {:.3} ms in all", median(times.iter().map(|times| times.all)));
    println!("  {kernels:.3} ms of kernels, as their sessions alone take");
    println!(
        "  {:.3} ms of the processor to encode both sessions",
        median(times.iter().map(|times| times.encode))
    );
    if let Some(output) = output {
        let pixels = filter.read_edges()?.iter().map(|edge| (edge * 255.0) as u8).collect();
        let picture = GrayImage::from_raw(size as u32, size as u32, pixels);
        picture.ok_or("too few pixels")?.save(output)?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, usual: usize| -> Result<usize, Box<dyn Error>> {
        let Some(text) = arguments.get(at) else { return Ok(usual) };
        let positive = text.parse().ok().filter(|&number: &usize| number > 0);
        Ok(positive.ok_or_else(|| format!("`{text}` is no positive number"))?)
    };
    match arguments.len() {
        0 => window::open(),
        1..=3 => measure(number(0, 0)?, number(1, 512)?, arguments.get(2).map(String::as_str)),
        _ => Err("usage: live_filter [FRAMES [SIZE [OUT.png]]]".into()),
    }
}

#[cfg(test)]
mod tests {
    use tile_runtime::{Device, Tensor};

    use super::*;

    #[test]
    fn a_frame_is_that_of_the_reference() {
        let size = 37;
        let Some(mut filter) = open(size).unwrap() else {
            return println!("note: there is no adapter");
        };
        let (mut picture, mut edges) = filter::sessions(&Device::reference(), size).unwrap();
        for time in [0.0, 0.5, 3.0] {
            frame(&mut filter, time).unwrap();
            let moment = Tensor::from_f32([1], &[time]).unwrap();
            let image = picture.run([("Time", &moment)]).unwrap().remove("Image").unwrap();
            let edges = edges.run([("Image", &image)]).unwrap().remove("Edges").unwrap().to_f64s();
            assert!(edges.iter().any(|&edge| edge > 0.1));
            for (found, expected) in filter.read_edges().unwrap().into_iter().zip(edges) {
                assert!((f64::from(found) - expected).abs() < 1e-3, "{found} {expected}");
            }
        }
    }
}
