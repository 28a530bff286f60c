//! [`Resource`]: a buffer or texture of an app, as an input or output of a session.

use tile_compiler::plan::{Buffer as PlanBuffer, BufferId, Content, Plan, Port};
use tile_compiler::tensor::TensorType;
use wgpu::{
    Buffer, BufferSlice, BufferUsages, CommandEncoder, Extent3d, Origin3d, TexelCopyBufferInfo,
    TexelCopyBufferLayout, TexelCopyTextureInfo, Texture, TextureAspect, TextureDimension,
    TextureFormat, TextureUsages,
};

use super::gpu::{Gpu, aligned};
use super::launches::{Region, Regions, region};
use crate::error::Error;

/// A buffer, part of one, or a texture of an app.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Resource<'a> {
    /// The elements, dense and row-major. Elements of 8 and 16 bits and bools take 4 bytes each, as
    /// u32 or i32 (f16 and bf16: as f32, unless the device has f16).
    Buffer(BufferSlice<'a>),
    /// A picture, which is copied on the device. See [`crate::Session::bind`] for its formats.
    Texture(&'a Texture),
}

impl<'a> From<&'a Buffer> for Resource<'a> {
    fn from(buffer: &'a Buffer) -> Resource<'a> {
        Resource::Buffer(buffer.slice(..))
    }
}

impl<'a> From<BufferSlice<'a>> for Resource<'a> {
    fn from(slice: BufferSlice<'a>) -> Resource<'a> {
        Resource::Buffer(slice)
    }
}

impl<'a> From<&'a Texture> for Resource<'a> {
    fn from(texture: &'a Texture) -> Resource<'a> {
        Resource::Texture(texture)
    }
}

/// An input or output in a texture of an app.
pub struct BoundTexture {
    pub id: BufferId,
    pub is_output: bool,
    texture: Texture,
    bytes_per_row: u32,
}

impl BoundTexture {
    /// Records the copy of the texture to the memory of its input, or from that of its output.
    pub fn copy(&self, regions: &Regions, encoder: &mut CommandEncoder) -> Result<(), Error> {
        let Region { buffer, offset } = region(regions, self.id)?;
        let layout = TexelCopyBufferLayout {
            offset: *offset,
            bytes_per_row: Some(self.bytes_per_row),
            rows_per_image: None,
        };
        let buffer = TexelCopyBufferInfo { buffer, layout };
        let texture = TexelCopyTextureInfo {
            texture: &self.texture,
            mip_level: 0,
            origin: Origin3d::ZERO,
            aspect: TextureAspect::All,
        };
        let size = Extent3d { depth_or_array_layers: 1, ..self.texture.size() };
        match self.is_output {
            true => encoder.copy_buffer_to_texture(buffer, texture, size),
            false => encoder.copy_texture_to_buffer(texture, buffer, size),
        }
        Ok(())
    }
}

/// A port of a plan to which an app binds something.
pub struct BoundPort<'p> {
    pub port: &'p Port,
    pub buffer: &'p PlanBuffer,
    pub is_output: bool,
}

impl<'p> BoundPort<'p> {
    /// Returns the input of this name, or the output.
    ///
    /// # Errors
    /// If the port's memory is not its own, or is several buffers.
    pub fn new(plan: &'p Plan, name: &str, is_output: bool) -> Result<BoundPort<'p>, Error> {
        let ports = if is_output { &plan.outputs } else { &plan.inputs };
        let in_parts = || {
            let what = "it is in several buffers, as it is too large for one".into();
            Error::Bind { name: name.into(), what }
        };
        let port = ports.iter().find(|port| port.name == name).ok_or_else(in_parts)?;
        let buffer = &plan.buffers[port.buffer];
        let bound = BoundPort { port, buffer, is_output };
        let others = plan.outputs.iter().filter(|other| other.buffer == port.buffer);
        let is_own = match is_output {
            true => buffer.content == Content::Output && others.count() == 1,
            false => others.count() == 0,
        };
        // The prelude runs once, and its results must stay.
        let is_ahead = plan.prelude.iter().any(|step| step.outputs.contains(&port.buffer));
        match is_own && !is_ahead {
            true => Ok(bound),
            false => Err(bound.error(
                "it is also another input or output, or does not depend on the inputs".into(),
            )),
        }
    }

    fn error(&self, what: String) -> Error {
        Error::Bind { name: self.port.name.clone(), what }
    }

    /// Checks a part of a buffer, and returns it.
    ///
    /// # Errors
    /// [`Error::Bind`] if its size, offset or usage does not suit the port.
    pub fn region(&self, gpu: &Gpu, slice: BufferSlice) -> Result<Region, Error> {
        let (buffer, offset) = (slice.buffer(), slice.offset());
        let needed = aligned(self.buffer.bytes());
        let (ty, storage) = (&self.port.ty, self.buffer.storage);
        if slice.size() < needed {
            let size = slice.size();
            return Err(self.error(format!(
                "expected {needed} bytes for {ty} with elements stored as {storage}, found {size}"
            )));
        }
        let alignment = u64::from(gpu.device.limits().min_storage_buffer_offset_alignment);
        if !offset.is_multiple_of(alignment) {
            return Err(self.error(format!(
                "expected an offset that is a multiple of {alignment}, found {offset}"
            )));
        }
        if !buffer.usage().contains(BufferUsages::STORAGE) {
            let usage = buffer.usage();
            return Err(
                self.error(format!("expected a buffer with usage STORAGE, found {usage:?}"))
            );
        }
        Ok(Region { buffer: buffer.clone(), offset })
    }

    /// Checks a texture, and returns it.
    ///
    /// # Errors
    /// [`Error::Bind`] if its format, size or usage does not suit the port.
    pub fn texture(&self, texture: &Texture) -> Result<BoundTexture, Error> {
        let ty = &self.port.ty;
        let texel = texel(texture.format()).filter(|(dtype, _)| *dtype == self.buffer.storage);
        let Some((_, channels)) = texel else {
            let format = texture.format();
            return Err(self
                .error(format!("a texture of format {format:?} does not hold elements of {ty}")));
        };
        let (height, width) = (texture.height() as usize, texture.width() as usize);
        let is_flat = texture.dimension() == TextureDimension::D2 && texture.sample_count() == 1;
        if !is_flat || !is_picture(ty, [height, width, channels]) {
            return Err(self.error(format!(
                "expected a texture of the size of {ty}, found {height} x {width} texels of {channels} elements"
            )));
        }
        let usage = if self.is_output { TextureUsages::COPY_DST } else { TextureUsages::COPY_SRC };
        if !texture.usage().contains(usage) {
            let found = texture.usage();
            return Err(
                self.error(format!("expected a texture with usage {usage:?}, found {found:?}"))
            );
        }
        let bytes_per_row = width * channels * self.buffer.storage.size();
        let alignment = wgpu::COPY_BYTES_PER_ROW_ALIGNMENT as usize;
        if !bytes_per_row.is_multiple_of(alignment) {
            return Err(self.error(format!(
                "expected rows of a multiple of {alignment} bytes in a texture, found {bytes_per_row}"
            )));
        }
        let (id, is_output) = (self.port.buffer, self.is_output);
        Ok(BoundTexture {
            id,
            is_output,
            texture: texture.clone(),
            bytes_per_row: bytes_per_row as u32,
        })
    }
}

/// Returns the type and number of the elements of a texel. A texel of four bytes is one u32.
fn texel(format: TextureFormat) -> Option<(tile_compiler::dtype::DType, usize)> {
    use TextureFormat as Format;
    use tile_compiler::dtype::DType;
    Some(match format {
        Format::R32Float => (DType::F32, 1),
        Format::Rg32Float => (DType::F32, 2),
        Format::Rgba32Float => (DType::F32, 4),
        Format::R32Sint => (DType::I32, 1),
        Format::R32Uint
        | Format::Rgba8Unorm
        | Format::Rgba8UnormSrgb
        | Format::Rgba8Uint
        | Format::Bgra8Unorm
        | Format::Bgra8UnormSrgb => (DType::U32, 1),
        _ => return None,
    })
}

/// Returns whether a tensor is a picture of this height, width and number of channels, which are
/// last. Axes of size 1 may be left out.
fn is_picture(ty: &TensorType, size: [usize; 3]) -> bool {
    let lengths =
        |sizes: &[usize]| sizes.iter().copied().filter(|&size| size != 1).collect::<Vec<_>>();
    lengths(&ty.shape) == lengths(&size)
}
