//! [`GpuWatched`]: outputs of a step in transfer to the host.

use std::sync::Arc;

use tile_compiler::dtype::DType;
use tile_compiler::tensor::{Tensor, TensorType};
use wgpu::{Buffer, SubmissionIndex};

use super::gpu::{Gpu, Mapping, aligned};
use crate::error::Error;
use crate::storage::from_storage;

/// Outputs of a step in transfer to the host.
pub struct GpuWatched {
    pub(super) gpu: Arc<Gpu>,
    pub(super) submission: SubmissionIndex,
    pub(super) target: Option<(Mapping, Buffer)>,
    /// The types of the outputs, and their storage types on the device.
    pub(super) types: Vec<(TensorType, DType)>,
}

impl GpuWatched {
    /// Waits for the step, and returns the outputs.
    pub async fn take(self) -> Result<Vec<Tensor>, Error> {
        let GpuWatched { gpu, submission, target, types } = self;
        gpu.wait(submission)?;
        let Some((mut mapping, target)) = target else {
            return gpu.check_alive().map(|()| Vec::new());
        };
        let view = gpu.read(&target, &mut mapping).await?;
        let mut rest = &view[..];
        let mut outputs = Vec::with_capacity(types.len());
        for (ty, storage) in types {
            outputs.push(
                from_storage(rest, storage, &ty).ok_or_else(|| Error::unstorable(&ty, storage))?,
            );
            let size = aligned((ty.elements().max(1) * storage.size()) as u64) as usize;
            rest = rest.get(size..).unwrap_or_default();
        }
        Ok(outputs)
    }
}
