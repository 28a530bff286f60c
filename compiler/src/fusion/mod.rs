//! Divides a graph into groups of nodes, each of which becomes one loop nest.
//!
//! [`fuse`](fuse()) makes the first groups: nodes that are computed where they are read, and do not
//! pass through memory. Products then absorb the products that they read ([`attend`]), groups that
//! read each other elementwise or row by row are merged ([`merge`](merge())), and products are
//! merged with the statistics of their rows ([`finish_rows`]).

mod attention;
mod fuse;
mod group;
mod links;
mod merge;
mod prelude;

pub use attention::attend;
pub use fuse::fuse;
pub use group::{Group, Groups, Time};
pub use merge::{finish_rows, merge};
