//! [`Status`], and the message of the last error of a thread.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use tile_runtime::{Blame, Error};

/// The result of a call.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(non_camel_case_types, reason = "the names are those of C")]
pub enum Status {
    TILE_OK = 0,
    /// The program, the file or a value is at fault.
    TILE_ERROR_INPUT = 1,
    /// The call is at fault: a null pointer, an unknown type, an output that was not computed.
    TILE_ERROR_USAGE = 2,
    /// The device or the machine is at fault.
    TILE_ERROR_MACHINE = 3,
}

/// A failed call.
pub enum Failure {
    Usage(String),
    Runtime(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Runtime(error)
    }
}

thread_local! {
    static MESSAGE: RefCell<CString> = RefCell::default();
}

/// Runs the body of a function of the interface, and keeps its error.
pub fn status(body: impl FnOnce() -> Result<(), Failure>) -> Status {
    let (status, message) = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => return Status::TILE_OK,
        Ok(Err(Failure::Usage(what))) => (Status::TILE_ERROR_USAGE, what),
        Ok(Err(Failure::Runtime(error))) => {
            let status = match error.blame() {
                Blame::Input => Status::TILE_ERROR_INPUT,
                Blame::Machine => Status::TILE_ERROR_MACHINE,
            };
            (status, error.render("program", false).trim_end().to_owned())
        }
        Err(panic) => {
            let what = panic.downcast_ref::<String>().map(String::as_str);
            let what = what.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("?");
            (Status::TILE_ERROR_MACHINE, format!("internal error, please report it: {what}"))
        }
    };
    let message = CString::new(message.replace('\0', " ")).unwrap_or_default();
    // A thread that ends has no message any more.
    let _ = MESSAGE.try_with(|last| *last.borrow_mut() = message);
    status
}

/// Returns the message of this thread's last error, or an empty string. It is valid until the next
/// call on this thread that fails.
#[unsafe(no_mangle)]
pub extern "C" fn tile_error_message() -> *const c_char {
    MESSAGE.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// Returns the version of this library, such as `0.1.0`.
#[unsafe(no_mangle)]
pub extern "C" fn tile_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => c"",
        };
    VERSION.as_ptr()
}
