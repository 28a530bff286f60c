//! [`HostExecutable`]: a plan on buffers in host memory, for the cpu device and the kernel checker.

use tile_compiler::plan::{BufferId, Content, Plan};
use tile_compiler::tensor::Tensor;

use crate::backend::{Executable, Pending, Ports, Shared, ready};
use crate::error::Error;
use crate::host::{Memory, allocate};
use crate::storage::{from_storage, to_storage};
use crate::store::{self, Store, Stored};
use crate::trace::Trace;

/// A way to run the steps of a plan on host memory.
pub trait Engine: Shared {
    /// Runs all steps, with the prelude if a weight was given since it ran.
    fn run(&mut self, plan: &Plan, memory: &mut Memory) -> Result<(), Error>;

    /// Runs all steps, and returns the time of each launch. `None` if times are meaningless.
    fn trace(&mut self, _: &Plan, _: &mut Memory) -> Result<Option<Trace>, Error> {
        Ok(None)
    }

    /// Notes that a weight or constant was given. A buffer without memory has its `value` here.
    fn given(&mut self, id: BufferId, value: Option<&[u8]>);

    /// Returns the value of a buffer without memory.
    fn unpacked(&self, _: BufferId) -> Option<Vec<u8>> {
        None
    }
}

/// A plan with its memory.
pub struct HostExecutable<E> {
    plan: Plan,
    memory: Memory,
    engine: E,
}

impl<E: Engine> HostExecutable<E> {
    pub fn new(plan: Plan, memory: Memory, engine: E) -> Result<HostExecutable<E>, Error> {
        let mut executable = HostExecutable { plan, memory, engine };
        for id in executable.plan.buffers.ids() {
            if let Content::Constant(tensor) = &executable.plan.buffers[id].content {
                let tensor = tensor.clone();
                executable.fill(id, &tensor)?;
            }
        }
        Ok(executable)
    }

    fn fill(&mut self, id: BufferId, tensor: &Tensor) -> Result<(), Error> {
        let buffer = &self.plan.buffers[id];
        let bytes = to_storage(tensor, buffer.storage)
            .ok_or_else(|| Error::unstorable(tensor.ty(), buffer.storage))?;
        let mut aligned = None;
        let passing = match self.memory.block(id) {
            Some(block) => {
                block.bytes_mut()[..bytes.len()].copy_from_slice(&bytes);
                None
            }
            None if bytes.as_ptr().align_offset(buffer.storage.size()) == 0 => Some(&*bytes),
            None => {
                let block = aligned.insert(allocate(buffer.bytes(), "cpu", &buffer.ty)?);
                block.bytes_mut()[..bytes.len()].copy_from_slice(&bytes);
                Some(block.bytes())
            }
        };
        if !matches!(buffer.content, Content::Input) {
            self.engine.given(id, passing);
        }
        Ok(())
    }

    /// Returns the value of an input or weight.
    fn value(&self, number: usize) -> Option<Tensor> {
        let port = self.plan.given().nth(number)?;
        let storage = self.plan.buffers[port.buffer].storage;
        match self.memory.has(port.buffer) {
            true => from_storage(self.memory.bytes(port.buffer), storage, &port.ty),
            false => from_storage(&self.engine.unpacked(port.buffer)?, storage, &port.ty),
        }
    }

    fn result(&self, number: usize) -> Result<Tensor, Error> {
        let port = &self.plan.outputs[number];
        let storage = self.plan.buffers[port.buffer].storage;
        let bytes = self.memory.bytes(port.buffer);
        from_storage(bytes, storage, &port.ty).ok_or_else(|| Error::unstorable(&port.ty, storage))
    }

    /// Returns the outputs. Does not copy outputs that have their own memory.
    fn results(mut self) -> Result<Vec<Tensor>, Error> {
        let mut outputs = Vec::new();
        for number in 0..self.plan.outputs.len() {
            let port = &self.plan.outputs[number];
            let buffer = &self.plan.buffers[port.buffer];
            let is_read_again =
                self.plan.outputs[number + 1..].iter().any(|other| other.buffer == port.buffer);
            if is_read_again
                || !matches!(buffer.content, Content::Output)
                || buffer.storage != port.ty.dtype
            {
                outputs.push(self.result(number)?);
                continue;
            }
            let bytes =
                self.memory.take(port.buffer).into_bytes(port.ty.elements() * port.ty.dtype.size());
            let tensor = Tensor::from_bytes(port.ty.clone(), bytes);
            outputs.push(tensor.ok_or_else(|| Error::unstorable(&port.ty, buffer.storage))?);
        }
        Ok(outputs)
    }
}

impl<E: Engine> Executable for HostExecutable<E> {
    fn ports(&self) -> Ports {
        Ports::of(&self.plan)
    }

    fn plan(&self) -> Option<&Plan> {
        Some(&self.plan)
    }

    fn set<'a>(&'a mut self, number: usize, tensor: &'a Tensor) -> Pending<'a, ()> {
        let buffer = self.plan.given().nth(number).map(|port| port.buffer);
        ready(match buffer {
            Some(buffer) => self.fill(buffer, tensor),
            None => Err(Error::internal(format!("the plan has no input or weight {number}"))),
        })
    }

    fn get(&self, number: usize) -> Pending<'_, Tensor> {
        ready(
            self.value(number)
                .ok_or_else(|| Error::internal(format!("there is no input or weight {number}"))),
        )
    }

    fn repeat(&mut self, runs: u32) -> Pending<'_, ()> {
        ready((0..runs).try_for_each(|_| self.engine.run(&self.plan, &mut self.memory)))
    }

    fn output(&self, number: usize) -> Pending<'_, Tensor> {
        ready(self.result(number))
    }

    fn read(&self) -> Pending<'_, Vec<Tensor>> {
        ready((0..self.plan.outputs.len()).map(|number| self.result(number)).collect())
    }

    fn into_outputs<'a>(self: Box<Self>) -> Pending<'a, Vec<Tensor>>
    where
        Self: 'a,
    {
        ready(self.results())
    }

    fn trace(&mut self) -> Pending<'_, Option<Trace>> {
        ready(self.engine.trace(&self.plan, &mut self.memory))
    }

    /// Invalidates the outputs with the next values of weights.
    fn adopt(&mut self) {
        let HostExecutable { plan, memory, .. } = self;
        for &(weight, output) in &plan.updates {
            let (weight, next) = (plan.weights[weight].buffer, plan.outputs[output].buffer);
            let is_shared = plan.outputs.iter().filter(|port| port.buffer == next).count() > 1;
            match plan.buffers[next].content {
                Content::Output if !is_shared => memory.swap(weight, next),
                Content::Over { .. } => {}
                _ if weight == next => {}
                _ => {
                    let block = memory.take(next);
                    let to = memory.bytes_mut(weight);
                    to.copy_from_slice(&block.bytes()[..to.len()]);
                    memory.put(next, block);
                }
            }
        }
    }

    /// Takes the weights' memory from the store, except for weights that the engine keeps.
    fn attach(&mut self, store: &mut Store) -> Result<(), Error> {
        self.plan.weights.iter().try_for_each(|port| store.check(&port.name, &port.ty))?;
        let HostExecutable { plan, memory, engine } = self;
        for port in &plan.weights {
            if memory.has(port.buffer)
                && let Some(Stored { memory: store::Memory::Block(block), .. }) =
                    store.take(&port.name)
            {
                memory.put(port.buffer, block);
            }
            let stored = match store.get(&port.name) {
                Some(Stored { memory: store::Memory::Block(block), .. }) => Some(block.bytes()),
                _ => None,
            };
            engine.given(port.buffer, stored);
        }
        Ok(())
    }

    fn detach(&mut self, store: &mut Store) -> Result<(), Error> {
        let HostExecutable { plan, memory, engine } = self;
        for port in &plan.weights {
            let storage = plan.buffers[port.buffer].storage;
            let block = match memory.has(port.buffer) {
                true => memory.take(port.buffer),
                // A weight that the engine keeps has not changed.
                false if store.has(&port.name) => continue,
                false => {
                    let bytes = engine.unpacked(port.buffer).unwrap_or_default();
                    let mut block = allocate(plan.buffers[port.buffer].bytes(), "cpu", &port.ty)?;
                    block.bytes_mut()[..bytes.len()].copy_from_slice(&bytes);
                    block
                }
            };
            let memory = store::Memory::Block(block);
            store.put(&port.name, Stored { ty: port.ty.clone(), storage, memory, given: true });
        }
        Ok(())
    }
}
