//! The profile of this processor.

use super::memory::CACHES;
use tile_compiler::profile::{Processor, Profile};

/// Returns the profile of this processor. An `exact` one computes sums of products term by term.
pub fn profile(exact: bool) -> Profile {
    let processor = Processor {
        first_cache: CACHES.first,
        second_cache: CACHES.second,
        last_cache: CACHES.last,
    };
    Profile { processor, exact, ..Profile::cpu() }
}
