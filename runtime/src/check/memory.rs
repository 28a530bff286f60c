//! The memory of a variable, and marks of the accesses to each part of it.
//!
//! Always true: marks are kept for each granule, which is as wide as the variable's narrowest
//! scalar. A granule is defined once it has been written, or from the start if the variable has
//! contents. Races are detected where two invocations can access the same memory and one may write
//! it: in workgroup memory and in writable storage.

use std::ops::Range;
use std::rc::Rc;

use naga::AddressSpace;

use super::fault::{Access, Kind};
use super::layout::{Layout, Leaf};
use super::value::Pointer;

/// The memory of a variable, with marks of its accesses.
pub(super) struct Memory {
    pub name: String,
    pub space: AddressSpace,
    layout: Rc<Layout>,
    bytes: Vec<u8>,
    /// The bytes from one lane's copy to the next, or 0 if all lanes share one.
    stride: usize,
    granule: usize,
    /// Whether each granule is defined. Empty if all are from the start.
    defined: Vec<bool>,
    races: Option<Races>,
}

/// The accesses to each granule.
struct Races {
    /// The number of barriers that have ordered this memory. Marks of earlier epochs are void.
    epoch: u32,
    within: Vec<Marks>,
    /// The linear index of the running workgroup.
    workgroup: u32,
    /// The marks of workgroups over the whole dispatch. Empty if the memory does not outlive a
    /// workgroup.
    across: Vec<Marks>,
}

const NOBODY: u32 = u32::MAX;

/// The writer of a granule and two of its readers, which is enough to find another party for any
/// access.
#[derive(Clone, Copy)]
struct Marks {
    epoch: u32,
    writer: u32,
    readers: [u32; 2],
}

impl Marks {
    const NONE: Self = Self { epoch: 0, writer: NOBODY, readers: [NOBODY; 2] };

    /// Marks an access. Returns an earlier one by another party if the two are a race.
    fn mark(&mut self, access: Access, who: u32, epoch: u32) -> Option<(Access, usize)> {
        if self.epoch != epoch {
            *self = Self { epoch, ..Self::NONE };
        }
        let other = |party: u32| party != NOBODY && party != who;
        if other(self.writer) {
            return Some((Access::Write, self.writer as usize));
        }
        match access {
            Access::Read => match self.readers {
                [NOBODY, _] => self.readers[0] = who,
                [first, NOBODY] if first != who => self.readers[1] = who,
                _ => {}
            },
            Access::Write => {
                if let Some(&reader) = self.readers.iter().find(|&&reader| other(reader)) {
                    return Some((Access::Read, reader as usize));
                }
                self.writer = who;
            }
        }
        None
    }
}

impl Memory {
    /// Creates a variable that all lanes share, with these `bytes`. `defined` says whether they are
    /// its contents.
    pub fn shared(
        name: String,
        space: AddressSpace,
        layout: Rc<Layout>,
        bytes: Vec<u8>,
        defined: bool,
    ) -> Self {
        let granule = layout.granule();
        let granules = bytes.len().div_ceil(granule);
        let marks = |wanted: bool| vec![Marks::NONE; if wanted { granules } else { 0 }];
        let outlives = match space {
            AddressSpace::Storage { access } => {
                access.contains(naga::StorageAccess::STORE).then_some(true)
            }
            AddressSpace::WorkGroup => Some(false),
            _ => None,
        };
        let races = outlives.map(|outlives| Races {
            epoch: 0,
            within: marks(true),
            workgroup: 0,
            across: marks(outlives),
        });
        let defined = if defined { Vec::new() } else { vec![false; granules] };
        Self { name, space, layout, bytes, stride: 0, granule, defined, races }
    }

    /// Creates a variable with a copy for each lane, all undefined.
    pub fn private(name: String, space: AddressSpace, layout: Rc<Layout>, lanes: usize) -> Self {
        let granule = layout.granule();
        let stride = layout.size.next_multiple_of(granule);
        let defined = vec![false; lanes * stride / granule];
        Self {
            name,
            space,
            layout,
            bytes: vec![0; lanes * stride],
            stride,
            granule,
            defined,
            races: None,
        }
    }

    pub fn take_bytes(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// Returns the number of bytes from `offset` to the end of a lane's copy.
    pub fn bytes_after(&self, offset: usize) -> usize {
        let size = if self.stride == 0 { self.bytes.len() } else { self.stride };
        size.saturating_sub(offset)
    }

    /// Marks a barrier that orders this memory: accesses before it cannot race with accesses after
    /// it.
    pub fn barrier(&mut self) {
        if let Some(races) = &mut self.races {
            races.epoch += 1;
        }
    }

    /// Starts the next workgroup. Memory that does not outlive a workgroup is reset.
    pub fn start_workgroup(&mut self, index: usize) {
        self.barrier();
        if let Some(races) = &mut self.races {
            races.workgroup = index as u32;
        }
        if !matches!(self.space, AddressSpace::Storage { .. }) {
            self.defined.fill(false);
        }
        if self.space == AddressSpace::WorkGroup {
            self.bytes.fill(0);
        }
    }

    /// Returns the maximal runs of bytes that are still undefined.
    pub fn undefined(&self) -> Vec<Range<usize>> {
        let mut runs: Vec<Range<usize>> = Vec::new();
        for (index, _) in self.defined.iter().enumerate().filter(|(_, defined)| !**defined) {
            let bytes = index * self.granule..((index + 1) * self.granule).min(self.bytes.len());
            match runs.last_mut() {
                Some(run) if run.end == bytes.start => run.end = bytes.end,
                _ => runs.push(bytes),
            }
        }
        runs
    }

    /// Returns the path of the part at byte `offset` that has layout `target`, or that is a scalar.
    pub fn place(&self, offset: usize, target: Option<&Layout>) -> String {
        let mut place = self.name.clone();
        self.layout.path(offset, target, &mut place);
        place
    }

    /// Reads the scalar at `pointer` plus the leaf's offset, for `lane`.
    pub fn read(&mut self, pointer: &Pointer, leaf: Leaf, lane: usize) -> Result<u64, Kind> {
        let (offset, bytes) = self.range(pointer, leaf, lane)?;
        if !self.defined.is_empty() {
            let granules = bytes.start / self.granule..bytes.end / self.granule;
            if !self.defined[granules].iter().all(|&defined| defined) {
                return Err(Kind::Uninitialised {
                    place: self.place(offset, None),
                    invocation: lane,
                });
            }
        }
        self.mark(Access::Read, leaf, offset, &bytes, lane)?;
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(&self.bytes[bytes]);
        Ok(u64::from_le_bytes(word))
    }

    /// Writes the scalar at `pointer` plus the leaf's offset, for `lane`.
    pub fn write(
        &mut self,
        pointer: &Pointer,
        leaf: Leaf,
        lane: usize,
        word: u64,
    ) -> Result<(), Kind> {
        let (offset, bytes) = self.range(pointer, leaf, lane)?;
        self.mark(Access::Write, leaf, offset, &bytes, lane)?;
        if !self.defined.is_empty() {
            self.defined[bytes.start / self.granule..bytes.end / self.granule].fill(true);
        }
        let width = bytes.len();
        self.bytes[bytes].copy_from_slice(&word.to_le_bytes()[..width]);
        Ok(())
    }

    /// Returns the offset within the variable, and the bytes of this lane's copy.
    fn range(
        &self,
        pointer: &Pointer,
        leaf: Leaf,
        lane: usize,
    ) -> Result<(usize, Range<usize>), Kind> {
        let width = usize::from(leaf.scalar.width);
        let offset = pointer.offsets[lane] + leaf.offset;
        if self.bytes_after(offset) < width {
            // Indices are checked where they are applied, so the buffer must be shorter than its
            // fixed-size type.
            let (index, length) = (offset as i128, self.bytes_after(0));
            return Err(Kind::OutOfBounds {
                place: self.name.clone(),
                index,
                length,
                invocation: lane,
            });
        }
        let start = lane * self.stride + offset;
        Ok((offset, start..start + width))
    }

    /// Detects races. The type of a place says whether accesses to it are atomic; atomic accesses
    /// never race.
    fn mark(
        &mut self,
        access: Access,
        leaf: Leaf,
        offset: usize,
        bytes: &Range<usize>,
        lane: usize,
    ) -> Result<(), Kind> {
        let Some(races) = self.races.as_mut().filter(|_| !leaf.atomic) else { return Ok(()) };
        for granule in bytes.start / self.granule..bytes.end / self.granule {
            if let Some(first) = races.within[granule].mark(access, lane as u32, races.epoch) {
                return Err(Kind::Race {
                    place: self.place(offset, None),
                    first,
                    second: (access, lane),
                });
            }
            let across = races.across.get_mut(granule);
            if let Some(first) = across.and_then(|marks| marks.mark(access, races.workgroup, 0)) {
                let second = (access, races.workgroup as usize);
                return Err(Kind::WorkgroupRace { place: self.place(offset, None), first, second });
            }
        }
        Ok(())
    }
}
