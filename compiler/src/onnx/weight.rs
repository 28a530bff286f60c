//! The memory that reading a file takes. A message is larger in memory than in the file, where an
//! empty one has two bytes.

use tile_lang::Budget;
use tile_lang::budget::Exceeded;

/// A kind of message. `Other` has no messages inside that are counted.
#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    Model,
    Graph,
    Node,
    Attribute,
    Function,
    Other,
}

impl Kind {
    /// Returns the kind of the message in a field. `None` for text or bytes.
    fn field(self, tag: u64) -> Option<Kind> {
        match (self, tag) {
            (Kind::Model, 7) | (Kind::Attribute, 6) => Some(Kind::Graph),
            (Kind::Model, 25) => Some(Kind::Function),
            (Kind::Graph, 1) | (Kind::Function, 7) => Some(Kind::Node),
            (Kind::Node, 5) | (Kind::Function, 11) => Some(Kind::Attribute),
            (Kind::Model, 8) | (Kind::Function, 9) => Some(Kind::Other),
            (Kind::Graph, 5 | 11 | 12 | 15) | (Kind::Attribute, 5 | 22) => Some(Kind::Other),
            _ => None,
        }
    }
}

/// The bytes of a message and of any other field in memory, and the maximum nesting of messages
/// that is read.
const MESSAGE_BYTES: u64 = 400;
const FIELD_BYTES: u64 = 40;
const MOST_LEVELS: u64 = 100;

/// Counts the memory for reading a message. Malformed input is left to the reader.
///
/// # Errors
/// If it exceeds the budget.
pub fn count(mut message: &[u8], kind: Kind, level: u64, budget: &Budget) -> Result<(), Exceeded> {
    while let Some((tag, field)) = next(&mut message) {
        match kind.field(tag) {
            Some(within) => {
                budget.take_bytes(MESSAGE_BYTES)?;
                // The nodes of a graph are visited once for each enclosing graph.
                budget.spend(4 + level)?;
                if within != Kind::Other && level < MOST_LEVELS {
                    count(field, within, level + 1, budget)?;
                }
            }
            None => budget.take_bytes(FIELD_BYTES)?,
        }
    }
    Ok(())
}

/// Takes the next field: its tag, and its bytes if it has a length.
fn next<'a>(message: &mut &'a [u8]) -> Option<(u64, &'a [u8])> {
    let key = varint(message)?;
    let length = match key & 7 {
        0 => {
            varint(message)?;
            0
        }
        1 => 8,
        2 => usize::try_from(varint(message)?).ok()?,
        5 => 4,
        _ => return None,
    };
    let (field, rest) = message.split_at_checked(length)?;
    *message = rest;
    Some((key >> 3, field))
}

fn varint(message: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = message.split_first()?;
        *message = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use tile_lang::Limits;

    use super::*;

    #[test]
    fn empty_messages_are_counted() {
        let nodes = [0x0a, 0].repeat(100);
        let graph = [&[0x3a, 200, 1][..], &nodes].concat();
        let budget = Budget::new(Limits::default());
        assert_eq!(count(&graph, Kind::Model, 0, &budget), Ok(()));
        assert_eq!(budget.taken(), 101 * MESSAGE_BYTES);
        let few = Budget::new(Limits { bytes: 1000, ..Limits::default() });
        assert!(count(&graph, Kind::Model, 0, &few).is_err());
    }

    #[test]
    fn what_is_malformed_is_passed_over() {
        let budget = Budget::new(Limits::default());
        for bytes in [&[0xff; 20][..], &[0x3a], &[0x3a, 9, 1], &[0x3b, 1]] {
            assert_eq!(count(bytes, Kind::Model, 0, &budget), Ok(()));
        }
    }
}
