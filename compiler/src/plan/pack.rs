//! The parts of plans that packs keep in another form than their own.

/// Kernels, in their text form.
pub mod kernel {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::kernel::Kernel;

    pub fn serialize<S: Serializer>(kernel: &Option<Kernel>, to: S) -> Result<S::Ok, S::Error> {
        kernel.as_ref().map(Kernel::to_string).serialize(to)
    }

    pub fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Option<Kernel>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        text.map(|text| Kernel::parse(&text)).transpose().map_err(D::Error::custom)
    }
}
