//! Writes HDF5 files of f32 tensors in groups.
//!
//! The file has a superblock of version 2, the elements of all tensors, and then the headers of
//! groups and datasets, which have the links of groups as compact messages. Elements are written
//! one tensor after the other, and nothing is sought.
//!
//! Format: <https://support.hdfgroup.org/documentation/hdf5/latest/_f_m_t3.html>

use std::collections::BTreeMap;
use std::io::{self, Write};

use tile_compiler::tensor::Tensor;

/// The length of the superblock.
const SUPERBLOCK: u64 = 48;

/// An address that points nowhere.
const NOWHERE: u64 = u64::MAX;

/// The types of messages in headers.
const DATASPACE: u8 = 1;
const LINK_INFO: u8 = 2;
const DATATYPE: u8 = 3;
const FILL_VALUE: u8 = 5;
const LINK: u8 = 6;
const LAYOUT: u8 = 8;
const GROUP_INFO: u8 = 10;

/// An f32, little-endian: class 1 of version 1, with the bits of sign, exponent and mantissa.
const F32: [u8; 20] = [0x11, 0x20, 31, 0, 4, 0, 0, 0, 0, 0, 32, 0, 23, 8, 0, 23, 127, 0, 0, 0];

/// A group of links.
#[derive(Default)]
struct Group(BTreeMap<String, Item>);

enum Item {
    Group(Group),
    /// The header of a dataset.
    Dataset(Vec<u8>),
}

/// Writes tensors of f32 by their names, such as `layers/dense/vars/0`.
///
/// # Errors
/// Returns the errors of `out`.
pub fn write(out: &mut impl Write, tensors: &[(String, Tensor)]) -> io::Result<()> {
    let mut address = SUPERBLOCK;
    let mut root = Group::default();
    for (name, tensor) in tensors {
        let length = tensor.bytes().len() as u64;
        let start = if length == 0 { NOWHERE } else { address };
        root.insert(name, dataset(tensor.shape(), start, length))?;
        address += length.next_multiple_of(8);
    }
    let mut headers = Vec::new();
    let root = root.add(address, &mut headers);
    let mut superblock = b"\x89HDF\r\n\x1a\n".to_vec();
    // Version 2, and the number of bytes of addresses and of lengths.
    superblock.extend([2, 8, 8, 0]);
    for address in [0, NOWHERE, address + headers.len() as u64, root] {
        superblock.extend(address.to_le_bytes());
    }
    seal(&mut superblock);
    out.write_all(&superblock)?;
    for (_, tensor) in tensors {
        let bytes = tensor.bytes();
        out.write_all(bytes)?;
        out.write_all(&[0; 8][..bytes.len().next_multiple_of(8) - bytes.len()])?;
    }
    out.write_all(&headers)
}

impl Group {
    /// Adds a dataset below this group, with the groups that contain it.
    fn insert(&mut self, name: &str, header: Vec<u8>) -> io::Result<()> {
        let Some((group, rest)) = name.split_once('/') else {
            self.0.insert(name.to_owned(), Item::Dataset(header));
            return Ok(());
        };
        let new = || Item::Group(Group::default());
        match self.0.entry(group.to_owned()).or_insert_with(new) {
            Item::Group(group) => group.insert(rest, header),
            Item::Dataset(_) => Err(io::Error::other(format!("`{group}` is a group and a tensor"))),
        }
    }

    /// Appends the headers of this group and of all below it to `headers`, which start at `base` in
    /// the file. Returns the address of this group.
    fn add(self, base: u64, headers: &mut Vec<u8>) -> u64 {
        let mut messages = Vec::new();
        let info: Vec<u8> = [[0; 2].as_slice(), &[0xff; 16]].concat();
        message(&mut messages, LINK_INFO, &info);
        message(&mut messages, GROUP_INFO, &[0, 0]);
        for (name, item) in self.0 {
            let address = match item {
                Item::Group(group) => group.add(base, headers),
                Item::Dataset(header) => {
                    let address = base + headers.len() as u64;
                    headers.extend(header);
                    address
                }
            };
            // Version 1, and a length of the name in 4 bytes.
            let mut link = vec![1, 2];
            link.extend((name.len() as u32).to_le_bytes());
            link.extend(name.as_bytes());
            link.extend(address.to_le_bytes());
            message(&mut messages, LINK, &link);
        }
        let address = base + headers.len() as u64;
        headers.extend(header(&messages));
        address
    }
}

/// Returns the header of a dataset, whose elements start at an address.
fn dataset(shape: &[usize], start: u64, length: u64) -> Vec<u8> {
    let mut space = vec![2, shape.len() as u8, 0, u8::from(!shape.is_empty())];
    shape.iter().for_each(|&size| space.extend((size as u64).to_le_bytes()));
    // Version 3, contiguous.
    let mut layout = vec![3, 1];
    layout.extend(start.to_le_bytes());
    layout.extend(length.to_le_bytes());
    let mut messages = Vec::new();
    // Version 3: space is allocated late, and elements without a value are 0.
    let parts =
        [(DATASPACE, &*space), (DATATYPE, &F32), (FILL_VALUE, &[3, 0x0a]), (LAYOUT, &layout)];
    for (kind, content) in parts {
        message(&mut messages, kind, content);
    }
    header(&messages)
}

/// Appends a message to those of a header. `content` has fewer than 65,536 bytes.
fn message(messages: &mut Vec<u8>, kind: u8, content: &[u8]) {
    messages.push(kind);
    messages.extend((content.len() as u16).to_le_bytes());
    messages.push(0);
    messages.extend(content);
}

/// Returns a header, of version 2, with these messages.
fn header(messages: &[u8]) -> Vec<u8> {
    // The length of the messages has 4 bytes.
    let mut header = b"OHDR\x02\x02".to_vec();
    header.extend((messages.len() as u32).to_le_bytes());
    header.extend(messages);
    seal(&mut header);
    header
}

/// Appends the checksum of a part of the file: Jenkins' lookup3.
fn seal(part: &mut Vec<u8>) {
    let first = 0xdead_beef_u32.wrapping_add(part.len() as u32);
    let (mut a, mut b, mut c) = (first, first, first);
    let blocks = part.len().div_ceil(12);
    for (number, block) in part.chunks(12).enumerate() {
        let word = |at: usize| {
            let byte = |byte: usize| u32::from(block.get(at + byte).copied().unwrap_or(0));
            byte(0) | byte(1) << 8 | byte(2) << 16 | byte(3) << 24
        };
        (a, b, c) = (a.wrapping_add(word(0)), b.wrapping_add(word(4)), c.wrapping_add(word(8)));
        if number + 1 < blocks {
            for by in [4, 6, 8, 16, 19, 4] {
                // One sixth of the mix; the next one has the next words in the same places.
                a = a.wrapping_sub(c) ^ c.rotate_left(by);
                c = c.wrapping_add(b);
                (a, b, c) = (b, c, a);
            }
        }
    }
    for (by_b, by_c, by_a) in [(14, 11, 25), (16, 4, 14)] {
        c = (c ^ b).wrapping_sub(b.rotate_left(by_b));
        a = (a ^ c).wrapping_sub(c.rotate_left(by_c));
        b = (b ^ a).wrapping_sub(a.rotate_left(by_a));
    }
    c = (c ^ b).wrapping_sub(b.rotate_left(24));
    part.extend(c.to_le_bytes());
}
