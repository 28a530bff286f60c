//! The values of expressions in a program that is read as a Keras model.

use serde_json::{Number, Value};
use tile_lang::ast::BinaryOp;

use super::config::Source;

/// The value of an expression.
#[derive(Clone)]
pub enum Item {
    Tensor(Source),
    /// The results of a call that has several.
    Results(usize),
    List(Vec<Item>),
    /// The layer with this index.
    Layer(usize),
    Value(Value),
}

/// Returns the number of values in a value.
pub fn value_size(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(value_size).sum(),
        Value::Object(items) => items.values().map(value_size).sum(),
        _ => 0,
    }
}

/// Returns the number of items in an item.
pub fn item_size(item: &Item) -> usize {
    match item {
        Item::List(items) => 1 + items.iter().map(item_size).sum::<usize>(),
        Item::Value(value) => value_size(value),
        Item::Tensor(_) | Item::Results(_) | Item::Layer(_) => 1,
    }
}

/// Computes an operation on numbers as the language does: integers stay integers.
pub fn computed(op: BinaryOp, left: &Item, right: &Item) -> Option<Item> {
    let (Item::Value(Value::Number(left)), Item::Value(Value::Number(right))) = (left, right)
    else {
        return None;
    };
    let number = match (left.as_i64(), right.as_i64()) {
        (Some(left), Some(right)) => Number::from(match op {
            BinaryOp::Add => left.checked_add(right),
            BinaryOp::Sub => left.checked_sub(right),
            BinaryOp::Mul => left.checked_mul(right),
            BinaryOp::Div => left.checked_div(right),
            _ => None,
        }?),
        _ => {
            let (left, right) = (left.as_f64()?, right.as_f64()?);
            Number::from_f64(match op {
                BinaryOp::Add => left + right,
                BinaryOp::Sub => left - right,
                BinaryOp::Mul => left * right,
                BinaryOp::Div => left / right,
                _ => return None,
            })?
        }
    };
    Some(Item::Value(Value::Number(number)))
}
