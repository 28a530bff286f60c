//! A plan's launches under the kernel checker, which also checks that exactly the elements of an
//! output are written that the nest specifies.

use std::fmt::Display;

use naga::Module;
use tile_compiler::dense::Dense;
use tile_compiler::emit;
use tile_compiler::nest::{Nest, Output};
use tile_compiler::plan::{Launch, Plan, RoutineId, Work};

use crate::backend::kernel;
use crate::check::{self, Unwritten};
use crate::error::Error;
use crate::host::RunMemory;

/// Bytes of a word in memory.
const WORD: usize = 4;

/// The modules of a plan's kernels, by routine.
pub type Modules = Dense<RoutineId, Module>;

/// Emits the modules of a plan's kernels.
pub fn modules(plan: &Plan) -> Result<Modules, Error> {
    plan.routines.iter().map(|routine| emit::module(kernel(routine)?).map_err(Error::bug)).collect()
}

/// Runs a launch's kernel. `modules` are the plan's.
pub fn run(
    plan: &Plan,
    modules: &Modules,
    launch: &Launch,
    memory: &mut RunMemory,
) -> Result<(), Error> {
    let routine = &plan.routines[launch.step.routine];
    let kernel = kernel(routine)?;
    let module = &modules[launch.step.routine];
    let fault = |what: &dyn Display| Error::internal(format!("kernel {}: {what}", kernel.name));
    let bindings = routine.bound(launch.operands, launch.outputs);
    let mut buffers: Vec<Vec<u8>> = bindings.iter().map(|&id| memory.bytes(id).to_vec()).collect();
    if let Work::Nest(nest) = &routine.work {
        // The last word of bytes is whole in a GPU's memory.
        nest.in_bytes.iter().for_each(|&operand| {
            let length = buffers[operand].len().next_multiple_of(WORD);
            buffers[operand].resize(length, 0);
        });
    }
    let undefined = (launch.operands.len()..buffers.len()).map(|binding| binding as u32).collect();
    buffers.extend(
        kernel
            .steps
            .iter()
            .zip(launch.turns)
            .map(|(_, &turn)| (turn as u32).to_le_bytes().to_vec()),
    );
    let options = check::Options { undefined, ..check::Options::default() };
    let unwritten = check::run(module, &kernel.name, kernel.grid, &mut buffers, &options)
        .map_err(|f| fault(&f))?;
    let mut own = launch.operands.len()..;
    for (number, &id) in launch.outputs.iter().enumerate() {
        let over = routine.over(number);
        let Some(binding) = over.or_else(|| own.next()) else { continue };
        let parts: Vec<&Unwritten> =
            unwritten.iter().filter(|part| part.binding as usize == binding).collect();
        match &routine.work {
            Work::Nest(nest) if nest.loops > 0 => {
                let bytes = buffers[binding].len();
                let mut written = vec![true; bytes];
                parts.iter().for_each(|part| written[part.bytes.clone()].fill(false));
                let size = bytes / nest.outputs[number].ty.elements().max(1);
                let wanted = written_at(nest, number, launch.turns);
                if let Some(element) = (0..wanted.len()).find(|&e| written[e * size] != wanted[e]) {
                    let does = if wanted[element] { "does not write" } else { "writes" };
                    let turns = launch.turns;
                    return Err(fault(&format!(
                        "it {does} element {element} of output {number} at turns {turns:?}"
                    )));
                }
            }
            _ => {
                if let Some(part) = parts.first() {
                    return Err(fault(part));
                }
            }
        }
        memory.bytes_mut(id).copy_from_slice(&buffers[binding]);
    }
    Ok(())
}

/// Returns for each element of an output whether the nest writes it in these iterations of the
/// loops.
fn written_at(nest: &Nest, output: usize, turns: &[usize]) -> Vec<bool> {
    let Output { ty, position, .. } = &nest.outputs[output];
    let mut written = vec![false; ty.elements()];
    for place in 0..nest.places() {
        let mut point = vec![0; nest.axes.len()];
        let mut rest = place;
        for axis in (0..nest.free).rev() {
            point[axis] = (rest % nest.axes[axis].extent) as i64;
            rest /= nest.axes[axis].extent;
        }
        nest.loops().zip(turns).for_each(|(variable, &turn)| point[variable] = turn as i64);
        for derived in &nest.derived {
            point.push(
                derived.numerator.evaluate(&point).unwrap_or(0).div_euclid(derived.denominator),
            );
        }
        let element = position.evaluate(&point).and_then(|position| usize::try_from(position).ok());
        if let Some(written) = element.and_then(|element| written.get_mut(element)) {
            *written = true;
        }
    }
    written
}
