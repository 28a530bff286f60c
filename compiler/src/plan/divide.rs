//! Divides steps whose reductions are too long for their places ([`crate::schedule::divide`]).

use crate::schedule::{self, Divided};

use super::draft::{Draft, DraftStep};
use super::{BufferId, Content, Loop, PlanError, Work};

/// Replaces each step that is worth it by two: one aggregates parts of the reduction, the other the
/// parts.
pub(crate) fn divide(mut draft: Draft) -> Result<Draft, PlanError> {
    let (prelude, steps) = (std::mem::take(&mut draft.prelude), std::mem::take(&mut draft.steps));
    for step in prelude {
        let steps = draft.divided(step)?;
        draft.prelude.extend(steps);
    }
    // The new number of each step.
    let mut numbers = Vec::with_capacity(steps.len() + 1);
    for step in steps {
        numbers.push(draft.steps.len());
        let steps = draft.divided(step)?;
        draft.steps.extend(steps);
    }
    numbers.push(draft.steps.len());
    draft.loops.iter_mut().for_each(|around| renumber(around, &numbers));
    Ok(draft)
}

impl<'g> Draft<'g> {
    /// Returns the steps that take the place of a step.
    fn divided(&mut self, step: DraftStep<'g>) -> Result<Vec<DraftStep<'g>>, PlanError> {
        let divided = match &step.work {
            Work::Nest(nest) => schedule::divide(nest, self.profile),
            Work::PrngValue { .. } | Work::PrngState { .. } => None,
        };
        let Some(Divided { first, first_operands, second, second_operands, parts }) = divided
        else {
            return Ok(vec![step]);
        };
        let buffer = self.add_buffer(step.source, &parts, Content::passing(&parts))?;
        let operands = |numbers: Vec<usize>| {
            numbers.into_iter().map(|number| step.operands[number]).collect::<Vec<BufferId>>()
        };
        let aggregates_parts = DraftStep {
            values: vec![self.value_names.unique(&format!("{}.parts", step.source.name()))],
            fused: step.fused.clone(),
            routine: first.name.clone(),
            work: Work::Nest(Box::new(first)),
            operands: operands(first_operands),
            outputs: vec![buffer],
            source: step.source,
        };
        let operands = [operands(second_operands), vec![buffer]].concat();
        Ok(vec![
            aggregates_parts,
            DraftStep { work: Work::Nest(Box::new(second)), operands, ..step },
        ])
    }
}

/// Moves the steps of a loop to their new numbers.
pub(super) fn renumber(around: &mut Loop, numbers: &[usize]) {
    around.steps = numbers[around.steps.start]..numbers[around.steps.end];
    around.loops.iter_mut().for_each(|inner| renumber(inner, numbers));
}
