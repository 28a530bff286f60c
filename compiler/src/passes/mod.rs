//! Graph passes, one in each file. Their order is in [`crate::pipeline`].

mod bytes;
mod dead;
mod exchange;
mod fold;
mod hoist;
mod integers;
mod join;
mod layout;
mod narrow;
mod partition;
mod quantized;
mod rank;
mod running;
mod separate;
mod settle;
mod share;
mod steady;
mod storage;
mod stretch;
#[cfg(test)]
mod testing;
mod weights;
mod widen;

pub use bytes::bytes;
pub use dead::dead;
pub use exchange::exchange;
pub use fold::fold;
pub use hoist::hoist;
pub use integers::integers;
pub use join::join;
pub use layout::layout;
pub use narrow::narrow;
pub(crate) use partition::{Wholes, partition};
pub use quantized::quantized;
pub use rank::rank;
pub use running::running;
pub use separate::separate;
pub use settle::settle;
pub use share::share;
pub(crate) use storage::store_as;
pub use stretch::stretch;
pub(crate) use weights::quantize_weights;
pub use widen::widen;
