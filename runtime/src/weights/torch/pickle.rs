//! Reads the pickles that `torch.save` writes, and runs no code.
//!
//! A pickle is a program for a stack machine. This machine knows the operations that `torch.save`
//! emits, and the few names in [`Global`]. Any other name is an error, so nothing is imported or
//! called. Values refer to each other by number in one arena: a value that contains itself is
//! harmless, and no value is copied or dropped recursively.
//!
//! Format: the comments of `pickletools.py` in Python's library.

use std::collections::HashMap;

use super::value::{Global, Id, NO_CODE, Storage, Value, View};
use crate::files::Allowance;

/// The maximum number of containers that are open at once.
const MOST_MARKS: usize = 1000;

/// The bytes of memory that a value, and an entry of the memo, are counted as.
const VALUE_BYTES: u64 = 80;
const MEMO_BYTES: u64 = 32;

/// The values of a pickle.
pub struct Pickle<'p> {
    pub values: Vec<Value<'p>>,
    pub root: Id,
}

/// Reads a pickle.
///
/// # Errors
/// Returns a sentence if the pickle is damaged, has an operation or a name that no state_dict
/// needs, or takes more memory than `allowance` has.
pub fn read<'p>(bytes: &'p [u8], allowance: &mut Allowance) -> Result<Pickle<'p>, String> {
    let mut machine = Machine {
        bytes,
        values: Vec::new(),
        stack: Vec::new(),
        marks: Vec::new(),
        memo: HashMap::new(),
        allowance,
    };
    loop {
        let operation = machine.byte()?;
        if operation == b'.' {
            let root = machine.pop()?;
            return Ok(Pickle { values: machine.values, root });
        }
        machine.step(operation)?;
    }
}

struct Machine<'p, 'a> {
    /// The rest of the pickle.
    bytes: &'p [u8],
    values: Vec<Value<'p>>,
    stack: Vec<Id>,
    /// The length of the stack at each mark.
    marks: Vec<usize>,
    memo: HashMap<u32, Id>,
    allowance: &'a mut Allowance,
}

impl<'p> Machine<'p, '_> {
    /// Executes one operation.
    fn step(&mut self, operation: u8) -> Result<(), String> {
        match operation {
            0x80 => self.skip(1),                  // PROTO
            0x95 => self.skip(8),                  // FRAME
            b'(' => self.mark(),                   // MARK
            b'0' => self.pop().map(|_| ()),        // POP
            b'1' => self.pop_mark().map(|_| ()),   // POP_MARK
            b'N' => self.push(Value::Plain),       // NONE
            0x88 => self.push(Value::Bool(true)),  // NEWTRUE
            0x89 => self.push(Value::Bool(false)), // NEWFALSE
            b'K' | b'M' | b'J' | 0x8a | 0x8b => self.integer(operation),
            b'X' | 0x8c | 0x8d | b'T' | b'U' => self.text(operation),
            b'G' => self.plain_bytes(8),                 // BINFLOAT
            b'B' => self.plain(4),                       // BINBYTES
            b'C' => self.plain(1),                       // SHORT_BINBYTES
            0x8e | 0x96 => self.plain(8),                // BINBYTES8, BYTEARRAY8
            0x8f => self.push(Value::Plain),             // EMPTY_SET
            b']' => self.push(Value::List(Vec::new())),  // EMPTY_LIST
            b')' => self.push(Value::Tuple(Vec::new())), // EMPTY_TUPLE
            b'}' => self.push(Value::Dict(Vec::new())),  // EMPTY_DICT
            0x85..=0x87 => self.tuple(usize::from(operation - 0x84)),
            b't' | b'l' | b'd' | b'a' | b'e' | b's' | b'u' | 0x90 | 0x91 => {
                self.container(operation)
            }
            b'h' | b'j' | b'q' | b'r' | 0x94 => self.memo(operation),
            b'c' | 0x93 => self.global(operation),
            b'R' | 0x81 => self.call(), // REDUCE, NEWOBJ
            b'b' => self.build(),
            b'Q' => self.persistent(), // BINPERSID
            _ => Err(format!(
                "it has the operation {operation:#04x}, which `torch.save` does not write; {NO_CODE}"
            )),
        }
    }

    fn byte(&mut self) -> Result<u8, String> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn take(&mut self, count: usize) -> Result<&'p [u8], String> {
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or("it ends too early")?;
        self.bytes = rest;
        Ok(taken)
    }

    fn skip(&mut self, count: usize) -> Result<(), String> {
        self.take(count).map(|_| ())
    }

    /// Reads an unsigned integer of `width` bytes, at most 8.
    fn unsigned(&mut self, width: usize) -> Result<u64, String> {
        let mut bytes = [0; 8];
        bytes[..width].copy_from_slice(self.take(width)?);
        Ok(u64::from_le_bytes(bytes))
    }

    /// Reads bytes after their count, an integer of `width` bytes.
    fn counted(&mut self, width: usize) -> Result<&'p [u8], String> {
        let count = self.unsigned(width)?;
        self.take(usize::try_from(count).unwrap_or(usize::MAX))
    }

    fn push(&mut self, value: Value<'p>) -> Result<(), String> {
        self.allowance.take(VALUE_BYTES).map_err(|error| error.to_string())?;
        let id = Id::try_from(self.values.len()).map_err(|_| "it has too many values")?;
        self.values.push(value);
        self.stack.push(id);
        Ok(())
    }

    fn pop(&mut self) -> Result<Id, String> {
        let bottom = self.marks.last().copied().unwrap_or(0);
        match self.stack.len() > bottom {
            true => self.stack.pop().ok_or_else(|| EMPTY.to_owned()),
            false => Err(EMPTY.to_owned()),
        }
    }

    /// Returns the number of the value on top of the stack.
    fn top(&self) -> Result<Id, String> {
        self.stack.last().copied().ok_or_else(|| EMPTY.to_owned())
    }

    fn value(&self, id: Id) -> &Value<'p> {
        &self.values[id as usize]
    }

    fn mark(&mut self) -> Result<(), String> {
        if self.marks.len() == MOST_MARKS {
            return Err(format!("its values are nested more than {MOST_MARKS} deep"));
        }
        self.marks.push(self.stack.len());
        Ok(())
    }

    /// Pops the values above the last mark.
    fn pop_mark(&mut self) -> Result<Vec<Id>, String> {
        let mark = self.marks.pop().ok_or(EMPTY)?;
        Ok(self.stack.split_off(mark.min(self.stack.len())))
    }

    /// Reads the value of BININT1, BININT2, BININT, LONG1 and LONG4. An integer of over 64 bits
    /// belongs to no tensor.
    fn integer(&mut self, operation: u8) -> Result<(), String> {
        let value = match operation {
            b'K' => self.unsigned(1)? as i64,
            b'M' => self.unsigned(2)? as i64,
            b'J' => i64::from(self.unsigned(4)? as u32 as i32),
            _ => {
                let bytes = self.counted(if operation == 0x8a { 1 } else { 4 })?;
                if bytes.len() > 8 {
                    return self.push(Value::Plain);
                }
                let is_negative = bytes.last().is_some_and(|last| *last >= 0x80);
                let mut wide = [if is_negative { 0xff } else { 0 }; 8];
                wide[..bytes.len()].copy_from_slice(bytes);
                i64::from_le_bytes(wide)
            }
        };
        self.push(Value::Integer(value))
    }

    /// Reads the value of BINUNICODE, SHORT_BINUNICODE, BINUNICODE8, BINSTRING and SHORT_BINSTRING.
    fn text(&mut self, operation: u8) -> Result<(), String> {
        let bytes = self.counted(match operation {
            0x8c | b'U' => 1,
            0x8d => 8,
            _ => 4,
        })?;
        let text = std::str::from_utf8(bytes).map_err(|_| "it has a text that is not UTF-8")?;
        self.push(Value::Text(text))
    }

    /// Skips bytes that no tensor needs, after their count.
    fn plain(&mut self, width: usize) -> Result<(), String> {
        self.counted(width)?;
        self.push(Value::Plain)
    }

    fn plain_bytes(&mut self, count: usize) -> Result<(), String> {
        self.skip(count)?;
        self.push(Value::Plain)
    }

    /// Makes a tuple of the last `count` values.
    fn tuple(&mut self, count: usize) -> Result<(), String> {
        let bottom = self.marks.last().copied().unwrap_or(0);
        let start =
            self.stack.len().checked_sub(count).filter(|start| *start >= bottom).ok_or(EMPTY)?;
        let items = self.stack.split_off(start);
        self.push(Value::Tuple(items))
    }

    /// Executes TUPLE, LIST, DICT, APPEND, APPENDS, SETITEM, SETITEMS, ADDITEMS and FROZENSET.
    fn container(&mut self, operation: u8) -> Result<(), String> {
        let items = match operation {
            b'a' => vec![self.pop()?],
            b's' => {
                let value = self.pop()?;
                vec![self.pop()?, value]
            }
            _ => self.pop_mark()?,
        };
        match operation {
            b't' => return self.push(Value::Tuple(items)),
            b'l' => return self.push(Value::List(items)),
            b'd' => return self.push(Value::Dict(pairs(&items)?)),
            0x91 => return self.push(Value::Plain),
            _ => {}
        }
        let top = self.top()?;
        match (&mut self.values[top as usize], operation) {
            (Value::List(list), b'a' | b'e') => list.extend(items),
            (Value::Dict(dict), b's' | b'u') => dict.extend(pairs(&items)?),
            (Value::Plain, _) => {}
            _ => return Err("it adds items to a value that is no list and no dict".into()),
        }
        Ok(())
    }

    /// Executes BINGET, LONG_BINGET, BINPUT, LONG_BINPUT and MEMOIZE.
    fn memo(&mut self, operation: u8) -> Result<(), String> {
        let key = match operation {
            b'h' | b'q' => self.unsigned(1)? as u32,
            b'j' | b'r' => self.unsigned(4)? as u32,
            _ => self.memo.len() as u32,
        };
        if matches!(operation, b'h' | b'j') {
            let id = *self.memo.get(&key).ok_or_else(|| format!("it has no value {key}"))?;
            self.stack.push(id);
            return Ok(());
        }
        self.allowance.take(MEMO_BYTES).map_err(|error| error.to_string())?;
        let top = self.top()?;
        self.memo.insert(key, top);
        Ok(())
    }

    /// Reads a line without its end.
    fn line(&mut self) -> Result<&'p str, String> {
        let end = self.bytes.iter().position(|byte| *byte == b'\n').ok_or("it ends too early")?;
        let line = self.take(end)?;
        self.skip(1)?;
        std::str::from_utf8(line).map_err(|_| "it has a name that is not UTF-8".to_owned())
    }

    /// Executes GLOBAL and STACK_GLOBAL.
    fn global(&mut self, operation: u8) -> Result<(), String> {
        let (module, name) = if operation == b'c' {
            (self.line()?, self.line()?)
        } else {
            let (name, module) = (self.pop()?, self.pop()?);
            match (self.value(module), self.value(name)) {
                (Value::Text(module), Value::Text(name)) => (*module, *name),
                _ => return Err("it has a name that is no text".into()),
            }
        };
        self.push(Value::Global(Global::find(module, name)?))
    }

    /// Executes REDUCE and NEWOBJ: makes a value of a name and a tuple.
    fn call(&mut self) -> Result<(), String> {
        let (arguments, function) = (self.pop()?, self.pop()?);
        match self.made(function, arguments)? {
            Made::New(value) => self.push(value),
            Made::Known(id) => {
                self.stack.push(id);
                Ok(())
            }
        }
    }

    fn made(&self, function: Id, arguments: Id) -> Result<Made<'p>, String> {
        let (Value::Global(function), Value::Tuple(arguments)) =
            (self.value(function), self.value(arguments))
        else {
            return Err(CALL.into());
        };
        let (mut function, mut arguments) = (*function, arguments);
        if let (Global::Subclass, [inner, _, tuple, ..]) = (function, &arguments[..]) {
            // A tensor with attributes: its constructor, class, arguments and attributes.
            match (self.value(*inner), self.value(*tuple)) {
                (Value::Global(inner), Value::Tuple(tuple)) => {
                    (function, arguments) = (*inner, tuple)
                }
                _ => return Err(CALL.into()),
            }
        }
        match (function, arguments.first()) {
            (Global::Dict, None) => Ok(Made::New(Value::Dict(Vec::new()))),
            (Global::Plain, _) => Ok(Made::New(Value::Plain)),
            (Global::Tensor, _) => {
                Ok(Made::New(Value::Tensor(Box::new(View::new(arguments, &self.values)?))))
            }
            (Global::Parameter, Some(tensor)) => Ok(Made::Known(*tensor)),
            _ => Err(CALL.into()),
        }
    }

    /// Executes BUILD, which sets attributes. None of them belongs to a tensor.
    fn build(&mut self) -> Result<(), String> {
        self.pop()?;
        match self.value(self.top()?) {
            Value::Dict(_) | Value::Plain | Value::Tensor(_) => Ok(()),
            _ => Err("it sets attributes of a value that has none".into()),
        }
    }

    /// Executes BINPERSID: makes a storage of a tuple.
    fn persistent(&mut self) -> Result<(), String> {
        let id = self.pop()?;
        let storage = match self.value(id) {
            Value::Tuple(parts) => Storage::new(parts, &self.values)?,
            _ => return Err("it has a storage without a description".into()),
        };
        self.push(Value::Storage(storage))
    }
}

/// The result of a call.
enum Made<'p> {
    New(Value<'p>),
    Known(Id),
}

const EMPTY: &str = "it takes a value from an empty stack";

const CALL: &str = "it has a call that `torch.save` does not write";

/// Pairs keys with their values.
fn pairs(items: &[Id]) -> Result<Vec<(Id, Id)>, String> {
    match items.as_chunks() {
        (pairs, []) => Ok(pairs.iter().map(|&[key, value]| (key, value)).collect()),
        _ => Err("it has a key without a value".into()),
    }
}
