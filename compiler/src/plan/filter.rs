//! Splits convolutions that take fewer multiplications in other terms
//! ([`crate::schedule::winograd`]).

use crate::dense::Dense;
use crate::nest::Nest;
use crate::schedule::{self, Filtered};

use super::divide::renumber;
use super::draft::{Draft, DraftStep};
use super::{BufferId, Content, PlanError, Work};

/// Replaces each step that is worth it by three or four. The transform of a kernel that no run
/// changes goes to the prelude. `updates` says that runs change weights.
pub(crate) fn filter(mut draft: Draft, updates: bool) -> Result<Draft, PlanError> {
    let mut is_kept: Dense<BufferId, bool> = draft
        .buffers
        .iter()
        .map(|buffer| match buffer.content {
            Content::Weight => !updates,
            Content::Constant(_) => true,
            _ => false,
        })
        .collect();
    let written: Vec<BufferId> =
        draft.prelude.iter().flat_map(|step| &step.outputs).copied().collect();
    written.into_iter().for_each(|id| is_kept[id] = !updates);
    let steps = std::mem::take(&mut draft.steps);
    // The new number of each step.
    let mut numbers = Vec::with_capacity(steps.len() + 1);
    for step in steps {
        numbers.push(draft.steps.len());
        draft.add_filtered(step, &is_kept)?;
    }
    numbers.push(draft.steps.len());
    draft.loops.iter_mut().for_each(|around| renumber(around, &numbers));
    Ok(draft)
}

impl<'g> Draft<'g> {
    /// Adds the steps that take the place of a step.
    fn add_filtered(
        &mut self,
        step: DraftStep<'g>,
        is_kept: &Dense<BufferId, bool>,
    ) -> Result<(), PlanError> {
        let is_kept = |operand: usize| is_kept[step.operands[operand]];
        let filtered = match &step.work {
            Work::Nest(nest) => schedule::winograd(nest, self.profile, &is_kept),
            Work::PrngValue { .. } | Work::PrngState { .. } => None,
        };
        let Some(filtered) = filtered else {
            self.steps.push(step);
            return Ok(());
        };
        let Filtered { kernel, image, product, result, .. } = filtered;
        let [points_of_kernel, points_of_image, points] = [&kernel, &image, &product]
            .map(|nest| nest.outputs[0].ty.clone())
            .map(|ty| self.add_buffer(step.source, &ty, Content::passing(&ty)));
        let (points_of_kernel, points_of_image, points) =
            (points_of_kernel?, points_of_image?, points?);
        let mut part = |name: &str, nest: Nest, operands: Vec<BufferId>, output: BufferId| {
            let value = format!("{}.{name}", step.source.name());
            DraftStep {
                values: vec![self.value_names.unique(&value)],
                fused: step.fused.clone(),
                routine: nest.name.clone(),
                work: Work::Nest(Box::new(nest)),
                operands,
                outputs: vec![output],
                source: step.source,
            }
        };
        let [of_kernel, of_image] =
            [filtered.kernel_operand, filtered.image_operand].map(|n| vec![step.operands[n]]);
        let kernel = part("kernel", kernel, of_kernel, points_of_kernel);
        let image = part("image", image, of_image, points_of_image);
        let product = part("points", product, vec![points_of_image, points_of_kernel], points);
        match is_kept(filtered.kernel_operand) {
            true => self.prelude.push(kernel),
            false => self.steps.push(kernel),
        }
        let operands = filtered.result_operands.iter().map(|&number| step.operands[number]);
        let operands = operands.chain([points]).collect();
        self.steps.extend([image, product]);
        self.steps.push(DraftStep { work: Work::Nest(Box::new(result)), operands, ..step });
        Ok(())
    }
}
