//! Times of a plan's launches.

use std::time::Instant;

use wgpu::{
    BufferDescriptor, BufferUsages, CommandEncoderDescriptor, ComputePassDescriptor,
    ComputePassTimestampWrites, Features, QuerySetDescriptor, QueryType,
};

use super::executable::GpuExecutable;
use crate::error::Error;

/// The bytes of two timestamps, before and after.
const BYTES: u64 = 2 * wgpu::QUERY_SIZE as u64;

impl GpuExecutable {
    /// Returns whether the device has timestamps.
    pub fn has_clock(&self) -> bool {
        self.gpu.device.features().contains(Features::TIMESTAMP_QUERY)
    }

    /// Returns the mean seconds of `runs` consecutive runs without the prelude, by the device's
    /// timestamps, or the host's clock if the device has none.
    pub async fn time(&mut self, runs: u32) -> Result<f64, Error> {
        let started = Instant::now();
        let device = &self.gpu.device;
        let clock = || {
            let queries = device.create_query_set(&QuerySetDescriptor {
                label: None,
                ty: QueryType::Timestamp,
                count: 2,
            });
            let usage = BufferUsages::QUERY_RESOLVE | BufferUsages::COPY_SRC;
            let descriptor =
                BufferDescriptor { label: None, size: BYTES, usage, mapped_at_creation: false };
            (queries, device.create_buffer(&descriptor), self.gpu.mappable(BYTES))
        };
        let submit = || {
            let clock = self.has_clock().then(clock);
            let mut encoder = device.create_command_encoder(&CommandEncoderDescriptor::default());
            let timestamp_writes =
                clock.as_ref().map(|(query_set, ..)| ComputePassTimestampWrites {
                    query_set,
                    beginning_of_pass_write_index: Some(0),
                    end_of_pass_write_index: Some(1),
                });
            let mut pass = encoder
                .begin_compute_pass(&ComputePassDescriptor { label: None, timestamp_writes });
            for _ in 0..runs {
                self.launches.run.iter().for_each(|launch| self.launches.launch(launch, &mut pass));
            }
            drop(pass);
            if let Some((queries, resolved, target)) = &clock {
                encoder.resolve_query_set(queries, 0..2, resolved, 0);
                encoder.copy_buffer_to_buffer(resolved, 0, target, 0, BYTES);
            }
            Ok((self.gpu.submit(encoder), clock))
        };
        let (submission, clock) = self.gpu.scoped("to time a kernel", submit).await?;
        let each = |seconds: f64| seconds / f64::from(runs.max(1));
        let Some((.., target)) = &clock else {
            self.gpu.wait(submission)?;
            self.gpu.check_alive()?;
            return Ok(each(started.elapsed().as_secs_f64()));
        };
        let mut mapping = self.gpu.map(target);
        self.gpu.wait(submission)?;
        let view = self.gpu.read(target, &mut mapping).await?;
        let tick = |at: usize| {
            view.get(at..at + 8)
                .and_then(|bytes| bytes.try_into().ok())
                .map_or(0, u64::from_le_bytes)
        };
        let period = f64::from(self.gpu.queue.get_timestamp_period()) * 1e-9;
        Ok(each(tick(8).saturating_sub(tick(0)) as f64 * period))
    }
}
