//! Marks the prelude's results that runs read as kept.

use super::draft::Draft;
use super::{Content, Loop};
use crate::dense::Dense;

/// Returns the draft with [`Content::Kept`] for these results.
pub(crate) fn keep(mut draft: Draft) -> Draft {
    let mut read = Dense::of(false, draft.buffers.len());
    draft.steps.iter().flat_map(|step| &step.operands).for_each(|&id| read[id] = true);
    let carries = Loop::all(&draft.loops).flat_map(|around| &around.carries);
    carries.for_each(|carry| read[carry.first] = true);
    for &id in draft.prelude.iter().flat_map(|step| &step.outputs) {
        if read[id] && matches!(draft.buffers[id].content, Content::Temporary { .. }) {
            draft.buffers[id].content = Content::Kept;
        }
    }
    draft
}
