//! [`Trial`]: a small kernel in its text form, with its buffers, that tells what a device can do.

use tile_compiler::kernel::{self, Access, Kernel};
use wgpu::{
    BindGroup, BindGroupDescriptor, BindGroupEntry, Buffer, BufferDescriptor, BufferUsages,
    CommandEncoderDescriptor, ComputePassDescriptor, ComputePipeline, SubmissionIndex,
};

use super::gpu::{Gpu, aligned};
use super::pipeline::compile_all;
use crate::error::Error;

/// A kernel, ready to run.
pub struct Trial {
    kernel: Kernel,
    pipeline: ComputePipeline,
    buffers: Vec<Buffer>,
    bindings: BindGroup,
}

impl Trial {
    /// Compiles a kernel. `inputs` are the contents of its first buffers; others are zeros.
    pub async fn new(gpu: &Gpu, kernel: &str, inputs: &[Vec<u8>]) -> Result<Trial, Error> {
        let kernel = Kernel::parse(kernel).map_err(Error::bug)?;
        let pipeline = compile_all(gpu, &[&kernel], false, &|| ()).await?.remove(0);
        let create = |buffer| {
            gpu.device.create_buffer(&BufferDescriptor {
                label: None,
                size: aligned(bytes(buffer)),
                usage: BufferUsages::STORAGE | BufferUsages::COPY_SRC | BufferUsages::COPY_DST,
                mapped_at_creation: false,
            })
        };
        let prepare = || {
            let buffers: Vec<Buffer> = kernel.buffers.iter().map(create).collect();
            let given = buffers.iter().zip(inputs);
            given.for_each(|(buffer, input)| gpu.queue.write_buffer(buffer, 0, input));
            let entries: Vec<BindGroupEntry> = (0..)
                .zip(&buffers)
                .map(|(binding, buffer)| BindGroupEntry {
                    binding,
                    resource: buffer.as_entire_binding(),
                })
                .collect();
            let layout = pipeline.get_bind_group_layout(0);
            let descriptor =
                BindGroupDescriptor { label: None, layout: &layout, entries: &entries };
            let bindings = gpu.device.create_bind_group(&descriptor);
            Ok((buffers, bindings))
        };
        let (buffers, bindings) = gpu.scoped("to try a kernel", prepare).await?;
        Ok(Trial { kernel, pipeline, buffers, bindings })
    }

    /// Launches the kernel so many times, one after the other.
    pub async fn launch(&self, gpu: &Gpu, times: usize) -> Result<SubmissionIndex, Error> {
        let run = || {
            let mut commands =
                gpu.device.create_command_encoder(&CommandEncoderDescriptor::default());
            let mut pass = commands.begin_compute_pass(&ComputePassDescriptor::default());
            pass.set_pipeline(&self.pipeline);
            pass.set_bind_group(0, &self.bindings, &[]);
            let [x, y, z] = self.kernel.grid;
            (0..times).for_each(|_| pass.dispatch_workgroups(x, y, z));
            drop(pass);
            Ok(gpu.submit(commands))
        };
        gpu.scoped("to try a kernel", run).await
    }

    /// Returns the buffers that the kernel writes.
    pub async fn outputs(&self, gpu: &Gpu) -> Result<Vec<Vec<u8>>, Error> {
        let mut outputs = Vec::new();
        for (buffer, declared) in self.buffers.iter().zip(&self.kernel.buffers) {
            if declared.access == Access::Write {
                let content = gpu.download(buffer, 0, buffer.size()).await?;
                outputs.push(content[..bytes(declared) as usize].to_vec());
            }
        }
        Ok(outputs)
    }
}

fn bytes(buffer: &kernel::Buffer) -> u64 {
    (buffer.length * usize::from(buffer.ty.lanes) * buffer.ty.dtype.size()) as u64
}
