//! Splits convolutions into the nests of Winograd's minimal filtering
//! ([`crate::schedule::winograd`]).

use crate::dense::Dense;
use crate::nest::Nest;
use crate::schedule::{self, Filtered};

use super::divide::renumber;
use super::draft::{Draft, DraftStep};
use super::routines::kept;
use super::{BufferId, Content, PlanError, Work};

/// Replaces each convolution that is faster this way by the steps of three or four nests. The
/// transform of a kernel that no run changes goes to the prelude.
pub(crate) fn filter(mut draft: Draft) -> Result<Draft, PlanError> {
    let mut is_kept = kept(&draft.buffers, &draft.weights, &draft.updates);
    let prelude = draft.prelude.iter().flat_map(|step| &step.outputs);
    prelude.for_each(|&id| is_kept[id] = true);
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
        let budget = &self.graph.budget;
        let filtered = match &step.work {
            Work::Nest(nest) => schedule::winograd(nest, self.profile, budget, &is_kept),
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
        let operand = |number: usize| vec![step.operands[number]];
        let kernel = part("kernel", kernel, operand(filtered.kernel_operand), points_of_kernel);
        let image = part("image", image, operand(filtered.image_operand), points_of_image);
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
