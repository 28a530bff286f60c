//! The kernel checker: a test device that runs the same modules as the GPU and trusts nothing in
//! them.
//!
//! [`run`] interprets a compute entry point of a naga module, whole workgroups in lockstep: every
//! invocation executes a statement before any executes the next. It stops at the first fault: an
//! access out of bounds, a read of memory that was never written, a race between invocations or
//! between workgroups, a barrier or subgroup operation in divergent control flow, an integer
//! division by zero, or an endless loop. Whether something is a fault never depends on the order in
//! which lanes run.
//!
//! Expressions are evaluated at their `Emit`, as naga specifies. f32 is computed in f32, integers
//! wrap, and conversions and built-in functions follow WGSL. Variables without an initial value
//! start undefined, which is stricter than WGSL. `workgroupBarrier` orders workgroup memory only,
//! and `storageBarrier` orders storage only.

mod arithmetic;
mod atomic;
mod expression;
mod fault;
mod function;
mod layout;
mod line;
mod machine;
mod math;
mod matrix;
mod memory;
mod packing;
mod statement;
mod subgroup;
#[cfg(test)]
mod tests;
mod value;

use std::fmt;
use std::ops::Range;
use std::rc::Rc;

use naga::valid::{Capabilities, ModuleInfo, ValidationFlags, Validator};
use naga::{BuiltIn, Module};

pub use fault::{Access, Fault, Kind};
use fault::{Code, Result};
use machine::{Body, Machine};
use value::Column;

/// The options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Invocations per subgroup, 1 to 128.
    pub subgroup_size: u32,
    /// Whether subgroup operations may be reached by part of a subgroup.
    pub divergent_subgroups: bool,
    /// Whether workgroup memory starts as zero instead of undefined.
    pub zeroed_workgroup_memory: bool,
    /// The bindings whose buffers have no contents yet: reading what the kernel has not written is
    /// a fault.
    pub undefined: Vec<u32>,
    /// The contents of the immediate (push constant) variable.
    pub immediates: Vec<u8>,
    /// The most iterations that one execution of a loop may take.
    pub loop_limit: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            subgroup_size: 32,
            divergent_subgroups: false,
            zeroed_workgroup_memory: false,
            undefined: Vec::new(),
            immediates: Vec::new(),
            loop_limit: 1 << 20,
        }
    }
}

/// Bytes of an undefined buffer that the kernel has not written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unwritten {
    /// The binding of the buffer, in group 0.
    pub binding: u32,
    /// The range of the bytes.
    pub bytes: Range<usize>,
}

impl fmt::Display for Unwritten {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Range { start, end } = self.bytes;
        write!(f, "bytes {start} to {end} of binding {} are never written", self.binding)
    }
}

/// Runs `workgroups` workgroups of the compute entry point `entry_point` on the buffers of group 0,
/// by binding number. Returns the parts of `options.undefined` buffers that were never written.
///
/// # Errors
/// The first fault. The buffers then hold what was written before it. It is also a fault if naga's
/// validator rejects the module, if a buffer is missing or too small, or if the kernel uses a
/// construct that the checker does not interpret.
pub fn run(
    module: &Module,
    entry_point: &str,
    workgroups: [u32; 3],
    buffers: &mut [Vec<u8>],
    options: &Options,
) -> std::result::Result<Vec<Unwritten>, Box<Fault>> {
    let info = Validator::new(ValidationFlags::all(), Capabilities::all())
        .validate(module)
        .map_err(|error| Kind::Invalid(reasons(&error.into_inner())))?;
    let position = module.entry_points.iter().position(|candidate| candidate.name == entry_point);
    let index = position
        .ok_or_else(|| Kind::Invalid(format!("there is no entry point `{entry_point}`")))?;
    dispatch(module, &info, index, workgroups, buffers, options).map_err(|fault| {
        let mut fault = fault.in_function(Code::EntryPoint(index));
        fault.line = line::line(module, &info, &fault.site);
        fault
    })
}

fn dispatch(
    module: &Module,
    info: &ModuleInfo,
    index: usize,
    workgroups: [u32; 3],
    buffers: &mut [Vec<u8>],
    options: &Options,
) -> Result<Vec<Unwritten>> {
    let entry_point = &module.entry_points[index];
    if !(1..=128).contains(&options.subgroup_size) {
        return Err(
            Kind::Invalid(format!("subgroups of {} invocations", options.subgroup_size)).into()
        );
    }
    if entry_point.workgroup_size_overrides.is_some() {
        return Err(Kind::Unsupported("a workgroup size that is overridden".to_owned()).into());
    }
    let size = entry_point.workgroup_size;
    let lanes = size.iter().map(|&size| size as usize).product();
    let mut machine = Machine::new(module, info, options, lanes)?;
    let used = info.get_entry_point(index);
    let body = Rc::new(Body::new(module, &machine.layouts, &entry_point.function, used));
    let count = workgroups.map(|count| count as usize);
    let result = machine.bind(used, buffers).and_then(|()| {
        (0..count.iter().product()).try_for_each(|group| {
            let id = [group % count[0], group / count[0] % count[1], group / count[0] / count[1]];
            let inputs = |built_in| input(built_in, id, size, workgroups, options.subgroup_size);
            machine
                .workgroup(&body, entry_point, group, &inputs)
                .map_err(|fault| fault.in_workgroup(group, size, workgroups))
        })
    });
    let unwritten = machine.release(buffers);
    result.map(|()| unwritten)
}

/// Returns a built-in input of every invocation of a workgroup, or `None` if compute shaders have
/// no such input.
fn input(
    built_in: BuiltIn,
    id: [usize; 3],
    size: [u32; 3],
    count: [u32; 3],
    subgroup_size: u32,
) -> Option<Column> {
    let [width, height, depth] = size.map(|size| size as usize);
    let lanes = width * height * depth;
    let by_lane = |word: &dyn Fn(usize) -> usize| {
        let mut column = Column::zero(lanes, 1);
        column
            .component_mut(0)
            .iter_mut()
            .enumerate()
            .for_each(|(lane, slot)| *slot = word(lane) as u64);
        column
    };
    let local: [&dyn Fn(usize) -> usize; 3] =
        [&|lane| lane % width, &|lane| lane / width % height, &|lane| lane / width / height];
    let subgroup_size = subgroup_size as usize;
    let number = |number: usize| Column::splat(lanes, &[number as u64]);
    let vector = |vector: [usize; 3]| Column::splat(lanes, &vector.map(|part| part as u64));
    Some(match built_in {
        BuiltIn::LocalInvocationId => Column::concatenate(lanes, local.map(by_lane).iter()),
        BuiltIn::GlobalInvocationId => {
            let part =
                |axis: usize| by_lane(&|lane| id[axis] * size[axis] as usize + local[axis](lane));
            Column::concatenate(lanes, [part(0), part(1), part(2)].iter())
        }
        BuiltIn::LocalInvocationIndex => by_lane(&|lane| lane),
        BuiltIn::WorkGroupId => vector(id),
        BuiltIn::WorkGroupSize => vector([width, height, depth]),
        BuiltIn::NumWorkGroups => vector(count.map(|count| count as usize)),
        BuiltIn::SubgroupSize => number(subgroup_size),
        BuiltIn::NumSubgroups => number(lanes.div_ceil(subgroup_size)),
        BuiltIn::SubgroupId => by_lane(&|lane| lane / subgroup_size),
        BuiltIn::SubgroupInvocationId => by_lane(&|lane| lane % subgroup_size),
        _ => return None,
    })
}

/// Returns an error and its causes, in one line.
fn reasons(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
