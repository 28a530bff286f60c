//! Refuses a run that needs more memory than there is, before it allocates: systems promise memory
//! that they do not have, and kill the process that uses it.

use std::collections::HashSet;

use tile_compiler::plan::{Buffer, BufferId, Content, Plan, Port};
use tile_compiler::tensor::TensorType;

use crate::available::available;
use crate::error::Error;
use crate::store::Store;

/// The bytes up to which the system is not asked: below this an allocation fails by itself.
const SMALL: u64 = 64 << 20;

/// Checks that `needed` bytes are available on the host, and within `limit`.
///
/// # Errors
/// [`Error::OutOfMemory`] with the bytes that are needed and those that are available.
pub fn require(device: &str, needed: u64, limit: Option<u64>) -> Result<(), Error> {
    limit.map_or(Ok(()), |limit| require_within(device, needed, limit))?;
    if needed <= SMALL {
        return Ok(());
    }
    match available().filter(|available| needed > *available) {
        Some(available) => {
            Err(refused(device, format!("{needed} bytes: {available} bytes are available")))
        }
        None => Ok(()),
    }
}

/// Checks that `needed` bytes are within `limit`, on a device with memory of its own.
///
/// # Errors
/// [`Error::OutOfMemory`] with both numbers.
pub fn require_within(device: &str, needed: u64, limit: u64) -> Result<(), Error> {
    match needed <= limit {
        true => Ok(()),
        false => Err(refused(device, format!("{needed} bytes: the limit is {limit} bytes"))),
    }
}

fn refused(device: &str, what: String) -> Error {
    Error::OutOfMemory { device: device.into(), what: format!("a run that takes {what}") }
}

/// Returns the bytes of a plan's buffers and of a copy of its outputs. Buffers `without` memory and
/// weights in the store are not counted.
pub fn of_plan(plan: &Plan, without: &[BufferId], store: &Store) -> u64 {
    let is_stored = |port: &&Port| store.get(&port.name).is_some();
    let stored = plan.weights.iter().filter(is_stored).map(|port| port.buffer);
    let without: HashSet<BufferId> = stored.chain(without.iter().copied()).collect();
    let takes = |(id, buffer): &(BufferId, &Buffer)| {
        let elsewhere = matches!(
            buffer.content,
            Content::Carried | Content::Temporary { .. } | Content::Over { .. }
        );
        !elsewhere && !without.contains(id)
    };
    let buffers = plan.buffers.enumerate().filter(takes).map(|(_, buffer)| buffer.bytes());
    let outputs = plan.outputs.iter().map(|port| bytes(&port.ty));
    plan.slots.iter().copied().chain(buffers).chain(outputs).fold(0, u64::saturating_add)
}

/// Returns the bytes of a tensor, or the greatest number if they overflow.
pub fn bytes(ty: &TensorType) -> u64 {
    ty.checked_bytes().map_or(u64::MAX, |bytes| bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_refused() {
        let text = |needed, limit| require("cpu", needed, limit).unwrap_err().to_string();
        assert!(require("cpu", 1000, None).is_ok() && require("cpu", 1000, Some(1000)).is_ok());
        assert_eq!(
            text(1001, Some(1000)),
            "cpu has too little memory left for a run that takes 1001 bytes: the limit is 1000 bytes"
        );
        let error = text(u64::MAX, None);
        assert!(error.contains("a run that takes 18446744073709551615 bytes: "), "{error}");
    }
}
