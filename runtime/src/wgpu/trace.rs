//! Traces of a run's launches. Each launch has its own pass, with a timestamp before and after it.

use std::time::Instant;

use wgpu::{
    Buffer, BufferDescriptor, BufferUsages, CommandEncoderDescriptor, ComputePassDescriptor,
    ComputePassTimestampWrites, Features, QuerySetDescriptor, QueryType,
};

use super::executable::GpuExecutable;
use crate::error::Error;
use crate::trace::{TimedLaunch, Trace};

/// The most launches with timestamps in one query set.
const LAUNCHES_IN_A_SET: usize = wgpu::QUERY_SET_MAX_QUERIES as usize / 2;
/// The bytes of a launch's timestamps.
const BYTES: u64 = 2 * wgpu::QUERY_SIZE as u64;

impl GpuExecutable {
    /// Runs every step twice: once as usual, to time the host's work, and once with timestamps.
    /// `None` if the device has no timestamps.
    pub async fn trace(&mut self) -> Result<Option<Trace>, Error> {
        if !self.gpu.device.features().contains(Features::TIMESTAMP_QUERY) {
            return Ok(None);
        }
        // This excludes the additional work of a first run.
        self.repeat(1).await?;
        let started = Instant::now();
        let submission = self.submit(true, &[]).await?;
        let handing_over = Some(started.elapsed().as_secs_f64());
        self.gpu.wait(submission)?;

        let submit = || {
            let target = self.gpu.mappable(BYTES * self.launches.run.len().max(1) as u64);
            Ok((self.submit_timed(&target), target))
        };
        let (submission, target) =
            self.gpu.scoped("to run the program with timestamps", submit).await?;
        let mut mapping = self.gpu.map(&target);
        self.gpu.wait(submission)?;
        let view = self.gpu.read(&target, &mut mapping).await?;
        let tick = f64::from(self.gpu.queue.get_timestamp_period()) * 1e-9;
        let ticks: Vec<u64> = view
            .chunks_exact(8)
            .map(|b| u64::from_le_bytes(b.try_into().unwrap_or_default()))
            .collect();
        let first = ticks.first().copied().unwrap_or_default();
        let timed = |(launch, ticks): (&super::launches::Launch, &[u64])| TimedLaunch {
            step: launch.step,
            start: ticks[0].saturating_sub(first) as f64 * tick,
            seconds: ticks[1].saturating_sub(ticks[0]) as f64 * tick,
        };
        let launches = self.launches.run.iter().zip(ticks.chunks_exact(2)).map(timed).collect();
        Ok(Some(Trace { launches, handing_over }))
    }

    /// Submits all launches, with timestamps that are copied to `target`.
    fn submit_timed(&self, target: &Buffer) -> wgpu::SubmissionIndex {
        let device = &self.gpu.device;
        let mut encoder = device.create_command_encoder(&CommandEncoderDescriptor::default());
        let resolved = device.create_buffer(&BufferDescriptor {
            label: None,
            size: BYTES * LAUNCHES_IN_A_SET as u64,
            usage: BufferUsages::QUERY_RESOLVE | BufferUsages::COPY_SRC,
            mapped_at_creation: false,
        });
        for (number, launches) in self.launches.run.chunks(LAUNCHES_IN_A_SET).enumerate() {
            let count = 2 * launches.len() as u32;
            let queries = device.create_query_set(&QuerySetDescriptor {
                label: None,
                ty: QueryType::Timestamp,
                count,
            });
            for (launch, at) in launches.iter().zip((0..).step_by(2)) {
                let mut pass = encoder.begin_compute_pass(&ComputePassDescriptor {
                    label: None,
                    timestamp_writes: Some(ComputePassTimestampWrites {
                        query_set: &queries,
                        beginning_of_pass_write_index: Some(at),
                        end_of_pass_write_index: Some(at + 1),
                    }),
                });
                self.launches.launch(launch, &mut pass);
            }
            encoder.resolve_query_set(&queries, 0..count, &resolved, 0);
            let (at, size) =
                ((number * LAUNCHES_IN_A_SET) as u64 * BYTES, launches.len() as u64 * BYTES);
            encoder.copy_buffer_to_buffer(&resolved, 0, target, at, size);
        }
        self.gpu.submit(encoder)
    }
}
