//! Divides a graph into groups of nodes, each of which becomes one loop nest.
//!
//! [`fuse`](fuse()) makes the first groups: nodes that are computed where they are read, and do not
//! pass through memory. Products then absorb the products that they read ([`attention`]), and
//! groups that read each other elementwise or row by row are merged ([`merge`]). [`prelude`] finds
//! the nodes that are computed once for many runs.

mod attention;
mod fuse;
mod group;
mod merge;
mod prelude;

pub use fuse::fuse;
pub use group::{Group, Time};
