//! Runs on memory of the app on its own GPU: nothing is copied, submitted or waited for.

use wgpu::CommandEncoder;

use super::Session;
use crate::error::Error;
use crate::wgpu::{GpuExecutable, Resource};

impl Session {
    /// Uses a [`wgpu::Buffer`], part of one, or a [`wgpu::Texture`] of the app for an input or
    /// output of all later runs. The device must be that of [`crate::Device::from_wgpu`].
    ///
    /// - A buffer has usage `STORAGE`, and `COPY_SRC` too if [`Session::run`] or [`Session::read`]
    ///   reads it as an output. The elements are dense and row-major. Those of 8 and 16 bits and
    ///   bools take 4 bytes each, as u32 or i32 (f16 and bf16: as f32, unless the device has f16).
    /// - A part of a buffer starts at a multiple of the device's
    ///   `min_storage_buffer_offset_alignment`.
    /// - A texture is of the format R32Float, Rg32Float or Rgba32Float for f32 of shape [height,
    ///   width, channels]; R32Sint for i32 [height, width]; R32Uint for u32, or Rgba8 or Bgra8 with
    ///   a texel in each u32, the first channel in its lowest bits. It has usage `COPY_SRC` as an
    ///   input and `COPY_DST` as an output, and rows of a multiple of 256 bytes. It is copied on
    ///   the device.
    /// - No buffer is both an input and an output.
    ///
    /// # Errors
    /// [`Error::Bind`], with the reason; [`Error::UnknownInput`]; errors of the device. Nothing has
    /// changed then.
    pub fn bind<'a>(&mut self, name: &str, resource: impl Into<Resource<'a>>) -> Result<(), Error> {
        self.bind_or_not(name, Some(resource.into()))
    }

    /// Uses the session's own memory again for an input or output that was bound. The input has no
    /// value then.
    ///
    /// # Errors
    /// Those of [`Session::bind`].
    pub fn unbind(&mut self, name: &str) -> Result<(), Error> {
        self.bind_or_not(name, None)
    }

    fn bind_or_not(&mut self, name: &str, resource: Option<Resource>) -> Result<(), Error> {
        let inputs = self.arguments[..self.inputs].iter();
        let input = inputs.map(|argument| &argument.name).position(|input| input == name);
        let output = self.outputs.iter().position(|output| output.name == name);
        let (number, is_output) = match (input, output) {
            (Some(number), _) => (number, false),
            (None, Some(number)) => (number, true),
            (None, None) => return Err(self.unknown_input(name)),
        };
        let is_bound = resource.is_some();
        self.gpu(name)?.bind(name, is_output, resource)?;
        if !is_output {
            let argument = &mut self.arguments[number];
            argument.is_set = is_bound || argument.is_set && !argument.is_bound;
            argument.is_bound = is_bound;
        }
        Ok(())
    }

    /// Records a run in a command encoder of the app, which submits it. Inputs are those that are
    /// bound, and those of [`Session::set`], which the queue writes before the app's next submit.
    /// Outputs are in the buffers that are bound, after the submission.
    ///
    /// Neither submits nor waits. What depends only on weights is recorded, too, until a run of it
    /// is known to be done.
    ///
    /// # Errors
    /// [`Error::MissingInput`] and [`Error::MissingWeight`]; [`Error::Bind`] if the session is not
    /// on a GPU; errors of the device. After [`Error::DeviceLost`] the app opens a device again,
    /// and builds new sessions on it.
    pub fn encode(&mut self, encoder: &mut CommandEncoder) -> Result<(), Error> {
        self.begin()?;
        self.gpu("encoder")?.encode(encoder)
    }

    fn gpu(&mut self, name: &str) -> Result<&mut GpuExecutable, Error> {
        let what = "the session's device is not a GPU of wgpu";
        self.executable.gpu().ok_or_else(|| Error::Bind { name: name.into(), what: what.into() })
    }
}
