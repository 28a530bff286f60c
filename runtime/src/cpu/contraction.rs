//! Nests that are products of two operands, run by the packed matrix product.
use super::loops::Job;
/// Runs the job if it is such a product.
pub fn run(_job: &Job) -> bool {
    false
}
