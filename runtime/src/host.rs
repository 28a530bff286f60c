//! Host memory: the buffers of a plan that runs on this processor.

use std::fmt::Display;
use std::sync::Arc;

use smallvec::SmallVec;
use tile_compiler::dense::Dense;
use tile_compiler::plan::{BufferId, Content, Plan};
use tile_compiler::tensor::{Tensor, TensorType};

use crate::cpu::copy::zeroed;
use crate::error::Error;

/// The memory of a plan's buffers.
pub struct Memory {
    /// The slots, followed by the plan's other buffers.
    blocks: Vec<Block>,
    /// The index in `blocks` of each of the plan's buffers. `None` for a buffer without memory.
    place: Dense<BufferId, Option<usize>>,
    /// The size of each buffer.
    bytes: Dense<BufferId, usize>,
}

impl Memory {
    /// Allocates the plan's memory, except for the buffers `without`.
    pub fn new(plan: &Plan, device: &str, without: &[BufferId]) -> Result<Memory, Error> {
        let mut blocks = Vec::new();
        for &bytes in &plan.slots {
            blocks.push(allocate(bytes, device, &"intermediate results")?);
        }
        let mut place: Dense<BufferId, Option<usize>> = Dense::default();
        for (id, buffer) in plan.buffers.enumerate() {
            place.push(match buffer.content {
                Content::Carried => None,
                _ if without.contains(&id) => None,
                Content::Temporary { slot } => Some(slot),
                Content::Over { weight } => place[weight],
                _ => {
                    blocks.push(allocate(buffer.bytes(), device, &buffer.ty)?);
                    Some(blocks.len() - 1)
                }
            });
        }
        let bytes = plan.buffers.iter().map(|buffer| buffer.bytes() as usize).collect();
        Ok(Memory { blocks, place, bytes })
    }

    /// Returns whether a buffer has memory.
    pub fn has(&self, id: BufferId) -> bool {
        self.place[id].is_some()
    }

    /// Returns a buffer's block, if it has memory.
    pub fn block(&self, id: BufferId) -> Option<&Block> {
        self.place[id].map(|place| &self.blocks[place])
    }

    /// Returns a buffer's block for writing, if it has memory.
    pub fn block_mut(&mut self, id: BufferId) -> Option<&mut Block> {
        self.place[id].map(|place| &mut self.blocks[place])
    }

    /// Returns a buffer's bytes. They are empty while its block is taken, or if it has no memory.
    pub fn bytes(&self, id: BufferId) -> &[u8] {
        let bytes = self.place[id].map_or(&[][..], |place| self.blocks[place].bytes());
        &bytes[..self.bytes[id].min(bytes.len())]
    }

    /// Returns a buffer's bytes for writing.
    pub fn bytes_mut(&mut self, id: BufferId) -> &mut [u8] {
        let length = self.bytes[id];
        let bytes = self.place[id].map_or(&mut [][..], |place| self.blocks[place].bytes_mut());
        let length = length.min(bytes.len());
        &mut bytes[..length]
    }

    /// Takes a buffer's block, so that it can be written while others are read. Return it with
    /// [`Memory::put`].
    pub fn take(&mut self, id: BufferId) -> Block {
        self.block_mut(id).map(std::mem::take).unwrap_or_default()
    }

    /// Shares the blocks of another memory that hold the same as blocks of this one. `stays`
    /// selects the buffers of each that few runs write.
    pub fn share(&mut self, stays: &[BufferId], other: &mut Memory, theirs: &[BufferId]) {
        for &id in stays {
            let Some(mine) = self.block_mut(id).filter(|block| block.length >= Block::WORTH) else {
                continue;
            };
            let mut places = theirs.iter().filter_map(|&id| other.place[id]);
            if let Some(place) = places.find(|&place| mine.is_copy_of(&other.blocks[place])) {
                *mine = other.blocks[place].share();
            }
        }
    }

    /// Exchanges the blocks of two buffers.
    pub fn swap(&mut self, one: BufferId, other: BufferId) {
        self.place.swap(one, other);
    }

    pub fn put(&mut self, id: BufferId, block: Block) {
        if let Some(place) = self.block_mut(id) {
            *place = block;
        }
    }
}

/// Memory of the caller that stands in for buffers of a plan during one run.
#[derive(Default)]
pub struct Lent<'a> {
    /// Buffers that steps only read.
    pub read: SmallVec<[(BufferId, &'a [u8]); 4]>,
    /// Buffers that steps write. One is empty while it is taken.
    pub written: SmallVec<[(BufferId, &'a mut [u8]); 4]>,
}

/// The memory of a run: that of the plan, but for buffers that are lent.
pub struct RunMemory<'m, 'a> {
    own: &'m mut Memory,
    lent: Lent<'a>,
}

/// The memory of a buffer that is written while others are read.
pub enum Taken<'a> {
    Own(Block),
    Lent(&'a mut [u8]),
}

impl Taken<'_> {
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Taken::Own(block) => block.bytes_mut(),
            Taken::Lent(bytes) => bytes,
        }
    }
}

impl<'m, 'a> RunMemory<'m, 'a> {
    pub fn new(own: &'m mut Memory, lent: Lent<'a>) -> RunMemory<'m, 'a> {
        RunMemory { own, lent }
    }

    /// Returns a buffer's bytes. They are empty while it is taken, or if it has no memory.
    pub fn bytes(&self, id: BufferId) -> &[u8] {
        let Lent { read, written } = &self.lent;
        if let Some((_, bytes)) = read.iter().find(|(lent, _)| *lent == id) {
            return bytes;
        }
        match written.iter().find(|(lent, _)| *lent == id) {
            Some((_, bytes)) => bytes,
            None => self.own.bytes(id),
        }
    }

    /// Returns a buffer's bytes for writing.
    pub fn bytes_mut(&mut self, id: BufferId) -> &mut [u8] {
        match self.lent.written.iter_mut().find(|(lent, _)| *lent == id) {
            Some((_, bytes)) => bytes,
            None => self.own.bytes_mut(id),
        }
    }

    /// Takes a buffer's memory, so that it can be written while others are read. Return it with
    /// [`RunMemory::put`].
    pub fn take(&mut self, id: BufferId) -> Taken<'a> {
        match self.lent.written.iter_mut().find(|(lent, _)| *lent == id) {
            Some((_, bytes)) => Taken::Lent(std::mem::take(bytes)),
            None => Taken::Own(self.own.take(id)),
        }
    }

    pub fn put(&mut self, id: BufferId, taken: Taken<'a>) {
        match taken {
            Taken::Own(block) => self.own.put(id, block),
            Taken::Lent(bytes) => {
                if let Some(place) = self.lent.written.iter_mut().find(|(lent, _)| *lent == id) {
                    place.1 = bytes;
                }
            }
        }
    }
}

/// Allocates zeroed bytes.
///
/// # Errors
/// Returns [`Error::OutOfMemory`] for `what` if the system refuses the allocation.
pub fn allocate(bytes: u64, device: &str, what: &dyn Display) -> Result<Block, Error> {
    let out_of_memory =
        || Error::OutOfMemory { device: device.into(), what: format!("{what}, {bytes} bytes") };
    Block::zeroed(bytes).ok_or_else(out_of_memory)
}

/// Bytes aligned to 64, the size of a cache line and of the widest vector register. Blocks and
/// tensors may share them until one of them is written.
#[derive(Default)]
pub struct Block {
    /// The allocation, which never grows, so that it does not move. `None` without bytes.
    memory: Option<Arc<Vec<u8>>>,
    start: usize,
    length: usize,
}

impl Block {
    const ALIGNMENT: usize = 64;
    /// The bytes from which sharing is worth it.
    const WORTH: usize = 4096;

    /// Returns whether the system grants an allocation of this size.
    pub fn fits(bytes: u64) -> bool {
        usize::try_from(bytes).is_ok_and(|bytes| Vec::<u8>::new().try_reserve_exact(bytes).is_ok())
    }

    /// Allocates zeroed bytes. Returns `None` if the system refuses the allocation.
    fn zeroed(bytes: u64) -> Option<Block> {
        let length = usize::try_from(bytes).ok()?;
        let with_margin = length.checked_add(Block::ALIGNMENT)?;
        // An allocator with zeroed pages maps them on first touch, by the threads that use them.
        let memory = zeroed(with_margin)?;
        let start = memory.as_ptr().align_offset(Block::ALIGNMENT);
        let memory = Some(Arc::new(memory));
        (start < Block::ALIGNMENT).then_some(Block { memory, start, length })
    }

    pub fn bytes(&self) -> &[u8] {
        let memory = self.memory.as_deref().map_or(&[][..], |memory| memory);
        &memory[self.start..self.start + self.length]
    }

    /// Returns whether others share the bytes.
    pub fn is_shared(&self) -> bool {
        self.memory.as_ref().is_some_and(|memory| Arc::strong_count(memory) > 1)
    }

    /// Returns the bytes for writing. If others share them, they are a copy, or none if there is no
    /// memory for a copy.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        if self.is_shared() {
            let Some(mut own) = Block::zeroed(self.length as u64) else { return &mut [] };
            own.bytes_mut().copy_from_slice(self.bytes());
            *self = own;
        }
        match self.memory.as_mut().and_then(Arc::get_mut) {
            Some(memory) => &mut memory[self.start..self.start + self.length],
            None => &mut [],
        }
    }

    /// Returns the tensor whose elements are at the start. It shares the memory. `None` if there
    /// are too few bytes.
    pub fn tensor(&self, ty: &TensorType) -> Option<Tensor> {
        let memory = self.memory.clone().filter(|_| ty.checked_bytes() <= Some(self.length))?;
        Tensor::from_shared(ty.clone(), memory, self.start)
    }

    /// Returns whether both blocks hold the same and not in the same memory.
    fn is_copy_of(&self, other: &Block) -> bool {
        let (one, two) = (self.bytes(), other.bytes());
        one.len() == two.len() && one.as_ptr() != two.as_ptr() && one == two
    }

    /// Returns another block with the same memory.
    fn share(&self) -> Block {
        Block { memory: self.memory.clone(), ..*self }
    }
}
