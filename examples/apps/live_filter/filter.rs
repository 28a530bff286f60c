//! The GPU of the app, and the sessions that it runs there.

use std::error::Error;

use tile_runtime::{Device, Model, Session, Tensor};
use wgpu::{Adapter, Buffer, BufferDescriptor, BufferUsages, CommandEncoder, MapMode, PollType};

const PROGRAM: &str = include_str!("live_filter.tile");

/// Sobel's kernel, divided among 25 pixels of the blur.
const ACROSS: [f32; 9] = [-1.0, 0.0, 1.0, -2.0, 0.0, 2.0, -1.0, 0.0, 1.0];

/// A moving picture and its edges, on one GPU.
pub struct Filter {
    pub device: wgpu::Device,
    pub queue: wgpu::Queue,
    /// The time, which the app writes for each frame.
    time: Buffer,
    /// The edges of the last frame, row by row.
    pub edges: Buffer,
    picture: Session,
    filter: Session,
}

impl Filter {
    /// Opens a GPU for pictures of `size` times `size` pixels.
    pub fn open(adapter: Adapter, size: usize) -> Result<Filter, Box<dyn Error>> {
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
        Ok(Filter { device, queue, time, edges, picture, filter })
    }

    /// Records the frame at a time in seconds. The app submits.
    pub fn encode(
        &mut self,
        encoder: &mut CommandEncoder,
        time: f32,
    ) -> Result<(), tile_runtime::Error> {
        self.queue.write_buffer(&self.time, 0, &time.to_le_bytes());
        self.picture.encode(encoder)?;
        self.filter.encode(encoder)
    }

    /// Runs the kernels of both sessions alone, so often.
    pub fn repeat(&mut self, runs: u32) -> Result<(), tile_runtime::Error> {
        self.picture.repeat(runs)?;
        self.filter.repeat(runs)
    }

    /// Returns the edges of the last frame.
    pub fn read_edges(&self) -> Result<Vec<f32>, Box<dyn Error>> {
        let target = self.device.create_buffer(&BufferDescriptor {
            label: None,
            size: self.edges.size(),
            usage: BufferUsages::MAP_READ | BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        let mut encoder = self.device.create_command_encoder(&Default::default());
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
pub fn sessions(device: &Device, size: usize) -> Result<(Session, Session), Box<dyn Error>> {
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
