//! [`HostExecutable`]: a plan on buffers in host memory, for the cpu device and the kernel checker.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use smallvec::SmallVec;
use tile_compiler::plan::{Buffer, BufferId, Content, Plan, Port};
use tile_compiler::tensor::Tensor;

use crate::backend::{Executable, Pending, Ports, fill, ready};
use crate::background::Background;
use crate::error::Error;
use crate::host::{Lent, Memory, RunMemory, allocate};
use crate::storage::{from_storage, store, to_storage, unstore};
use crate::store::{self, Store, Stored};
use crate::trace::Trace;
use crate::value::{Destination, Value};

/// A way to run the steps of a plan on host memory.
pub trait Engine: Send + Sync + 'static {
    /// Runs all steps, with the prelude if a weight was given since it ran.
    fn run(&mut self, plan: &Plan, memory: &mut RunMemory) -> Result<(), Error>;

    /// Runs all steps, and returns the time of each launch. `None` if times are meaningless.
    fn trace(&mut self, _: &Plan, _: &mut RunMemory) -> Result<Option<Trace>, Error> {
        Ok(None)
    }

    /// Notes that a weight or constant was given. A buffer without memory has its `value` here.
    fn given(&mut self, id: BufferId, value: Option<&[u8]>);

    /// Prepares what depends only on weights, as the next run would.
    fn prepare(&mut self, _: &Plan, _: &mut RunMemory) -> Result<(), Error> {
        Ok(())
    }

    /// Shares memory of another engine that holds the same.
    fn share(&mut self, _: &Self) {}

    /// Returns the value of a buffer without memory.
    fn unpacked(&self, _: BufferId) -> Option<Vec<u8>> {
        None
    }
}

/// A plan with its memory.
pub struct HostExecutable<E> {
    plan: Arc<Plan>,
    /// Whether a value of each input can stand in for its buffer.
    lends_input: Vec<bool>,
    /// Whether memory of the caller can stand in for the buffer of each output.
    lends_output: Vec<bool>,
    state: Mutex<State<E>>,
}

/// The memory of a plan with its engine.
struct Work<E> {
    plan: Arc<Plan>,
    memory: Memory,
    engine: E,
    /// The outputs' buffers that each run writes whole. Results share their memory after it.
    renewed: Vec<BufferId>,
}

/// The state of the work.
enum State<E> {
    Idle(Box<Work<E>>),
    /// A thread runs it.
    Running(Background<Finished<E>>),
    /// It is on its way from one to the other.
    Moving,
}

/// Work that a thread has run, with the outputs, or the panic of the run.
type Finished<E> = (Box<Work<E>>, Result<Result<Vec<Tensor>, Error>, Box<dyn Any + Send>>);

impl<E: Engine> State<E> {
    /// Returns the work, after the end of a run that was dropped.
    fn work(&mut self) -> &mut Work<E> {
        if let State::Running(_) = self
            && let State::Running(task) = std::mem::replace(self, State::Moving)
        {
            *self = State::Idle(task.wait().0);
        }
        match self {
            State::Idle(work) => work,
            _ => unreachable!("the work comes back from each run"),
        }
    }

    /// Runs the work on another thread.
    fn send(&mut self) {
        self.work();
        if let State::Idle(mut work) = std::mem::replace(self, State::Moving) {
            *self = State::Running(Background::start(move || {
                let run = || work.run().and_then(|()| work.results());
                let result = catch_unwind(AssertUnwindSafe(run));
                (work, result)
            }));
        }
    }

    /// Returns the outputs of the work that was sent, when it is back.
    fn poll(&mut self, context: &mut Context) -> Poll<Result<Vec<Tensor>, Error>> {
        let State::Running(task) = self else {
            return Poll::Ready(Err(Error::internal("no run is pending")));
        };
        task.poll(context).map(|(work, result)| {
            *self = State::Idle(work);
            result.unwrap_or_else(|panic| resume_unwind(panic))
        })
    }
}

impl<E: Engine> Work<E> {
    fn fill(&mut self, id: BufferId, value: &dyn Value) -> Result<(), Error> {
        let Work { plan, memory, engine, .. } = self;
        let buffer = &plan.buffers[id];
        let unstorable = || Error::unstorable(&buffer.ty, buffer.storage);
        match memory.block_mut(id) {
            Some(block) => {
                if block.is_shared() {
                    *block = allocate(buffer.bytes(), "cpu", &buffer.ty)?;
                }
                store(value, buffer.storage, block.bytes_mut()).ok_or_else(unstorable)?;
                if !matches!(buffer.content, Content::Input) {
                    engine.given(id, None);
                }
            }
            None => {
                let bytes = to_storage(value, buffer.storage).ok_or_else(unstorable)?;
                if bytes.as_ptr().align_offset(buffer.storage.size()) == 0 {
                    engine.given(id, Some(&bytes));
                } else {
                    let mut block = allocate(buffer.bytes(), "cpu", &buffer.ty)?;
                    block.bytes_mut()[..bytes.len()].copy_from_slice(&bytes);
                    engine.given(id, Some(block.bytes()));
                }
            }
        }
        Ok(())
    }

    fn run(&mut self) -> Result<(), Error> {
        self.run_lent(Lent::default())
    }

    fn run_lent(&mut self, lent: Lent) -> Result<(), Error> {
        self.renew(&lent)?;
        self.engine.run(&self.plan, &mut RunMemory::new(&mut self.memory, lent))
    }

    /// Leaves outputs of the last run to the tensors that share their memory.
    fn renew(&mut self, lent: &Lent) -> Result<(), Error> {
        for &id in &self.renewed {
            let is_lent = lent.written.iter().any(|(lent, _)| *lent == id);
            let block = self.memory.block_mut(id).filter(|block| !is_lent && block.is_shared());
            if let Some(block) = block {
                let buffer = &self.plan.buffers[id];
                *block = allocate(buffer.bytes(), "cpu", &buffer.ty)?;
            }
        }
        Ok(())
    }

    /// Shares the memory of another plan's work that holds the same.
    fn share(&mut self, other: &mut Work<E>) {
        let stays = |plan: &Plan| -> Vec<BufferId> {
            let stays = |content: &Content| {
                matches!(content, Content::Weight | Content::Kept | Content::Constant(_))
            };
            let buffers = plan.buffers.enumerate().filter(|(_, buffer)| stays(&buffer.content));
            buffers.map(|(id, _)| id).collect()
        };
        let theirs = stays(&other.plan);
        self.memory.share(&stays(&self.plan), &mut other.memory, &theirs);
        self.engine.share(&other.engine);
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

    /// Returns an output, in the memory of the program if it is there in its type.
    fn result(&self, number: usize) -> Result<Tensor, Error> {
        let Port { ty, buffer: id, .. } = &self.plan.outputs[number];
        let buffer = &self.plan.buffers[*id];
        let is_plain = buffer.content == Content::Output && buffer.storage == ty.dtype;
        let tensor = match self.memory.block(*id).filter(|_| is_plain) {
            Some(block) => block.tensor(ty),
            None => from_storage(self.memory.bytes(*id), buffer.storage, ty),
        };
        tensor.ok_or_else(|| Error::unstorable(ty, buffer.storage))
    }

    fn results(&self) -> Result<Vec<Tensor>, Error> {
        (0..self.plan.outputs.len()).map(|number| self.result(number)).collect()
    }

    /// Copies an output to memory of its type.
    fn copy_result(&self, number: usize, target: &mut dyn Destination) -> Result<(), Error> {
        let Port { ty, buffer, .. } = &self.plan.outputs[number];
        let (storage, bytes) = (self.plan.buffers[*buffer].storage, self.memory.bytes(*buffer));
        let copied = match target.dense() {
            Some(to) => unstore(bytes, storage, ty.dtype, to),
            None if storage == ty.dtype => {
                bytes.get(..ty.elements() * storage.size()).map(|bytes| fill(target, bytes))
            }
            None => from_storage(bytes, storage, ty).map(|tensor| fill(target, tensor.bytes())),
        };
        copied.ok_or_else(|| Error::unstorable(ty, storage))
    }
}

impl<E: Engine> HostExecutable<E> {
    pub fn new(plan: Plan, memory: Memory, engine: E) -> Result<HostExecutable<E>, Error> {
        let is_output =
            |buffer: BufferId| plan.outputs.iter().filter(|port| port.buffer == buffer).count();
        let is_plain = |port: &Port, content: &Content| {
            let buffer = &plan.buffers[port.buffer];
            buffer.content == *content && buffer.storage == port.ty.dtype && port.ty.elements() > 0
        };
        // An output that is an input is read after the run, where it was set.
        let lends_input =
            |port: &Port| is_plain(port, &Content::Input) && is_output(port.buffer) == 0;
        // Results of the prelude stay for later runs.
        let is_ahead = |buffer| plan.prelude.iter().any(|step| step.outputs.contains(&buffer));
        let lends_output = |port: &Port| {
            is_plain(port, &Content::Output)
                && is_output(port.buffer) == 1
                && !is_ahead(port.buffer)
        };
        let lends_input = plan.inputs.iter().map(lends_input).collect();
        let lends_output = plan.outputs.iter().map(lends_output).collect();
        let is_renewed = |(id, buffer): &(BufferId, &Buffer)| {
            buffer.content == Content::Output && !is_ahead(*id)
        };
        let renewed = plan.buffers.enumerate().filter(is_renewed).map(|(id, _)| id).collect();
        let plan = Arc::new(plan);
        let mut work = Work { plan: plan.clone(), memory, engine, renewed };
        for (id, buffer) in plan.buffers.enumerate() {
            if let Content::Constant(tensor) = &buffer.content {
                work.fill(id, tensor)?;
            }
        }
        let state = Mutex::new(State::Idle(Box::new(work)));
        Ok(HostExecutable { plan, lends_input, lends_output, state })
    }

    /// Returns the work, when no run is pending any more.
    fn work(&mut self) -> &mut Work<E> {
        self.state.get_mut().unwrap_or_else(PoisonError::into_inner).work()
    }

    /// Calls `f` with the work, when no run is pending any more.
    fn with<R>(&self, f: impl FnOnce(&Work<E>) -> R) -> R {
        f(self.state.lock().unwrap_or_else(PoisonError::into_inner).work())
    }

    /// Runs the program on values and memory of the caller: where they are, or else by copies.
    fn run_on(
        &mut self,
        inputs: &[(usize, &dyn Value)],
        outputs: &mut [(usize, &mut dyn Destination)],
    ) -> Result<(), Error> {
        let plan = self.plan.clone();
        let mut lent = Lent::default();
        for &(number, value) in inputs {
            let Some(port) = plan.given().nth(number) else {
                return Err(no_input(number));
            };
            let is_lent = self.lends_input.get(number).is_some_and(|lends| *lends);
            match value.dense().filter(|bytes| is_lent && suits(bytes, port)) {
                Some(bytes) => lent.read.push((port.buffer, bytes)),
                None => self.work().fill(port.buffer, value)?,
            }
        }
        let mut copied = SmallVec::<[(usize, &mut dyn Destination); 4]>::new();
        for (number, target) in outputs {
            let port = &plan.outputs[*number];
            let is_lent = self.lends_output[*number]
                && target.dense().is_some_and(|bytes| suits(bytes, port));
            if !is_lent {
                copied.push((*number, *target));
                continue;
            }
            match target.dense() {
                Some(bytes) if suits(bytes, port) => lent.written.push((port.buffer, bytes)),
                _ => return Err(Error::internal("the memory for an output has changed")),
            }
        }
        let work = self.work();
        work.run_lent(lent)?;
        copied.into_iter().try_for_each(|(number, target)| work.copy_result(number, target))
    }
}

/// Returns whether memory has the size of a port, and is aligned to its elements.
fn suits(bytes: &[u8], port: &Port) -> bool {
    port.ty.checked_bytes() == Some(bytes.len())
        && bytes.as_ptr().align_offset(port.ty.dtype.size()) == 0
}

fn no_input(number: usize) -> Error {
    Error::internal(format!("the plan has no input or weight {number}"))
}

impl<E: Engine> Executable for HostExecutable<E> {
    fn ports(&self) -> Ports {
        Ports::of(&self.plan)
    }

    fn plan(&self) -> Option<&Plan> {
        Some(&self.plan)
    }

    fn set<'a>(&'a mut self, number: usize, value: &'a dyn Value) -> Pending<'a, ()> {
        let buffer = self.plan.given().nth(number).map(|port| port.buffer);
        ready(match buffer {
            Some(buffer) => self.work().fill(buffer, value),
            None => Err(no_input(number)),
        })
    }

    fn get(&self, number: usize) -> Pending<'_, Tensor> {
        ready(self.with(|work| work.value(number)).ok_or_else(|| no_input(number)))
    }

    fn repeat(&mut self, runs: u32) -> Pending<'_, ()> {
        let work = self.work();
        ready((0..runs).try_for_each(|_| work.run()))
    }

    fn output(&self, number: usize) -> Pending<'_, Tensor> {
        ready(self.with(|work| work.result(number)))
    }

    fn read(&self) -> Pending<'_, Vec<Tensor>> {
        ready(self.with(Work::results))
    }

    fn run<'a>(&'a mut self, inputs: &'a [(usize, &'a dyn Value)]) -> Pending<'a, Vec<Tensor>> {
        ready(self.run_on(inputs, &mut []).and_then(|()| self.work().results()))
    }

    fn run_async(&mut self) -> Pending<'_, Vec<Tensor>> {
        // Browsers have no threads for it.
        if cfg!(target_family = "wasm") {
            return self.run(&[]);
        }
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        Pending::Waiting(Box::pin(async move {
            state.send();
            poll_fn(|context| state.poll(context)).await
        }))
    }

    fn run_into(
        &mut self,
        inputs: &[(usize, &dyn Value)],
        outputs: &mut [(usize, &mut dyn Destination)],
    ) -> Result<(), Error> {
        self.run_on(inputs, outputs)
    }

    fn view(&mut self, number: usize) -> Option<&[u8]> {
        let Work { plan, memory, .. } = self.work();
        let Port { ty, buffer, .. } = plan.outputs.get(number)?;
        let is_plain = plan.buffers[*buffer].storage == ty.dtype;
        memory.bytes(*buffer).get(..ty.elements() * ty.dtype.size()).filter(|_| is_plain)
    }

    fn trace(&mut self) -> Pending<'_, Option<Trace>> {
        let work = self.work();
        if let Err(error) = work.renew(&Lent::default()) {
            return ready(Err(error));
        }
        let Work { plan, memory, engine, .. } = work;
        ready(engine.trace(plan, &mut RunMemory::new(memory, Lent::default())))
    }

    fn share(&mut self, pairs: &[(usize, usize)], other: &dyn Executable) -> Result<(), Error> {
        let other: &dyn Any = other;
        let Some(other) = other.downcast_ref::<Self>() else {
            return Err(Error::data("weights are shared by sessions of one device".into()));
        };
        let work = self.work();
        let mut theirs = other.state.lock().unwrap_or_else(PoisonError::into_inner);
        let theirs = theirs.work();
        // After each weight, so that at most one is there twice.
        for &(mine, number) in pairs {
            let value = theirs.value(number).ok_or_else(|| no_input(number))?;
            let id = work.plan.given().nth(mine).ok_or_else(|| no_input(mine))?.buffer;
            work.fill(id, &value)?;
            work.share(theirs);
        }
        let Work { plan, memory, engine, .. } = &mut *work;
        engine.prepare(plan, &mut RunMemory::new(memory, Lent::default()))?;
        work.share(theirs);
        Ok(())
    }

    /// Invalidates the outputs with the next values of weights.
    fn adopt(&mut self) {
        let Work { plan, memory, .. } = self.work();
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
        let Work { plan, memory, engine, .. } = self.work();
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
        let Work { plan, memory, engine, .. } = self.work();
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
