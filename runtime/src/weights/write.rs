//! Writes files of weights: safetensors, NumPy's .npz, and those of Keras.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

use safetensors::tensor::{Dtype, Metadata, TensorInfo};
use tile_compiler::tensor::Tensor;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

#[cfg(feature = "keras")]
use super::is_of_keras;
use super::{Format, error, format};
use crate::error::Error;
use crate::files::{npy, write_whole};
use crate::safetensors_types::stored;

/// Writes tensors by name to a .safetensors or .npz file. The file appears whole or not at all.
///
/// # Errors
/// Returns [`Error::Weights`] if the file name has another ending, two tensors have the same name
/// or the format lacks the type of a tensor. Returns [`Error::Write`] if the file cannot be
/// written.
pub fn write(path: &Path, tensors: &[(String, Tensor)]) -> Result<(), Error> {
    let failed = |what: String| Error::Weights(error(path, what));
    let mut names = HashSet::new();
    if let Some((name, _)) = tensors.iter().find(|(name, _)| !names.insert(name)) {
        return Err(failed(format!("two tensors have the name `{name}`")));
    }
    let write: &dyn Fn(&mut BufWriter<File>) -> io::Result<()> = match format(path)
        .map_err(Error::Weights)?
    {
        Format::SafeTensors => {
            let (head, sorted) = safetensors_head(tensors).map_err(failed)?;
            &move |file| {
                file.write_all(&(head.len() as u64).to_le_bytes())?;
                file.write_all(&head)?;
                sorted.iter().try_for_each(|tensor| file.write_all(tensor.bytes()))
            }
        }
        Format::Npz => &|file| write_npz(file, tensors),
        Format::Index => {
            return Err(failed("weights are written to one file, .safetensors or .npz".into()));
        }
        Format::Torch => return Err(failed("weights are written to .safetensors or .npz".into())),
        #[cfg(feature = "keras")]
        Format::Keras | Format::KerasModel => {
            return Err(failed("arrays are written to .safetensors or .npz, and the weights of a session or a trainer also to .weights.h5".into()));
        }
    };
    write_whole(path, write).map_err(|source| Error::Write { path: path.to_owned(), source })
}

/// Writes the weights of a model, to a file of Keras if it has the ending of one. `layers` has the
/// paths and classes of the model's layers, in the order of their application.
///
/// # Errors
/// Fails like [`write`], or if Keras lacks the layer of a weight.
#[cfg_attr(not(feature = "keras"), allow(unused_variables))]
pub(crate) fn write_model(
    path: &Path,
    layers: &[(String, String)],
    tensors: Vec<(String, Tensor)>,
) -> Result<(), Error> {
    #[cfg(feature = "keras")]
    if is_of_keras(path) {
        return super::keras_write::write(path, layers, tensors);
    }
    write(path, &tensors)
}

/// Checks that [`write_model`] can write weights with these paths to a file of this name.
///
/// # Errors
/// Fails if the name has another ending, or Keras lacks the layer of a weight.
#[cfg_attr(not(feature = "keras"), allow(unused_variables))]
pub(crate) fn check_model<'w>(
    path: &Path,
    layers: &[(String, String)],
    weights: impl Iterator<Item = (&'w str, &'w [usize])>,
) -> Result<(), Error> {
    match format(path).map_err(Error::Weights)? {
        #[cfg(feature = "keras")]
        Format::Keras => super::keras_write::check(path, layers, weights).map_err(Error::Weights),
        _ => Ok(()),
    }
}

#[cfg(any(feature = "keras", feature = "onnx"))]
impl crate::tile_program::TileProgram {
    /// Writes the weights by their names in the program to a .safetensors or .npz file.
    ///
    /// # Errors
    /// Fails if a weight cannot be read or the file cannot be written.
    pub fn save_weights(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        write(path.as_ref(), &self.weights()?)
    }
}

/// Returns the header of a safetensors file, and the tensors in the order of their bytes. The
/// widest types come first, as in the safetensors library.
fn safetensors_head(tensors: &[(String, Tensor)]) -> Result<(Vec<u8>, Vec<&Tensor>), String> {
    let mut sorted = Vec::with_capacity(tensors.len());
    for (name, tensor) in tensors {
        sorted.push((stored(tensor.dtype()), name, tensor));
    }
    sorted.sort_by(|(left, left_name, _), (right, right_name, _)| {
        right.cmp(left).then(left_name.cmp(right_name))
    });
    let mut end = 0;
    let info = |&(dtype, name, tensor): &(Dtype, &String, &Tensor)| {
        let start = end;
        end += tensor.bytes().len();
        (
            name.clone(),
            TensorInfo { dtype, shape: tensor.shape().to_vec(), data_offsets: (start, end) },
        )
    };
    let metadata =
        Metadata::new(None, sorted.iter().map(info).collect()).map_err(|e| e.to_string())?;
    let mut head = serde_json::to_vec(&metadata).map_err(|e| e.to_string())?;
    // Pads the header, so that the tensors' bytes are aligned.
    head.resize(head.len().next_multiple_of(8), b' ');
    Ok((head, sorted.into_iter().map(|(_, _, tensor)| tensor).collect()))
}

fn write_npz(file: &mut BufWriter<File>, tensors: &[(String, Tensor)]) -> io::Result<()> {
    write_archive(file, |archive| {
        tensors.iter().try_for_each(|(name, tensor)| {
            archive.entry(&format!("{name}.npy"))?;
            npy::write(tensor, &mut *archive)
        })
    })
}

/// An archive whose entries are written one after the other.
pub(super) struct Archive<'f, 'l>(ZipWriter<&'l mut Latched<'f>>);

impl Archive<'_, '_> {
    /// Starts an entry.
    pub fn entry(&mut self, name: &str) -> io::Result<()> {
        // Stored, as numpy.savez does. Zip64, since the file may exceed 4 GiB.
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .large_file(true);
        Ok(self.0.start_file(name, options)?)
    }
}

impl Write for Archive<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Writes a zip archive, whose entries `content` writes.
pub(super) fn write_archive(
    file: &mut BufWriter<File>,
    content: impl FnOnce(&mut Archive) -> io::Result<()>,
) -> io::Result<()> {
    let mut latched = Latched { file, position: 0, end: 0, failed: None };
    {
        let mut archive = Archive(ZipWriter::new(&mut latched));
        content(&mut archive)?;
        archive.0.finish()?;
    }
    latched.failed.map_or(Ok(()), Err)
}

/// A file that keeps its first error and ignores all later writes. A `ZipWriter` that meets an
/// error would print it on drop.
pub(super) struct Latched<'f> {
    file: &'f mut BufWriter<File>,
    /// The position of the next byte, and the length of the file.
    position: u64,
    end: u64,
    failed: Option<io::Error>,
}

impl Latched<'_> {
    fn keep(&mut self, result: io::Result<()>) {
        if let Err(error) = result {
            self.failed.get_or_insert(error);
        }
    }
}

impl Write for Latched<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.failed.is_none() {
            let written = self.file.write_all(bytes);
            self.keep(written);
        }
        self.position += bytes.len() as u64;
        self.end = self.end.max(self.position);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.failed.is_none() {
            let flushed = self.file.flush();
            self.keep(flushed);
        }
        Ok(())
    }
}

impl Seek for Latched<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
            SeekFrom::End(by) => self.end.checked_add_signed(by),
        };
        let position = position.ok_or(io::ErrorKind::InvalidInput)?;
        if self.failed.is_none() && position != self.position {
            let sought = self.file.seek(SeekFrom::Start(position)).map(drop);
            self.keep(sought);
        }
        self.position = position;
        Ok(position)
    }
}
