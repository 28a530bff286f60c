//! A Tile filter over a moving picture in an app with its own GPU: nothing passes the host, and the
//! app submits its own commands. It has no window: it prints times, and writes the last frame.
//!
//!     cargo run --release -p tile-runtime --example live_filter -- [FRAMES [SIZE [OUT.png]]]

use std::error::Error;
use std::time::{Duration, Instant};

use image::GrayImage;
use tile_runtime::{Device, Model, Session, Tensor};
use wgpu::{
    Buffer, BufferDescriptor, BufferUsages, CommandEncoderDescriptor, MapMode, PollType, Queue,
};

const PROGRAM: &str = include_str!("live_filter.tile");

/// Sobel's kernel, divided among 25 pixels of the blur.
const ACROSS: [f32; 9] = [-1.0, 0.0, 1.0, -2.0, 0.0, 2.0, -1.0, 0.0, 1.0];

/// An app with its GPU, and the sessions that it runs there.
struct App {
    device: wgpu::Device,
    queue: Queue,
    /// The time, which the app writes for each frame.
    time: Buffer,
    /// The edges of the last frame.
    edges: Buffer,
    picture: Session,
    filter: Session,
}

/// The times of a frame.
#[derive(Clone, Copy)]
struct FrameTimes {
    /// Recording the commands of both sessions.
    encode: Duration,
    /// From the first command to the end of the last kernel.
    all: Duration,
}

impl App {
    /// Opens the first adapter. Returns `None` if there is none.
    fn open(size: usize) -> Result<Option<App>, Box<dyn Error>> {
        let instance = wgpu::Instance::new(wgpu::InstanceDescriptor {
            backends: wgpu::Backends::PRIMARY,
            ..wgpu::InstanceDescriptor::new_without_display_handle()
        });
        let adapters = pollster::block_on(instance.enumerate_adapters(wgpu::Backends::PRIMARY));
        let Some(adapter) = adapters.into_iter().next() else { return Ok(None) };
        let descriptor =
            wgpu::DeviceDescriptor { required_limits: adapter.limits(), ..Default::default() };
        let (device, queue) = pollster::block_on(adapter.request_device(&descriptor))?;
        let buffer = |elements: usize, usage: BufferUsages| {
            device.create_buffer(&BufferDescriptor {
                label: None,
                size: 4 * elements as u64,
                usage: usage | BufferUsages::STORAGE,
                mapped_at_creation: false,
            })
        };
        let time = buffer(1, BufferUsages::COPY_DST);
        let image = buffer(size * size, BufferUsages::empty());
        let edges = buffer(size * size, BufferUsages::COPY_SRC);

        let tile = Device::from_wgpu(adapter, device.clone(), queue.clone())?;
        let (mut picture, mut filter) = sessions(&tile, size)?;
        picture.bind("Time", &time)?;
        picture.bind("Image", &image)?;
        filter.bind("Image", &image)?;
        filter.bind("Edges", &edges)?;
        Ok(Some(App { device, queue, time, edges, picture, filter }))
    }

    /// Computes the frame at a time in seconds, and waits for it.
    fn frame(&mut self, time: f32) -> Result<FrameTimes, Box<dyn Error>> {
        let started = Instant::now();
        self.queue.write_buffer(&self.time, 0, &time.to_le_bytes());
        let mut encoder = self.device.create_command_encoder(&CommandEncoderDescriptor::default());
        let begun = Instant::now();
        self.picture.encode(&mut encoder)?;
        self.filter.encode(&mut encoder)?;
        let encode = begun.elapsed();
        self.queue.submit([encoder.finish()]);
        self.device.poll(PollType::wait_indefinitely())?;
        Ok(FrameTimes { encode, all: started.elapsed() })
    }

    /// Returns the mean time of both sessions' kernels alone.
    fn kernels(&mut self, runs: u32) -> Result<Duration, Box<dyn Error>> {
        let started = Instant::now();
        self.picture.repeat(runs)?;
        self.filter.repeat(runs)?;
        Ok(started.elapsed() / runs)
    }

    /// Returns the edges of the last frame.
    fn edges(&self) -> Result<Vec<f32>, Box<dyn Error>> {
        let target = self.device.create_buffer(&BufferDescriptor {
            label: None,
            size: self.edges.size(),
            usage: BufferUsages::MAP_READ | BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        let mut encoder = self.device.create_command_encoder(&CommandEncoderDescriptor::default());
        encoder.copy_buffer_to_buffer(&self.edges, 0, &target, 0, target.size());
        self.queue.submit([encoder.finish()]);
        target.map_async(MapMode::Read, .., |_| {});
        self.device.poll(PollType::wait_indefinitely())?;
        let view = target.get_mapped_range(..)?;
        let (numbers, _) = view.as_chunks::<4>();
        Ok(numbers.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect())
    }
}

/// Builds the sessions of both functions, with the inputs that stay the same.
fn sessions(device: &Device, size: usize) -> Result<(Session, Session), Box<dyn Error>> {
    let model = Model::compile(PROGRAM)?;
    let place = |i: usize| 2.0 * (i as f32 + 0.5) / size as f32 - 1.0;
    let places: Vec<f32> = (0..size).map(place).collect();
    let tensor =
        |shape: &[usize], values: &[f32]| Tensor::from_f32(shape, values).ok_or("too large");
    let picture = model.on(device).entry("picture").input("Columns", [size]);
    let mut picture = picture.input("Rows", [size, 1]).build()?;
    picture.set("Columns", &tensor(&[size], &places)?)?;
    picture.set("Rows", &tensor(&[size, 1], &places)?)?;
    let mut filter = model.on(device).entry("edges").input("Image", [size, size]).build()?;
    filter.set("Across", &tensor(&[3, 3], &ACROSS)?)?;
    Ok((picture, filter))
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times.get(times.len() / 2).map_or(0.0, |time| time.as_secs_f64() * 1e3)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let frames: usize = arguments.next().map_or(Ok(100), |frames| frames.parse())?;
    let size: usize = arguments.next().map_or(Ok(512), |size| size.parse())?;
    let mut app = App::open(size)?.ok_or("there is no adapter")?;
    app.frame(0.0)?;
    let frame = |number: usize| app.frame(number as f32 / 60.0);
    let times = (1..=frames).map(frame).collect::<Result<Vec<_>, _>>()?;
    let kernels = app.kernels(frames.max(1) as u32)?.as_secs_f64() * 1e3;
    println!("a frame of {size} x {size} pixels, the median of {frames}:");
    println!("  {:.3} ms in all", median(times.iter().map(|times| times.all).collect()));
    println!("  {kernels:.3} ms of kernels, as their sessions alone take");
    println!(
        "  {:.3} ms of the processor to encode both sessions",
        median(times.iter().map(|times| times.encode).collect())
    );
    if let Some(output) = arguments.next() {
        let pixels = app.edges()?.iter().map(|edge| (edge * 255.0) as u8).collect();
        GrayImage::from_raw(size as u32, size as u32, pixels)
            .ok_or("too few pixels")?
            .save(output)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_that_of_the_reference() {
        let size = 37;
        let Some(mut app) = App::open(size).unwrap() else {
            return println!("note: there is no adapter");
        };
        let (mut picture, mut filter) = sessions(&Device::reference(), size).unwrap();
        for time in [0.0, 0.5, 3.0] {
            app.frame(time).unwrap();
            let moment = Tensor::from_f32([1], &[time]).unwrap();
            let image = picture.run([("Time", &moment)]).unwrap().remove("Image").unwrap();
            let edges = filter.run([("Image", &image)]).unwrap().remove("Edges").unwrap().to_f64s();
            assert!(edges.iter().any(|&edge| edge > 0.1));
            for (found, expected) in app.edges().unwrap().into_iter().zip(edges) {
                assert!((f64::from(found) - expected).abs() < 1e-3, "{found} {expected}");
            }
        }
    }
}
