//! Disassembles SPIR-V for readers: one instruction a line, in the format of SPIR-V's own tools.
//!
//! It knows the operand kinds of the instructions that kernels use. All operands of other
//! instructions print as ids.

use std::collections::{HashMap, HashSet};
use std::fmt::{Debug, Write};

use spirv::{BuiltIn, Capability, Decoration, ExecutionMode, GlslStd450Op, Op, StorageClass};

/// Returns the words of a module as text. For invalid words, it returns the part that is readable.
pub(super) fn disassemble(words: &[u32]) -> String {
    let names = names(words);
    let mut text = String::new();
    if let [_, version, _, bound, ..] = words {
        let _ = writeln!(
            text,
            "; SPIR-V {}.{}, ids below {bound}",
            version >> 16 & 255,
            version >> 8 & 255
        );
    }
    for (op, operands) in instructions(words) {
        let (has_type, has_result, form) = shape(op);
        let mut operands = operands.iter().copied();
        let ty = if has_type { operands.next() } else { None };
        let result = if has_result { operands.next() } else { None };
        if let Some(id) = result {
            let _ = write!(text, "{} = ", id_name(&names, id));
        }
        let _ = write!(text, "Op{op:?}");
        if let Some(id) = ty {
            let _ = write!(text, " {}", id_name(&names, id));
        }
        let mut form = form.chars();
        let mut last = 'i';
        while let Some(word) = operands.next() {
            last = form.next().unwrap_or(last);
            let operand = match last {
                'n' => word.to_string(),
                'x' => format!("{word:#010x}"),
                's' => string(word, &mut operands),
                'c' => named(StorageClass::from_u32(word), word),
                'p' => named(Capability::from_u32(word), word),
                'd' => named(Decoration::from_u32(word), word),
                'b' => named(BuiltIn::from_u32(word), word),
                'e' => named(ExecutionMode::from_u32(word), word),
                'g' => named(GlslStd450Op::from_u32(word), word),
                _ => id_name(&names, word),
            };
            let _ = write!(text, " {operand}");
            // The extra operand of a decoration is a number, or the name of a built-in value.
            if last == 'd' {
                form = if word == Decoration::BuiltIn as u32 { "b" } else { "n" }.chars();
            }
        }
        text.push('\n');
    }
    text
}

/// Returns the instructions with their operands, up to the first invalid one.
fn instructions(words: &[u32]) -> impl Iterator<Item = (Op, &[u32])> {
    let mut rest = words.get(5..).unwrap_or(&[]);
    std::iter::from_fn(move || {
        let first = *rest.first()?;
        let instruction = rest.get(..(first >> 16) as usize).filter(|words| !words.is_empty())?;
        rest = &rest[instruction.len()..];
        Some((Op::from_u32(first & 0xffff)?, &instruction[1..]))
    })
}

/// Returns whether an instruction has a result type, whether it has a result, and the kinds of its
/// other operands. The last kind repeats.
fn shape(op: Op) -> (bool, bool, &'static str) {
    match op {
        Op::Capability => (false, false, "p"),
        Op::Extension => (false, false, "s"),
        Op::ExtInstImport => (false, true, "s"),
        Op::MemoryModel => (false, false, "n"),
        Op::EntryPoint => (false, false, "nisi"),
        Op::ExecutionMode => (false, false, "ien"),
        Op::Source => (false, false, "n"),
        Op::Name => (false, false, "is"),
        Op::MemberName => (false, false, "ins"),
        Op::Decorate => (false, false, "id"),
        Op::MemberDecorate => (false, false, "ind"),
        Op::TypeInt | Op::TypeFloat => (false, true, "n"),
        Op::TypeVector => (false, true, "in"),
        Op::TypePointer => (false, true, "ci"),
        Op::TypeVoid
        | Op::TypeBool
        | Op::TypeArray
        | Op::TypeStruct
        | Op::TypeFunction
        | Op::Label => (false, true, "i"),
        Op::Constant => (true, true, "x"),
        Op::Variable => (true, true, "ci"),
        Op::Function => (true, true, "ni"),
        Op::CompositeExtract => (true, true, "in"),
        Op::CompositeInsert => (true, true, "iin"),
        Op::VectorShuffle => (true, true, "iin"),
        Op::ExtInst => (true, true, "igi"),
        Op::Load => (true, true, "in"),
        Op::SelectionMerge => (false, false, "in"),
        Op::LoopMerge => (false, false, "iin"),
        Op::Store | Op::Branch | Op::BranchConditional | Op::ControlBarrier | Op::MemoryBarrier => {
            (false, false, "i")
        }
        Op::Return | Op::FunctionEnd | Op::Unreachable => (false, false, "i"),
        _ => (true, true, "i"),
    }
}

/// Returns the names of the ids that have one.
fn names(words: &[u32]) -> HashMap<u32, String> {
    let mut taken = HashSet::new();
    let mut names = HashMap::new();
    for (op, operands) in instructions(words) {
        if let (Op::Name, [id, name @ ..]) = (op, operands) {
            let mut name: String =
                bytes(name).take_while(|byte| *byte != 0).map(char::from).collect();
            if !taken.insert(name.clone()) {
                name = format!("{name}_{id}");
            }
            names.insert(*id, name);
        }
    }
    names
}

fn id_name(names: &HashMap<u32, String>, id: u32) -> String {
    names.get(&id).map_or_else(|| format!("%{id}"), |name| format!("%{name}"))
}

fn named<T: Debug>(known: Option<T>, word: u32) -> String {
    known.map_or_else(|| word.to_string(), |known| format!("{known:?}"))
}

fn bytes(words: &[u32]) -> impl Iterator<Item = u8> {
    words.iter().flat_map(|word| word.to_le_bytes())
}

/// Reads a string that starts with `word`, continues in `operands` and ends with a zero byte.
fn string(word: u32, operands: &mut impl Iterator<Item = u32>) -> String {
    let mut string = String::new();
    let mut word = Some(word);
    while let Some(four) = word {
        for byte in four.to_le_bytes() {
            if byte == 0 {
                return format!("{string:?}");
            }
            string.push(byte.into());
        }
        word = operands.next();
    }
    format!("{string:?}")
}
