//! How long a plan's launches take.

use std::time::Instant;

use wgpu::{
    BufferDescriptor, BufferUsages, CommandEncoderDescriptor, ComputePassDescriptor, ComputePassTimestampWrites,
    Features, QuerySetDescriptor, QueryType,
};

use super::executable::GpuExecutable;
use super::gpu::Mapping;
use crate::error::Error;

/// Bytes of the timestamps before and after.
const BYTES: u64 = 2 * wgpu::QUERY_SIZE as u64;

impl GpuExecutable {
    /// Whether the device has a clock of its own.
    pub fn has_clock(&self) -> bool {
        self.gpu.device.features().contains(Features::TIMESTAMP_QUERY)
    }

    /// The seconds that a run takes, of so many one after the other, without the prelude: by the device's clock, or by the host's
    /// where it has none.
    pub async fn time(&mut self, runs: u32) -> Result<f64, Error> {
        let started = Instant::now();
        let device = &self.gpu.device;
        let clock = self.has_clock().then(|| {
            let queries =
                device.create_query_set(&QuerySetDescriptor { label: None, ty: QueryType::Timestamp, count: 2 });
            let usage = BufferUsages::QUERY_RESOLVE | BufferUsages::COPY_SRC;
            let descriptor = BufferDescriptor { label: None, size: BYTES, usage, mapped_at_creation: false };
            (queries, device.create_buffer(&descriptor), self.gpu.mappable(BYTES))
        });
        let submit = || {
            let mut encoder = device.create_command_encoder(&CommandEncoderDescriptor::default());
            let timestamp_writes = clock.as_ref().map(|(query_set, ..)| ComputePassTimestampWrites {
                query_set,
                beginning_of_pass_write_index: Some(0),
                end_of_pass_write_index: Some(1),
            });
            let mut pass = encoder.begin_compute_pass(&ComputePassDescriptor { label: None, timestamp_writes });
            for _ in 0..runs {
                self.launches.iter().for_each(|launch| launch.record(&mut pass));
            }
            drop(pass);
            if let Some((queries, resolved, target)) = &clock {
                encoder.resolve_query_set(queries, 0..2, resolved, 0);
                encoder.copy_buffer_to_buffer(resolved, 0, target, 0, BYTES);
            }
            Ok(self.gpu.submit(encoder))
        };
        let submission = self.gpu.scoped("to time a kernel", submit).await?;
        let each = |seconds: f64| seconds / f64::from(runs.max(1));
        let Some((.., target)) = &clock else {
            self.gpu.wait(submission)?;
            return Ok(each(started.elapsed().as_secs_f64()));
        };
        let mapping = Mapping::start(target);
        self.gpu.wait(submission)?;
        let view = self.gpu.read(target, mapping).await?;
        let tick =
            |at: usize| view.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes);
        let period = f64::from(self.gpu.queue.get_timestamp_period()) * 1e-9;
        Ok(each(tick(8).saturating_sub(tick(0)) as f64 * period))
    }
}
