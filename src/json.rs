//! JSON text, for `--json`. Keys are in the order of a struct's fields.

use serde::Serialize;
use serde_json::value::RawValue;

/// Formats a value and a newline.
pub fn line(value: &impl Serialize) -> String {
    // Only keys that are no strings could fail.
    serde_json::to_string(value).map_or_else(|error| error.to_string(), |text| text + "\n")
}

/// Returns a number by its text, or null.
pub fn number(text: String) -> Box<RawValue> {
    RawValue::from_string(text).unwrap_or_else(|_| RawValue::NULL.to_owned())
}
