//! The line of a kernel where a fault happened.
//!
//! naga records no line numbers for its output. So the module is printed twice, once with an empty
//! block before the statement: the statement begins at the first line that differs. An empty block
//! changes no expression, so one `ModuleInfo` serves for both.

use naga::back::wgsl::{WriterFlags, write_string};
use naga::valid::ModuleInfo;
use naga::{Block, Function, Module, Range, Statement};

use super::fault::{Code, Site};

/// Returns the number, from 1, and the text of the line in the module as WGSL, or `None` if it
/// cannot be printed.
pub(super) fn line(module: &Module, info: &ModuleInfo, site: &Site) -> Option<(usize, String)> {
    let mut marked = module.clone();
    let function = match site.function? {
        Code::EntryPoint(index) => &mut marked.entry_points.get_mut(index)?.function,
        Code::Function(handle) => &mut marked.functions[handle],
    };
    mark(function, site)?;
    let plain = write_string(module, info, WriterFlags::empty()).ok()?;
    let marked = write_string(&marked, info, WriterFlags::empty()).ok()?;
    let mut lines = plain.lines().zip(marked.lines()).enumerate();
    let (index, (text, _)) = lines.find(|(_, (plain, marked))| plain != marked)?;
    Some((index + 1, text.trim().to_owned()))
}

/// Inserts an empty block before the statement or, in an `Emit`, before the expression.
fn mark(function: &mut Function, site: &Site) -> Option<()> {
    let (&index, outer) = site.trail.split_first()?;
    let mut block = &mut function.body;
    for step in outer.rchunks(2) {
        let &[inner, statement] = step else { return None };
        block = match block.get_mut(statement)? {
            Statement::Block(block) => block,
            Statement::If { accept, .. } if inner == 0 => accept,
            Statement::If { reject, .. } => reject,
            Statement::Switch { cases, .. } => &mut cases.get_mut(inner)?.body,
            Statement::Loop { body, .. } if inner == 0 => body,
            Statement::Loop { continuing, .. } => continuing,
            _ => return None,
        };
    }
    let marker = Statement::Block(Block::new());
    match (block.get(index)?, site.expression) {
        (Statement::Emit(range), Some(expression)) => {
            let (range, at) = (range.index_range(), expression.index() as u32);
            let emit = |part| Statement::Emit(Range::from_index_range(part, &function.expressions));
            let split = vec![emit(range.start..at), marker, emit(at..range.end)];
            block.splice(index..=index, Block::from_vec(split));
        }
        _ => block.splice(index..index, Block::from_vec(vec![marker])),
    }
    Some(())
}
