//! Models, and the sizes for which their sessions are made.

use std::collections::BTreeMap;
use std::ffi::c_char;
use std::ptr;

use tile_runtime::{Device, Model as RuntimeModel, Session, SessionBuilder, Setting, TensorType};

use crate::arguments::{null, slice, store, string, tensor_type};
use crate::dtype::tile_dtype;
use crate::status::{Failure, Status, status};

/// A program with the sizes that its next sessions are made for.
pub struct Model {
    model: RuntimeModel,
    entry: Option<String>,
    sizes: BTreeMap<String, usize>,
    types: BTreeMap<String, TensorType>,
    settings: BTreeMap<String, Setting>,
}

impl Model {
    fn new(model: RuntimeModel) -> Box<Model> {
        Box::new(Model {
            model,
            entry: None,
            sizes: BTreeMap::new(),
            types: BTreeMap::new(),
            settings: BTreeMap::new(),
        })
    }

    /// Builds a session on a device, with the weights of another session.
    pub fn build(&self, device: &Device, other: Option<&Session>) -> Result<Session, Failure> {
        let mut builder: SessionBuilder = self.model.on(device);
        if let Some(other) = other {
            builder = builder.weights_of(other);
        }
        if let Some(entry) = &self.entry {
            builder = builder.entry(entry);
        }
        for (name, size) in &self.sizes {
            builder = builder.dim(name, *size);
        }
        for (name, ty) in &self.types {
            builder = builder.input(name, ty.clone());
        }
        for (name, value) in &self.settings {
            builder = builder.set(name, value.clone());
        }
        Ok(builder.build()?)
    }
}

/// Returns the model of a handle.
///
/// # Safety
/// - `model` is null or a handle that is not freed, and nobody else uses it meanwhile.
unsafe fn model<'a>(model: *mut Model) -> Result<&'a mut Model, Failure> {
    // SAFETY: the caller's contract.
    unsafe { model.as_mut() }.ok_or_else(|| null("model"))
}

/// Reads a model from a file: a pack (.tilepack), an ONNX file (.onnx) or a Tile file. The library
/// may have been built for packs only.
///
/// # Safety
/// `path` is a string, and `out` valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tile_model_load(path: *const c_char, out: *mut *mut Model) -> Status {
    status(|| {
        // SAFETY: the caller's contract.
        unsafe { store(out, ptr::null_mut(), "out") }?;
        // SAFETY: the caller's contract.
        let path = unsafe { string(path, "path") }?;
        let model = Model::new(RuntimeModel::load(path)?);
        // SAFETY: the caller's contract.
        unsafe { store(out, Box::into_raw(model), "out") }
    })
}

/// Reads and checks the text of a Tile program of `length` bytes, without a zero at the end. It is
/// an error if the library was built for packs only.
///
/// # Safety
/// `source` points to `length` bytes, and `out` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tile_model_compile(
    source: *const c_char,
    length: usize,
    out: *mut *mut Model,
) -> Status {
    status(|| {
        // SAFETY: the caller's contract.
        unsafe { store(out, ptr::null_mut(), "out") }?;
        // SAFETY: the caller's contract.
        let bytes = unsafe { slice(source.cast::<u8>(), length, "source") }?;
        let text = std::str::from_utf8(bytes)
            .map_err(|_| Failure::Usage("`source` is not UTF-8".to_owned()))?;
        let model = Model::new(compiled(text)?);
        // SAFETY: the caller's contract.
        unsafe { store(out, Box::into_raw(model), "out") }
    })
}

#[cfg(feature = "compile")]
fn compiled(text: &str) -> Result<RuntimeModel, Failure> {
    Ok(RuntimeModel::compile(text)?)
}

#[cfg(not(feature = "compile"))]
fn compiled(_: &str) -> Result<RuntimeModel, Failure> {
    Err(Failure::Usage("this library was built without the compiler: it runs packs".to_owned()))
}

/// Reads a pack of `length` bytes from memory, which may be freed afterwards.
///
/// # Safety
/// `bytes` points to `length` bytes, and `out` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tile_model_from_pack(
    bytes: *const u8,
    length: usize,
    out: *mut *mut Model,
) -> Status {
    status(|| {
        // SAFETY: the caller's contract.
        unsafe { store(out, ptr::null_mut(), "out") }?;
        // SAFETY: the caller's contract.
        let bytes = unsafe { slice(bytes, length, "bytes") }?;
        let model = Model::new(RuntimeModel::from_pack(bytes)?);
        // SAFETY: the caller's contract.
        unsafe { store(out, Box::into_raw(model), "out") }
    })
}

/// Sets a size by its name in the program's header, for the sessions that are created afterwards.
///
/// # Safety
/// `handle` is a model, and `name` a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tile_model_set_dim(
    handle: *mut Model,
    name: *const c_char,
    size: usize,
) -> Status {
    status(|| {
        // SAFETY: the caller's contract.
        let (model, name) = unsafe { (model(handle)?, string(name, "name")?) };
        model.sizes.insert(name.to_owned(), size);
        Ok(())
    })
}

/// Sets the type and shape of an input, for the sessions that are created afterwards. It may be
/// left out if the sizes are known otherwise; the type is f32 then.
///
/// # Safety
/// `handle` is a model, `name` a string, and `shape` points to `rank` sizes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tile_model_set_shape(
    handle: *mut Model,
    name: *const c_char,
    dtype: tile_dtype,
    shape: *const usize,
    rank: usize,
) -> Status {
    status(|| {
        // SAFETY: the caller's contract.
        let (model, name) = unsafe { (model(handle)?, string(name, "name")?) };
        // SAFETY: the caller's contract.
        model.types.insert(name.to_owned(), unsafe { tensor_type(dtype, shape, rank) }?);
        Ok(())
    })
}

/// Selects the function or model of the program to run. The default is the last model, or the last
/// function if there is no model.
///
/// # Safety
/// `handle` is a model, and `name` a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tile_model_set_entry(handle: *mut Model, name: *const c_char) -> Status {
    status(|| {
        // SAFETY: the caller's contract.
        let (model, name) = unsafe { (model(handle)?, string(name, "name")?) };
        model.entry = Some(name.to_owned());
        Ok(())
    })
}

/// Sets a hyper-parameter to a whole number, for the sessions that are created afterwards.
///
/// # Safety
/// `handle` is a model, and `name` a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tile_model_set_int(
    handle: *mut Model,
    name: *const c_char,
    value: i64,
) -> Status {
    // SAFETY: the caller's contract.
    status(|| unsafe { set(handle, name, Setting::Int(value)) })
}

/// Sets a hyper-parameter to a number, for the sessions that are created afterwards.
///
/// # Safety
/// `handle` is a model, and `name` a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tile_model_set_float(
    handle: *mut Model,
    name: *const c_char,
    value: f64,
) -> Status {
    // SAFETY: the caller's contract.
    status(|| unsafe { set(handle, name, Setting::Float(value)) })
}

/// Sets a hyper-parameter to true (not 0) or false (0), for the sessions that are created
/// afterwards.
///
/// # Safety
/// `handle` is a model, and `name` a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tile_model_set_bool(
    handle: *mut Model,
    name: *const c_char,
    value: i32,
) -> Status {
    // SAFETY: the caller's contract.
    status(|| unsafe { set(handle, name, Setting::Bool(value != 0)) })
}

/// Sets a hyper-parameter to a name, such as that of a function, for the sessions that are created
/// afterwards.
///
/// # Safety
/// `handle` is a model, and `name` and `value` are strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tile_model_set_name(
    handle: *mut Model,
    name: *const c_char,
    value: *const c_char,
) -> Status {
    status(|| {
        // SAFETY: the caller's contract.
        let value = unsafe { string(value, "value") }?;
        // SAFETY: the caller's contract.
        unsafe { set(handle, name, Setting::Name(value.to_owned())) }
    })
}

/// Sets a hyper-parameter.
///
/// # Safety
/// - `handle` is null or a model, and `name` null or a string.
unsafe fn set(handle: *mut Model, name: *const c_char, value: Setting) -> Result<(), Failure> {
    // SAFETY: the caller's contract.
    let (model, name) = unsafe { (model(handle)?, string(name, "name")?) };
    model.settings.insert(name.to_owned(), value);
    Ok(())
}

/// Frees a model. Its sessions stay. A null pointer is allowed.
///
/// # Safety
/// `handle` is null or a model, which is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tile_model_free(handle: *mut Model) {
    if !handle.is_null() {
        status(|| {
            // SAFETY: the caller's contract: it comes from `Box::into_raw`.
            drop(unsafe { Box::from_raw(handle) });
            Ok(())
        });
    }
}
