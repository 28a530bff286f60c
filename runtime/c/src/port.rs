//! The inputs, outputs and weights of sessions.

use std::ffi::{CString, c_char};

use tile_runtime::TensorType;

use crate::arguments::store_if;
use crate::dtype::{tile_dtype, to_number};
use crate::session::{Session, session};
use crate::status::{Failure, Status, status};

/// The name and type of an input, an output or a weight.
pub struct Port {
    name: CString,
    ty: TensorType,
}

impl Port {
    /// Describes all ports, in their order.
    pub fn all<'a>(ports: impl Iterator<Item = (&'a str, &'a TensorType)>) -> Vec<Port> {
        let port = |(name, ty): (&str, &TensorType)| Port {
            name: CString::new(name).unwrap_or_default(),
            ty: ty.clone(),
        };
        ports.map(port).collect()
    }
}

/// Returns the numbers of inputs, outputs and weights. A null pointer for any of them is allowed.
///
/// # Safety
/// `handle` is a session, and the other pointers are null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tile_session_counts(
    handle: *mut Session,
    inputs: *mut usize,
    outputs: *mut usize,
    weights: *mut usize,
) -> Status {
    status(|| {
        // SAFETY: the caller's contract.
        let session = unsafe { session(handle) }?;
        // SAFETY: the caller's contract.
        unsafe {
            store_if(inputs, session.inputs.len());
            store_if(outputs, session.outputs.len());
            store_if(weights, session.weights.len());
        }
        Ok(())
    })
}

/// Describes input number `number`, counted from 0 in the order of the program's header. The name
/// and the shape are valid until the session is freed. A null pointer for any result is allowed.
///
/// # Safety
/// `handle` is a session, and the other pointers are null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tile_session_input_info(
    handle: *mut Session,
    number: usize,
    name: *mut *const c_char,
    dtype: *mut tile_dtype,
    shape: *mut *const usize,
    rank: *mut usize,
) -> Status {
    // SAFETY: the caller's contract.
    unsafe { describe(handle, |session| &session.inputs, number, name, dtype, shape, rank) }
}

/// Describes output number `number`: see tile_session_input_info.
///
/// # Safety
/// `handle` is a session, and the other pointers are null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tile_session_output_info(
    handle: *mut Session,
    number: usize,
    name: *mut *const c_char,
    dtype: *mut tile_dtype,
    shape: *mut *const usize,
    rank: *mut usize,
) -> Status {
    // SAFETY: the caller's contract.
    unsafe { describe(handle, |session| &session.outputs, number, name, dtype, shape, rank) }
}

/// Describes weight number `number`: see tile_session_input_info. The name is the path, such as
/// `encoder.dense.Kernel`, by which tile_session_set_input sets the weight.
///
/// # Safety
/// `handle` is a session, and the other pointers are null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tile_session_weight_info(
    handle: *mut Session,
    number: usize,
    name: *mut *const c_char,
    dtype: *mut tile_dtype,
    shape: *mut *const usize,
    rank: *mut usize,
) -> Status {
    // SAFETY: the caller's contract.
    unsafe { describe(handle, |session| &session.weights, number, name, dtype, shape, rank) }
}

/// Stores the description of one of a session's ports.
///
/// # Safety
/// - `handle` is a session.
/// - The other pointers are null or valid for a write.
unsafe fn describe(
    handle: *mut Session,
    ports: fn(&Session) -> &[Port],
    number: usize,
    name: *mut *const c_char,
    dtype: *mut tile_dtype,
    shape: *mut *const usize,
    rank: *mut usize,
) -> Status {
    status(|| {
        // SAFETY: the caller's contract.
        let ports = ports(unsafe { session(handle) }?);
        let port = ports.get(number).ok_or_else(|| {
            Failure::Usage(format!("`number` is {number}, and there are {}", ports.len()))
        })?;
        // SAFETY: the caller's contract.
        unsafe {
            store_if(name, port.name.as_ptr());
            store_if(dtype, to_number(port.ty.dtype));
            store_if(shape, port.ty.shape.as_ptr());
            store_if(rank, port.ty.shape.len());
        }
        Ok(())
    })
}
