//! Copies by all threads, to new memory that is not cleared before.

use super::memory::{Shared, prefer_huge_pages};
use super::threads::pool;
use bytemuck::Pod;
use std::mem::MaybeUninit;
use tile_compiler::tensor::with_room;

/// The bytes of a task: enough to be worth starting one.
const PART: usize = 1 << 18;

/// Copies `from` to the start of `to`, which must be at least as long.
pub fn copy(from: &[u8], to: &mut [u8]) {
    in_parts(&mut to[..from.len()], PART, |at, part| {
        part.copy_from_slice(&from[at..at + part.len()]);
    });
}

/// Calls `f` with consecutive parts of `to`, each of `length` elements but for the last, and with
/// their positions, on all threads.
pub fn in_parts<T: Send>(to: &mut [T], length: usize, f: impl Fn(usize, &mut [T]) + Sync) {
    let (length, all) = (length.max(1), to.len());
    let shared = Shared::new(to);
    pool::run(all.div_ceil(length), |number| {
        let at = number * length;
        // SAFETY: the ranges of different tasks are disjoint, and `to` is borrowed by this
        // function alone.
        f(at, unsafe { shared.slice(at..all.min(at + length)) });
    });
}

/// Returns the elements whose bytes these are, without the last that is not whole. `None` if there
/// is no memory for them.
pub fn copied<T: Pod + Send>(bytes: &[u8]) -> Option<Vec<T>> {
    let size = size_of::<T>().max(1);
    let bytes = &bytes[..bytes.len() / size * size];
    filled(bytes.len() / size, |at, part| {
        let from = &bytes[at * size..][..part.len() * size];
        // SAFETY: `from` has as many bytes as `part`, which is borrowed and no part of it.
        unsafe {
            part.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(from.as_ptr(), from.len())
        }
    })
}

/// Converts each element of `A` bytes to one of `B` bytes. `None` if there is no memory for them.
pub fn converted<const A: usize, const B: usize>(
    bytes: &[u8],
    element: impl Fn([u8; A]) -> [u8; B] + Sync,
) -> Option<Vec<u8>> {
    let (from, _) = bytes.as_chunks::<A>();
    let elements: Vec<[u8; B]> = filled(from.len(), |at, part| {
        for (to, &from) in part.iter_mut().zip(&from[at..]) {
            to.write(element(from));
        }
    })?;
    Some(elements.into_flattened())
}

/// Returns zeroed memory, which is in huge pages if the system has them. `None` if there is none.
pub fn zeroed(length: usize) -> Option<Vec<u8>> {
    let memory = tile_compiler::tensor::zeroed(length)?;
    prefer_huge_pages(&memory);
    Some(memory)
}

/// Returns `count` elements. `fill` writes all elements of a part, given its position.
fn filled<T: Copy + Send>(
    count: usize,
    fill: impl Fn(usize, &mut [MaybeUninit<T>]) + Sync,
) -> Option<Vec<T>> {
    let mut elements: Vec<T> = with_room(count)?;
    prefer_huge_pages(&elements);
    in_parts(&mut elements.spare_capacity_mut()[..count], PART / size_of::<T>().max(1), &fill);
    // SAFETY: both callers of this function write every element of each part.
    unsafe { elements.set_len(count) };
    Some(elements)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_any_size() {
        for length in [0, 1, 3, 4, 1021, PART - 1, PART, PART + 1, 3 * PART + 7] {
            let bytes: Vec<u8> = (0..length).map(|i| (i * 31 + i / 251) as u8).collect();
            let mut copy = vec![7; length + 2];
            super::copy(&bytes, &mut copy);
            assert!(copy[..length] == bytes && copy[length..] == [7, 7]);
            assert!(copied::<u8>(&bytes).unwrap() == bytes);
            let numbers: Vec<u32> = copied(&bytes).unwrap();
            assert!(bytemuck::cast_slice::<u32, u8>(&numbers) == &bytes[..length / 4 * 4]);
            let wide = converted(&bytes, |[byte]| u16::from(byte).to_le_bytes()).unwrap();
            assert!(wide.chunks_exact(2).map(|wide| wide[0]).eq(bytes.iter().copied()));
            assert!(wide.len() == 2 * length && zeroed(length).unwrap().len() == length);
        }
    }
}
