//! Sessions: programs compiled for given sizes on one device.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_void};
use std::ptr;

use tile_runtime::{Device, Error, Session as RuntimeSession, Tensor, TensorType};

use crate::arguments::{null, store, store_if, string, tensor_type};
use crate::borrowed::{Destination, Source};
use crate::dtype::{tile_dtype, to_number};
use crate::model::Model;
use crate::port::Port;
use crate::status::{Failure, Status, status};

/// A program compiled for its sizes, with its memory on a device.
pub struct Session {
    session: RuntimeSession,
    device: Device,
    pub inputs: Vec<Port>,
    pub outputs: Vec<Port>,
    pub weights: Vec<Port>,
    /// The inputs in memory of the app, by name.
    sources: BTreeMap<String, Source>,
    /// The memory of the app for outputs, by name.
    destinations: BTreeMap<String, Destination>,
    /// Whether the last run has succeeded.
    has_run: bool,
    /// Copies of outputs of the last run that are in memory of a device.
    copies: BTreeMap<String, Tensor>,
}

/// Returns the session of a handle.
///
/// # Safety
/// - `session` is null or a handle that is not freed, and nobody else uses it meanwhile.
pub unsafe fn session<'a>(session: *mut Session) -> Result<&'a mut Session, Failure> {
    // SAFETY: the caller's contract.
    unsafe { session.as_mut() }.ok_or_else(|| null("session"))
}

/// Compiles a model for a device: "cpu", "wgpu" (the best GPU) or "wgpu:N". A null pointer is the
/// best GPU, or this processor if there is none. Weights that a pack or an ONNX file has are set.
/// The session outlives its model. Several sessions may run at once, on different threads.
///
/// # Safety
/// `model` is a model, `device` null or a string, and `out` valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tile_session_create(
    model: *const Model,
    device: *const c_char,
    out: *mut *mut Session,
) -> Status {
    status(|| {
        // SAFETY: the caller's contract.
        unsafe { store(out, ptr::null_mut(), "out") }?;
        // SAFETY: the caller's contract.
        let model = unsafe { model.as_ref() }.ok_or_else(|| null("model"))?;
        let device = if device.is_null() {
            Device::best()?
        } else {
            // SAFETY: the caller's contract.
            Device::named(unsafe { string(device, "device") }?)?
        };
        let session = Session::new(model, device, None)?;
        // SAFETY: the caller's contract.
        unsafe { store(out, Box::into_raw(session), "out") }
    })
}

/// Compiles a model for the device of another session, such as one for another batch size, and
/// takes the weights that have a value there. The sessions share the memory of a weight until it is
/// set again, which changes it only in that session. The other session may be freed first.
///
/// # Safety
/// `model` is a model, `other` a session, and `out` valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tile_session_create_sharing(
    model: *const Model,
    other: *const Session,
    out: *mut *mut Session,
) -> Status {
    status(|| {
        // SAFETY: the caller's contract.
        unsafe { store(out, ptr::null_mut(), "out") }?;
        // SAFETY: the caller's contract.
        let model = unsafe { model.as_ref() }.ok_or_else(|| null("model"))?;
        // SAFETY: the caller's contract.
        let other = unsafe { other.as_ref() }.ok_or_else(|| null("other"))?;
        let session = Session::new(model, other.device.clone(), Some(&other.session))?;
        // SAFETY: the caller's contract.
        unsafe { store(out, Box::into_raw(session), "out") }
    })
}

/// Reads weights from a file: .safetensors, .npz or PyTorch's .pt.
///
/// # Safety
/// `handle` is a session, and `path` a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tile_session_load_weights(
    handle: *mut Session,
    path: *const c_char,
) -> Status {
    status(|| {
        // SAFETY: the caller's contract.
        let (session, path) = unsafe { (session(handle)?, string(path, "path")?) };
        session.session.load(path)?;
        Ok(())
    })
}

/// Initialises the weights without a value. The same seed gives the same values on every device.
/// It is an error for a pack, which has no initial values.
///
/// # Safety
/// `handle` is a session.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tile_session_initialise(handle: *mut Session, seed: u64) -> Status {
    status(|| {
        // SAFETY: the caller's contract.
        let session = unsafe { session(handle) }?;
        initialise(&mut session.session, seed)
    })
}

#[cfg(feature = "compile")]
fn initialise(session: &mut RuntimeSession, seed: u64) -> Result<(), Failure> {
    Ok(session.initialise(seed)?)
}

#[cfg(not(feature = "compile"))]
fn initialise(_: &mut RuntimeSession, _: u64) -> Result<(), Failure> {
    Err(Failure::Usage("this library was built without the compiler: it runs packs".to_owned()))
}

/// Sets an input, or a weight by its path, for all later runs. `data` has the elements in row-major
/// order; it is copied, and needs no alignment.
///
/// # Safety
/// `handle` is a session, `name` a string, `shape` points to `rank` sizes, and `data` to the
/// elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tile_session_set_input(
    handle: *mut Session,
    name: *const c_char,
    dtype: tile_dtype,
    shape: *const usize,
    rank: usize,
    data: *const c_void,
) -> Status {
    status(|| {
        // SAFETY: the caller's contract.
        let (session, name) = unsafe { (session(handle)?, string(name, "name")?) };
        // SAFETY: the caller's contract.
        let ty = unsafe { tensor_type(dtype, shape, rank) }?;
        // SAFETY: the elements are valid for this call, in which alone the source is used.
        session.session.set(name, &unsafe { Source::new(ty, data) }?)?;
        session.sources.remove(name);
        Ok(())
    })
}

/// Lets all later runs read an input from memory of the app, without a copy on the cpu device if
/// `data` is aligned to its elements. The input is read in tile_session_run alone. Until it is set
/// or borrowed again, or the session is freed, `data` must stay valid; its elements may change
/// between runs.
///
/// # Safety
/// `handle` is a session, `name` a string, `shape` points to `rank` sizes, and `data` to the
/// elements, which stay valid as said above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tile_session_borrow_input(
    handle: *mut Session,
    name: *const c_char,
    dtype: tile_dtype,
    shape: *const usize,
    rank: usize,
    data: *const c_void,
) -> Status {
    status(|| {
        // SAFETY: the caller's contract.
        let (session, name) = unsafe { (session(handle)?, string(name, "name")?) };
        // SAFETY: the caller's contract.
        let ty = unsafe { tensor_type(dtype, shape, rank) }?;
        let known = session.session.inputs().find(|(input, _)| *input == name);
        let (name, expected) =
            known.map(|(name, ty)| (name.to_owned(), ty.clone())).ok_or_else(|| {
                let inputs = session.session.inputs().map(|(name, _)| name.to_owned()).collect();
                let (name, weights) = (name.to_owned(), Vec::new());
                Failure::Runtime(Error::UnknownInput { name, inputs, weights })
            })?;
        if ty != expected {
            return Err(Failure::Runtime(Error::WrongInput { name, expected, given: ty }));
        }
        // SAFETY: the caller keeps the memory valid until the source is removed.
        session.sources.insert(name, unsafe { Source::new(ty, data) }?);
        Ok(())
    })
}

/// Lets all later runs write an output to memory of the app, without a copy on the cpu device if
/// `data` is aligned to its elements. `bytes` is the size of the memory, which must be that of the
/// output. The memory must stay valid until another call of this function for the output, or until
/// the session is freed. It must not overlap that of another output or of a borrowed input. With a
/// null pointer, later runs write the output to memory of the session again.
///
/// # Safety
/// `handle` is a session, `name` a string, and `data` is null or points to `bytes` bytes, which
/// nobody else uses during a run.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tile_session_set_output(
    handle: *mut Session,
    name: *const c_char,
    data: *mut c_void,
    bytes: usize,
) -> Status {
    status(|| {
        // SAFETY: the caller's contract.
        let (session, name) = unsafe { (session(handle)?, string(name, "name")?) };
        if data.is_null() {
            session.destinations.remove(name);
            return Ok(());
        }
        let known = session.session.outputs().find(|(output, _)| *output == name);
        let ty = known.map(|(_, ty)| ty.clone()).ok_or_else(|| unknown_output(session, name))?;
        if ty.checked_bytes() != Some(bytes) {
            let what = format!("`bytes` is {bytes}, and output `{name}` is {ty}");
            return Err(Failure::Usage(what));
        }
        // SAFETY: the caller keeps the memory valid until the destination is removed.
        session.destinations.insert(name.to_owned(), unsafe { Destination::new(ty, data.cast()) });
        Ok(())
    })
}

fn unknown_output(session: &Session, name: &str) -> Failure {
    let outputs = session.session.outputs().map(|(name, _)| name.to_owned()).collect();
    Failure::Runtime(Error::UnknownOutput { name: name.to_owned(), outputs })
}

/// Runs the program, and waits for the results. Every input must have been set.
///
/// # Safety
/// `handle` is a session.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tile_session_run(handle: *mut Session) -> Status {
    status(|| {
        // SAFETY: the caller's contract.
        let session = unsafe { session(handle) }?;
        session.check_apart()?;
        session.has_run = false;
        session.copies.clear();
        session.destinations.values_mut().for_each(|destination| destination.is_written = false);
        let outputs = session.destinations.iter_mut();
        session.session.run_into(&session.sources, outputs)?;
        session.destinations.values_mut().for_each(|destination| destination.is_written = true);
        session.has_run = true;
        Ok(())
    })
}

/// Returns an output of the last run, in memory that is not the caller's to free. The shape and the
/// data are valid until the next call that changes the session: a run, or the setting of an input
/// or weight. A null pointer for any result is allowed.
///
/// # Safety
/// `handle` is a session, `name` a string, and the other pointers are null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tile_session_output(
    handle: *mut Session,
    name: *const c_char,
    dtype: *mut tile_dtype,
    shape: *mut *const usize,
    rank: *mut usize,
    data: *mut *const c_void,
) -> Status {
    status(|| {
        // SAFETY: the caller's contract.
        let (session, name) = unsafe { (session(handle)?, string(name, "name")?) };
        if !session.has_run {
            let what = "there are no outputs before the first run that succeeds";
            return Err(Failure::Usage(what.to_owned()));
        }
        let (ty, bytes) = session.output(name)?;
        // SAFETY: the caller's contract.
        unsafe {
            store_if(dtype, to_number(ty.dtype));
            store_if(shape, ty.shape.as_ptr());
            store_if(rank, ty.shape.len());
            store_if(data, bytes.cast());
        }
        Ok(())
    })
}

impl Session {
    /// Builds a session on a device, with the weights of another session.
    fn new(
        model: &Model,
        device: Device,
        other: Option<&RuntimeSession>,
    ) -> Result<Box<Session>, Failure> {
        let session = model.build(&device, other)?;
        Ok(Box::new(Session {
            inputs: Port::all(session.inputs()),
            outputs: Port::all(session.outputs()),
            weights: Port::all(session.weights()),
            session,
            device,
            sources: BTreeMap::new(),
            destinations: BTreeMap::new(),
            has_run: false,
            copies: BTreeMap::new(),
        }))
    }

    /// Checks that outputs in memory of the app overlap neither each other nor borrowed inputs.
    fn check_apart(&self) -> Result<(), Failure> {
        let written: Vec<_> =
            self.destinations.iter().map(|(name, memory)| (name, memory.range())).collect();
        let read = self.sources.iter().map(|(name, memory)| (name, memory.range()));
        for (number, (name, range)) in written.iter().enumerate() {
            let others = written[..number].iter().cloned().chain(read.clone());
            let overlaps =
                |other: &std::ops::Range<usize>| range.start < other.end && other.start < range.end;
            if let Some((other, _)) = others.into_iter().find(|(_, other)| overlaps(other)) {
                let what = format!("the memory of output `{name}` overlaps that of `{other}`");
                return Err(Failure::Usage(what));
            }
        }
        Ok(())
    }

    /// Returns an output of the last run, which is valid until the session changes.
    fn output(&mut self, name: &str) -> Result<(&TensorType, *const u8), Failure> {
        if let Some(destination) = self.destinations.get(name) {
            let data = destination.written().ok_or_else(|| {
                Failure::Usage(format!("no run has written output `{name}` to this memory yet"))
            })?;
            return Ok((destination.ty(), data));
        }
        // Outputs of the cpu device are in host memory.
        if self.device.name() == "cpu" {
            let view = self.session.view(name)?;
            return Ok((view.ty(), view.bytes().as_ptr()));
        }
        if !self.copies.contains_key(name) {
            let copy = self.session.view(name)?.to_tensor().ok_or_else(|| Error::OutOfMemory {
                device: "the host".to_owned(),
                what: format!("output `{name}`"),
            })?;
            self.copies.insert(name.to_owned(), copy);
        }
        let copy = self.copies.get(name).ok_or_else(|| null(name))?;
        Ok((copy.ty(), copy.bytes().as_ptr()))
    }
}

/// Frees a session. A null pointer is allowed.
///
/// # Safety
/// `handle` is null or a session, which is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tile_session_free(handle: *mut Session) {
    if !handle.is_null() {
        status(|| {
            // SAFETY: the caller's contract: it comes from `Box::into_raw`.
            drop(unsafe { Box::from_raw(handle) });
            Ok(())
        });
    }
}
