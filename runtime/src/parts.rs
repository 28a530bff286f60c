//! [`InParts`]: a program that has some tensors of its caller in another form: in parts, if they
//! are too large for the device's buffers, or in a narrower type, or in 8-bit integers with scales.

use std::any::Any;
use std::ops::Range;

use tile_compiler::dtype::DType;
use tile_compiler::plan::{Plan, Port};
use tile_compiler::tensor::{Tensor, TensorType, with_room};

use crate::backend::{Executable, Pending, Ports, Transfer, Watched, block_on, fill_all};
use crate::error::Error;
use crate::scaled::{quantized, widened};
use crate::storage::{rounded, to_storage};
use crate::store::Store;
use crate::trace::Trace;
use crate::value::{Destination, Value, View, type_of};

/// A program some of whose inputs, weights or outputs are in parts.
pub struct InParts {
    /// The program of the parts.
    executable: Box<dyn Executable>,
    /// The ports of each input and weight.
    arguments: Vec<Range<usize>>,
    /// The ports of each output.
    outputs: Vec<Range<usize>>,
}

/// Notes in `store` which weights of a plan are in parts.
///
/// # Errors
/// If a program that shares the store has other parts of a weight.
pub fn note(plan: &Plan, store: &mut Store) -> Result<(), Error> {
    for parts in Port::tensors(&plan.weights) {
        if let Some((name, ty)) = &parts[0].whole
            && parts.len() > 1
        {
            let parts = parts.iter().map(|part| part.name.clone()).collect();
            store.put_parts(name, ty, parts)?;
        }
    }
    Ok(())
}

/// Returns a program as one with whole tensors.
pub fn joined(executable: Box<dyn Executable>) -> Box<dyn Executable> {
    let Some(plan) = executable.plan() else { return executable };
    if plan.given().chain(&plan.outputs).all(|port| port.whole.is_none()) {
        return executable;
    }
    let arguments = ranges(Port::tensors(&plan.inputs).chain(Port::tensors(&plan.weights)));
    let outputs = ranges(Port::tensors(&plan.outputs));
    Box::new(InParts { executable, arguments, outputs })
}

/// Returns the numbers of each tensor's ports.
fn ranges<'p>(tensors: impl Iterator<Item = &'p [Port]>) -> Vec<Range<usize>> {
    let mut first = 0;
    let range = |parts: &[Port]| {
        let range = first..first + parts.len();
        first = range.end;
        range
    };
    tensors.map(range).collect()
}

/// Shares weights between executables of one device; see [`Executable::share`]. Those that are in
/// other parts are copied.
pub fn share(
    mine: &mut dyn Executable,
    pairs: &[(usize, usize)],
    other: &dyn Executable,
) -> Result<(), Error> {
    let (mut shared, mut copied) = (Vec::with_capacity(pairs.len()), Vec::new());
    for &(number, theirs) in pairs {
        let missing = || Error::internal(format!("there is no weight {number} or {theirs}"));
        let (ports, other_ports) =
            ports(mine, number).zip(ports(other, theirs)).ok_or_else(missing)?;
        let is_same = |(one, two)| port_types(mine, one) == port_types(other, two);
        let mut both = ports.clone().zip(other_ports.clone());
        match ports.len() == other_ports.len() && both.all(is_same) {
            true => shared.extend(ports.zip(other_ports)),
            false => copied.push((number, theirs)),
        }
    }
    {
        let any: &dyn Any = other;
        let other = any.downcast_ref::<InParts>().map_or(other, |other| &*other.executable);
        let any: &mut dyn Any = mine;
        match any.downcast_mut::<InParts>() {
            Some(mine) => mine.executable.share(&shared, other)?,
            None => mine.share(&shared, other)?,
        }
    }
    for (number, theirs) in copied {
        let value = block_on(other.get(theirs))?;
        block_on(mine.set(number, &value))?;
    }
    Ok(())
}

/// Returns the ports of an input or weight.
fn ports(executable: &dyn Executable, number: usize) -> Option<Range<usize>> {
    let executable: &dyn Any = executable;
    match executable.downcast_ref::<InParts>() {
        Some(in_parts) => in_parts.arguments.get(number).cloned(),
        None => Some(number..number + 1),
    }
}

/// Returns the type of a port and that in which the device stores it, if the executable has a plan.
fn port_types(executable: &dyn Executable, number: usize) -> Option<(&TensorType, DType)> {
    let plan = executable.plan()?;
    let port = plan.given().nth(number)?;
    Some((&port.ty, plan.buffers[port.buffer].storage))
}

/// Returns a tensor from its parts, which it has one after the other, with its scales if it has
/// any.
pub fn join(mut parts: Vec<Tensor>, ty: &TensorType) -> Result<Tensor, Error> {
    if let [part] = &parts[..]
        && part.ty() == ty
    {
        return Ok(part.clone());
    }
    let no_memory = || Error::OutOfMemory { device: "cpu".into(), what: ty.to_string() };
    let is_quantized = ty.dtype == DType::F32 && parts[0].dtype() == DType::I8;
    let scales = if is_quantized { parts.pop() } else { None };
    let own = if is_quantized { DType::I8 } else { ty.dtype };
    let size = TensorType { dtype: own, ..ty.clone() }.checked_bytes().ok_or_else(no_memory)?;
    let mut bytes: Vec<u8> = with_room(size).ok_or_else(no_memory)?;
    for part in &parts {
        bytes.extend(&*to_storage(part, own).ok_or_else(no_memory)?);
    }
    if let Some(scales) = scales {
        bytes = widened(&bytes, scales.bytes(), &ty.shape, scales.shape()).ok_or_else(no_memory)?;
    }
    let missing = || Error::internal(format!("a part of {ty} is missing"));
    Tensor::from_bytes(ty.clone(), bytes).ok_or_else(missing)
}

/// Returns whole tensors from the parts of all, of as many ports as each range has.
fn join_all(
    parts: Vec<Tensor>,
    wholes: &[(Range<usize>, TensorType)],
) -> Result<Vec<Tensor>, Error> {
    let mut parts = parts.into_iter();
    wholes.iter().map(|(range, ty)| join(parts.by_ref().take(range.len()).collect(), ty)).collect()
}

impl InParts {
    fn parts_plan(&self) -> Result<&Plan, Error> {
        self.executable.plan().ok_or_else(|| Error::internal("a program in parts has no plan"))
    }

    /// Returns the ports of an output, and its type.
    fn whole_output(&self, number: usize) -> Result<(Range<usize>, TensorType), Error> {
        let missing = || Error::internal(format!("there is no output {number}"));
        let range = self.outputs.get(number).cloned().ok_or_else(missing)?;
        let (_, ty) = self.parts_plan()?.outputs[range.start].tensor();
        Ok((range, ty.clone()))
    }

    fn all_outputs(&self) -> Result<Vec<(Range<usize>, TensorType)>, Error> {
        (0..self.outputs.len()).map(|number| self.whole_output(number)).collect()
    }

    fn argument(&self, number: usize) -> Result<Range<usize>, Error> {
        let missing = || Error::internal(format!("there is no input or weight {number}"));
        self.arguments.get(number).cloned().ok_or_else(missing)
    }

    /// Returns the port of an output that the program has in the caller's form.
    fn own_output(&self, number: usize) -> Option<usize> {
        let port = self.outputs.get(number)?.start;
        self.executable.plan()?.outputs[port].whole.is_none().then_some(port)
    }

    /// Sets the values that the program has in another form, and returns the rest by their ports.
    async fn set_others<'v>(
        &mut self,
        values: &[(usize, &'v dyn Value)],
    ) -> Result<Vec<(usize, &'v dyn Value)>, Error> {
        let mut own = Vec::with_capacity(values.len());
        for &(number, value) in values {
            let port = self.argument(number)?.start;
            let given = self.parts_plan()?.given().nth(port);
            let is_own = given.is_some_and(|port| port.whole.is_none());
            match is_own {
                true => own.push((port, value)),
                false => self.set_parts(number, value).await?,
            }
        }
        Ok(own)
    }

    async fn set_parts(&mut self, number: usize, value: &dyn Value) -> Result<(), Error> {
        let range = self.argument(number)?;
        let missing = || Error::internal(format!("there is no input or weight {number}"));
        let ports: Vec<Port> =
            self.parts_plan()?.given().skip(range.start).take(range.len()).cloned().collect();
        if let [Port { whole: None, .. }] = &ports[..] {
            return self.executable.set(range.start, value).await;
        }
        let given = type_of(value);
        let unstorable = || Error::unstorable(&given, given.dtype);
        let mut bytes = to_storage(value, given.dtype).ok_or_else(unstorable)?;
        let (parts, scales) = Port::values_and_scales(&ports);
        let mut dtype = given.dtype;
        if let Some(Port { ty, .. }) = scales {
            let (values, scales) =
                quantized(&bytes, &given.shape, &ty.shape).ok_or_else(unstorable)?;
            self.executable.set(range.end - 1, &View { ty, bytes: &scales }).await?;
            (dtype, bytes) = (DType::I8, values.into());
        }
        let mut rest = &bytes[..];
        for (part, Port { ty, .. }) in range.zip(parts) {
            let own_ty = TensorType { dtype, ..ty.clone() };
            let (own, after) =
                rest.split_at_checked(ty.elements() * dtype.size()).ok_or_else(missing)?;
            let own = View { ty: &own_ty, bytes: own };
            let bytes = &rounded(&own, ty.dtype).ok_or_else(unstorable)?;
            self.executable.set(part, &View { ty, bytes }).await?;
            rest = after;
        }
        Ok(())
    }
}

impl Executable for InParts {
    fn ports(&self) -> Ports {
        self.executable.plan().map(Ports::of).unwrap_or_default()
    }

    fn plan(&self) -> Option<&Plan> {
        self.executable.plan()
    }

    fn set<'a>(&'a mut self, number: usize, value: &'a dyn Value) -> Pending<'a, ()> {
        Pending::Waiting(Box::pin(self.set_parts(number, value)))
    }

    fn get(&self, number: usize) -> Pending<'_, Tensor> {
        Pending::Waiting(Box::pin(async move {
            let range = self.argument(number)?;
            let missing = || Error::internal(format!("there is no input or weight {number}"));
            let port = self.parts_plan()?.given().nth(range.start).ok_or_else(missing)?;
            let ty = port.tensor().1.clone();
            let mut parts = Vec::with_capacity(range.len());
            for part in range {
                parts.push(self.executable.get(part).await?);
            }
            join(parts, &ty)
        }))
    }

    fn repeat(&mut self, runs: u32) -> Pending<'_, ()> {
        self.executable.repeat(runs)
    }

    fn output(&self, number: usize) -> Pending<'_, Tensor> {
        Pending::Waiting(Box::pin(async move {
            let (range, ty) = self.whole_output(number)?;
            let mut parts = Vec::with_capacity(range.len());
            for part in range {
                parts.push(self.executable.output(part).await?);
            }
            join(parts, &ty)
        }))
    }

    fn read(&self) -> Pending<'_, Vec<Tensor>> {
        Pending::Waiting(Box::pin(async move {
            join_all(self.executable.read().await?, &self.all_outputs()?)
        }))
    }

    fn run<'a>(&'a mut self, inputs: &'a [(usize, &'a dyn Value)]) -> Pending<'a, Vec<Tensor>> {
        Pending::Waiting(Box::pin(async move {
            let own = self.set_others(inputs).await?;
            join_all(self.executable.run(&own).await?, &self.all_outputs()?)
        }))
    }

    fn run_into(
        &mut self,
        inputs: &[(usize, &dyn Value)],
        outputs: &mut [(usize, &mut dyn Destination)],
    ) -> Result<(), Error> {
        let ports: Option<Vec<usize>> =
            outputs.iter().map(|(number, _)| self.own_output(*number)).collect();
        let Some(ports) = ports else {
            return fill_all(&block_on(self.run(inputs))?, outputs);
        };
        let own = block_on(self.set_others(inputs))?;
        let mut targets: Vec<(usize, &mut dyn Destination)> = Vec::with_capacity(ports.len());
        for (port, (_, target)) in ports.into_iter().zip(outputs) {
            targets.push((port, *target));
        }
        self.executable.run_into(&own, &mut targets)
    }

    fn view(&mut self, number: usize) -> Option<&[u8]> {
        let port = self.own_output(number)?;
        self.executable.view(port)
    }

    fn run_async(&mut self) -> Pending<'_, Vec<Tensor>> {
        Pending::Waiting(Box::pin(async move {
            let tensors = self.executable.run_async().await?;
            join_all(tensors, &self.all_outputs()?)
        }))
    }

    #[cfg(feature = "wgpu")]
    fn gpu(&mut self) -> Option<&mut crate::wgpu::GpuExecutable> {
        self.executable.gpu()
    }

    fn trace(&mut self) -> Pending<'_, Option<Trace>> {
        self.executable.trace()
    }

    fn time(&mut self, runs: u32) -> Pending<'_, f64> {
        self.executable.time(runs)
    }

    fn step<'a>(&'a mut self, watched: &'a [usize]) -> Pending<'a, Watched> {
        Pending::Waiting(Box::pin(async move {
            let ports: Vec<(Range<usize>, TensorType)> = watched
                .iter()
                .map(|&number| self.whole_output(number))
                .collect::<Result<_, _>>()?;
            let parts: Vec<usize> = ports.iter().flat_map(|(range, _)| range.clone()).collect();
            Ok(match self.executable.step(&parts).await? {
                Watched::Here(parts) => Watched::Here(join_all(parts, &ports)?),
                Watched::OnTheWay(parts) => {
                    Watched::OnTheWay(Box::new(PartsOnTheWay { parts, ports }))
                }
            })
        }))
    }

    fn adopt(&mut self) {
        self.executable.adopt();
    }

    fn attach(&mut self, store: &mut Store) -> Result<(), Error> {
        self.executable.attach(store)
    }

    fn detach(&mut self, store: &mut Store) -> Result<(), Error> {
        self.executable.detach(store)
    }
}

/// Parts of outputs in transfer to the host.
struct PartsOnTheWay {
    parts: Box<dyn Transfer>,
    ports: Vec<(Range<usize>, TensorType)>,
}

impl Transfer for PartsOnTheWay {
    fn finish(self: Box<Self>) -> Pending<'static, Vec<Tensor>> {
        Pending::Waiting(Box::pin(async move {
            let PartsOnTheWay { parts, ports } = *self;
            join_all(parts.finish().await?, &ports)
        }))
    }
}
