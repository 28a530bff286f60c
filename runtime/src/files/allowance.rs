//! [`Allowance`]: the memory that reading one file may take, counted.
//!
//! A file says how large its content is, and may lie: by a number in a header, by a compressed form
//! that grows a thousandfold, by parts that overlap, or by holes that are not on the disk. A reader
//! takes each allocation whose size the file decides from one allowance before it makes it.
//!
//! Always true: an allowance is at most the memory that is available, and otherwise follows from
//! the bytes that the file occupies on the disk, so that honest files of any size can be read.

use std::fmt;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::Path;

use tile_compiler::tensor::{TensorType, zeroed};
use tile_lang::Limits;

use crate::available::available;

/// The bytes that any file may take. A compressed file of a few kilobytes can be an honest one.
const LEAST: u64 = 512 << 20;

/// The bytes that one byte on the disk may become. Numbers in a text become about twice as long,
/// and compressed numbers a few times.
const GROWTH: u64 = 16;

/// The bytes beyond which an allowance is compared with the memory of the machine.
const SMALL: u64 = 64 << 20;

/// The most axes that a tensor in a file may have: NumPy's limit.
pub const MOST_AXES: usize = 64;

/// The memory that reading one file may take.
#[derive(Clone, Debug)]
pub struct Allowance {
    whole: u64,
    taken: u64,
    bound: Bound,
    /// Whether the memory of the machine was looked at.
    is_compared: bool,
}

/// The reason for the size of an allowance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bound {
    /// The bytes that the file occupies.
    File(u64),
    /// The caller's limits.
    Limits,
    /// The memory that is available.
    Machine,
}

/// A reader asked for more than its allowance has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exceeded {
    /// The bytes taken and asked for, or `None` if their number is not known or overflows.
    needed: Option<u64>,
    allowed: u64,
    bound: Bound,
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Exceeded { needed, allowed, bound } = self;
        match needed {
            Some(needed) => write!(f, "reading it takes {needed} bytes of memory, and ")?,
            None => write!(f, "reading it takes more than {allowed} bytes of memory, and ")?,
        }
        match bound {
            Bound::File(stored) => {
                write!(f, "a file that occupies {stored} bytes may take {allowed}")
            }
            Bound::Limits => write!(f, "the limit is {allowed}"),
            Bound::Machine => write!(f, "{allowed} are available"),
        }
    }
}

impl std::error::Error for Exceeded {}

impl From<Exceeded> for io::Error {
    fn from(error: Exceeded) -> io::Error {
        io::Error::other(error)
    }
}

/// Returns the bytes that a file occupies on the disk, without its holes. A file system that does
/// not know says 0; then the length counts.
fn stored(metadata: &Metadata) -> u64 {
    #[cfg(unix)]
    {
        let blocks = std::os::unix::fs::MetadataExt::blocks(metadata).saturating_mul(512);
        if blocks > 0 {
            return blocks.min(metadata.len());
        }
    }
    metadata.len()
}

impl Allowance {
    /// Creates the allowance of an open file. `limits` replace what follows from its size.
    ///
    /// # Errors
    /// Fails if the file's metadata cannot be read, or the file is longer than its allowance, as
    /// one with holes can be.
    pub fn of(file: &File, limits: Option<Limits>) -> io::Result<Allowance> {
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Ok(limits.map_or_else(Allowance::of_machine, Allowance::limited));
        }
        let stored = stored(&metadata);
        let of_file =
            || Allowance::new(stored.saturating_mul(GROWTH).max(LEAST), Bound::File(stored));
        let allowance = limits.map_or_else(of_file, Allowance::limited);
        allowance.expect(metadata.len())?;
        Ok(allowance)
    }

    /// Creates an allowance of `limits.bytes`.
    pub fn limited(limits: Limits) -> Allowance {
        Allowance::new(limits.bytes, Bound::Limits)
    }

    /// Creates an allowance of all memory that is available, for a source whose content is not
    /// compressed, so that a false header is found when the source ends.
    pub fn of_machine() -> Allowance {
        Allowance {
            is_compared: true,
            ..Allowance::new(available().unwrap_or(u64::MAX), Bound::Machine)
        }
    }

    fn new(whole: u64, bound: Bound) -> Allowance {
        Allowance { whole, taken: 0, bound, is_compared: false }
    }

    /// Returns the bytes that are left.
    pub fn left(&self) -> u64 {
        self.whole.saturating_sub(self.taken)
    }

    /// Takes memory that is about to be allocated.
    pub fn take(&mut self, bytes: u64) -> Result<(), Exceeded> {
        let needed = self.taken.checked_add(bytes);
        let Some(all) = needed.filter(|needed| *needed <= self.whole) else {
            return Err(self.exceeded(needed));
        };
        // The bytes taken before are no longer available.
        if all > SMALL
            && !std::mem::replace(&mut self.is_compared, true)
            && let Some(available) =
                available().map(|available| available.saturating_add(self.taken))
            && available < self.whole
        {
            (self.whole, self.bound) = (available, Bound::Machine);
            if all > available {
                return Err(self.exceeded(needed));
            }
        }
        self.taken = all;
        Ok(())
    }

    /// Checks the size that a header claims before any of the content is read. An allowance of all
    /// available memory is not checked: its source is counted as it is read.
    pub fn expect(&self, bytes: u64) -> Result<(), Exceeded> {
        let fits = bytes <= self.left() || self.bound == Bound::Machine;
        if fits { Ok(()) } else { Err(self.exceeded(self.taken.checked_add(bytes))) }
    }

    /// Gives back memory that is free again.
    pub fn give(&mut self, bytes: u64) {
        self.taken = self.taken.saturating_sub(bytes);
    }

    fn exceeded(&self, needed: Option<u64>) -> Exceeded {
        Exceeded { needed, allowed: self.whole, bound: self.bound }
    }

    /// Counts a tensor that a header claims toward all tensors of the file, which need not be in
    /// memory at once: their sum is not compared with the memory of the machine.
    pub fn claim(&mut self, ty: &TensorType) -> Result<(), Exceeded> {
        self.is_compared = true;
        self.tensor(ty).map(|_| ())
    }

    /// Takes the memory of a tensor. Returns its bytes.
    pub fn tensor(&mut self, ty: &TensorType) -> Result<usize, Exceeded> {
        let Some(bytes) = ty.checked_bytes() else { return Err(self.exceeded(None)) };
        self.take(bytes as u64)?;
        Ok(bytes)
    }

    /// Takes and allocates `length` zeros.
    pub fn zeroed(&mut self, length: usize) -> Result<Vec<u8>, Exceeded> {
        self.take(length as u64)?;
        zeroed(length).ok_or_else(|| self.exceeded(Some(length as u64)))
    }

    /// Reads a source to its end. `expected` is the length that its header claims.
    pub fn read_to_end(&mut self, source: impl Read, expected: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let most = if self.bound == Bound::Machine { SMALL } else { self.left() };
        let expected = usize::try_from(expected.min(most)).unwrap_or(usize::MAX);
        bytes.try_reserve_exact(expected).map_err(|_| self.exceeded(Some(expected as u64)))?;
        source.take(self.left().saturating_add(1)).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > self.left() {
            return Err(self.exceeded(None).into());
        }
        self.take(bytes.len() as u64)?;
        Ok(bytes)
    }
}

/// Opens a regular file. A pipe or a device may block for ever, or never end.
pub fn open_file(path: &Path) -> io::Result<File> {
    let regular = |is_file: bool| match is_file {
        true => Ok(()),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file")),
    };
    regular(std::fs::metadata(path)?.is_file())?;
    let file = File::open(path)?;
    regular(file.metadata()?.is_file())?;
    Ok(file)
}

/// A source that fails once more was read than an allowance has.
pub struct Counted<R> {
    source: R,
    allowance: Allowance,
}

impl<R> Counted<R> {
    pub fn new(source: R, allowance: Allowance) -> Counted<R> {
        Counted { source, allowance }
    }
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        self.allowance.take(count as u64)?;
        Ok(count)
    }
}

/// Reads a whole file. Returns its bytes and what is left of its allowance.
///
/// # Errors
/// Fails if the file cannot be read, or is longer than its allowance.
pub fn read_file(file: File, limits: Option<Limits>) -> io::Result<(Vec<u8>, Allowance)> {
    let mut allowance = Allowance::of(&file, limits)?;
    let length = file.metadata()?.len();
    let bytes = allowance.read_to_end(file, length)?;
    Ok((bytes, allowance))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tile_compiler::dtype::DType;

    #[test]
    fn what_is_taken_is_counted() {
        let mut allowance = Allowance::new(1000, Bound::File(10));
        assert_eq!(allowance.zeroed(600), Ok(vec![0; 600]));
        let error = allowance.take(401).unwrap_err();
        assert_eq!(
            error.to_string(),
            "reading it takes 1001 bytes of memory, and a file that occupies 10 bytes may take 1000"
        );
        assert_eq!(allowance.tensor(&TensorType::new(DType::F32, [100])), Ok(400));
        assert!(allowance.tensor(&TensorType::new(DType::F32, [usize::MAX, 2])).is_err());
        allowance.give(400);
        assert_eq!(allowance.read_to_end(&[1, 2, 3][..], u64::MAX).unwrap(), [1, 2, 3]);
        let error = allowance.read_to_end(io::repeat(0), 0).unwrap_err();
        assert!(
            error.to_string().starts_with("reading it takes more than 1000 bytes of memory"),
            "{error}"
        );
    }

    #[cfg(unix)]
    #[test]
    fn holes_of_a_file_count_as_nothing() {
        let path = std::env::temp_dir().join(format!("tilec-test-{}-holes", std::process::id()));
        std::fs::write(&path, [1; 5000]).unwrap();
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
        let error = read_file(File::open(&path).unwrap(), None).unwrap_err().to_string();
        assert!(error.starts_with("reading it takes 1099511627776 bytes of memory"), "{error}");
        std::fs::write(&path, [1; 5000]).unwrap();
        assert_eq!(read_file(File::open(&path).unwrap(), None).unwrap().0.len(), 5000);
        std::fs::remove_file(&path).unwrap();
    }
}
