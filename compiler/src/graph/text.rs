//! The text form of a [`Graph`]: a header, then one line a node, operands before their readers.
//!
//! ```text
//! graph smooth(%0, %1) -> (Y = %2)
//! %0 = input X : f32[5]
//! %1 = input Rest : f32[3]
//! %2 = contract sum [i] (i: 0..3, j: -1..2) where i + j >= 0 default %1 {
//!     v0 = %0[i + j]; v1 = mul v0 v0; yield v1 } : f32[3]  # Y
//! ```
//!
//! Nodes are numbered in topological order. The header lists the inputs and outputs; weights
//! (`weight dense.Kernel`) stay in their order. A node's source name follows `#`, and its origin
//! follows the name: `# Y in Dense at encoder[3].ff1`. Names that are not plain words are quoted.
//!
//! In the body of a contraction, `v2 = mul v0 v1` computes a value; only constants and casts state
//! their type. `%0[i, k]` reads operand `%0`: it is both an access and the leaf that reads it. An
//! access that an index needs is numbered, `@0 = %1[b, t]`, and then read as `@0`: `%0[i + @0, d]`.
//! Accesses are numbered in order of appearance. The second result of `yield` is the condition that
//! a point counts.
//!
//! The body of a scan is a graph in braces with its own numbers; see [`super::scan`].

use std::fmt::{self, Display, Formatter};

use super::{Access, Contraction, ContractionLeaf, Graph, Index, NodeId, Op, Scan};
use crate::affine::Affine;
use crate::scalar::Inst;

/// Returns whether `c` can occur in a name without quotes.
pub(super) fn is_plain(c: char) -> bool {
    !(c.is_whitespace() || c.is_control() || matches!(c, ',' | ':' | '=' | '(' | ')' | '"' | '#'))
}

/// Displays a name, with quotes if it needs them.
struct Name<'a>(&'a str);

impl Display for Name<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if !self.0.is_empty() && self.0.chars().all(is_plain) {
            return f.write_str(self.0);
        }
        let escaped = self
            .0
            .replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n")
            .replace('\r', "\\r");
        write!(f, "\"{escaped}\"")
    }
}

/// Joins the items by `, `.
fn list<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(", ")
}

impl Display for Graph {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let numbers = self.numbers();
        let number = |id: &NodeId| {
            numbers.get(*id).map_or_else(|| format!("%?{}", id.index()), |n| format!("%{n}"))
        };
        let inputs = list(self.inputs.iter().map(number));
        let outputs =
            list(self.outputs.iter().map(|(name, id)| format!("{} = {}", Name(name), number(id))));
        writeln!(f, "graph {}({inputs}) -> ({outputs})", Name(&self.name))?;
        for id in self.topological() {
            let node = self.node(id);
            let operands: Vec<String> = self.operands(id).iter().map(number).collect();
            write!(f, "{} = ", number(&id))?;
            match &node.op {
                Op::Input(name) => write!(f, "input {}", Name(name))?,
                Op::Weight(path) => write!(f, "weight {}", Name(path))?,
                Op::Constant(scalar) => write!(f, "constant {scalar}")?,
                Op::Elements(scalars) => write!(f, "elements [{}]", list(scalars))?,
                Op::Index { axis } => write!(f, "index {axis}")?,
                Op::Unary(op) => f.write_str(op.name())?,
                Op::Binary(op) => f.write_str(op.name())?,
                Op::Select => f.write_str("select")?,
                Op::Cast => f.write_str("cast")?,
                Op::Reshape => f.write_str("reshape")?,
                Op::StopGradient => f.write_str("stop_gradient")?,
                Op::Contraction(contraction) => {
                    write!(f, "{}", ContractionText { contraction, operands: &operands })?
                }
                Op::PrngValue => f.write_str("prng_value")?,
                Op::PrngState { elements } => write!(f, "prng_state {elements}")?,
                Op::Scan(scan) => write!(f, "{}", ScanText { scan, operands: &operands })?,
                Op::Result { number } => write!(f, "result {number}")?,
            }
            if !matches!(node.op, Op::Contraction(_) | Op::Scan(_)) {
                operands.iter().try_for_each(|operand| write!(f, " {operand}"))?;
            }
            write!(f, " : {}", node.ty)?;
            if let Some(name) = &node.name {
                write!(f, "  # {}", Name(name))?;
                if let Some(origin) = &node.origin {
                    write!(f, " in {}", Name(&origin.function))?;
                    if !origin.path.is_empty() {
                        write!(f, " at {}", Name(&origin.path))?;
                    }
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// Returns the default operand position of an access to a node, given the positions so far. The
/// text states other positions explicitly.
pub(super) fn usual_operand<T: PartialEq>(node: &T, so_far: &[(T, usize)]) -> usize {
    match so_far.iter().find(|(seen, _)| seen == node) {
        Some((_, operand)) => *operand,
        None => so_far.iter().map(|(_, operand)| operand + 1).max().unwrap_or(0),
    }
}

struct ScanText<'a> {
    scan: &'a Scan,
    /// The operands as `%n`.
    operands: &'a [String],
}

impl Display for ScanText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let scan = self.scan;
        let (sequences, rest) =
            self.operands.split_at(scan.sequences.len().min(self.operands.len()));
        let (carries, captures) = rest.split_at(scan.carries.min(rest.len()));
        write!(f, "scan {}", scan.length)?;
        let sequences =
            sequences.iter().zip(&scan.sequences).map(|(id, axis)| format!("{id} along {axis}"));
        write!(f, " sequences ({}) carries ({})", list(sequences), list(carries))?;
        let yields = list(scan.yields.iter().map(|axis| format!("along {axis}")));
        writeln!(f, " captures ({}) yields ({yields}) {{", list(captures))?;
        scan.body.to_string().lines().try_for_each(|line| writeln!(f, "    {line}"))?;
        f.write_str("}")
    }
}

struct ContractionText<'a> {
    contraction: &'a Contraction,
    /// The operands as `%n`.
    operands: &'a [String],
}

impl ContractionText<'_> {
    fn affine(&self, affine: &Affine) -> String {
        affine
            .display(|v| self.contraction.indices.get(v).map_or("?", |index| &index.name))
            .to_string()
    }

    fn index(&self, index: &Index) -> String {
        match index.access {
            None => self.affine(&index.affine),
            Some(access) if index.affine == Affine::constant(0) => format!("@{access}"),
            Some(access) => format!("{} + @{access}", self.affine(&index.affine)),
        }
    }

    /// Returns `%0[i, k]`, or `%0:1[i, k]` if the operand's position is not the default one.
    fn access(&self, access: &Access, so_far: &mut Vec<(String, usize)>) -> String {
        let node = self.operands.get(access.operand).cloned().unwrap_or_else(|| "%?".into());
        let index = list(access.index.iter().map(|index| self.index(index)));
        let position = match usual_operand(&node, so_far) == access.operand {
            true => String::new(),
            false => format!(":{}", access.operand),
        };
        let text = format!("{node}{position}[{index}]");
        so_far.push((node, access.operand));
        text
    }
}

impl Display for ContractionText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let c = self.contraction;
        let output = list(c.output.iter().map(|affine| self.affine(affine)));
        let ranges = list(c.indices.iter().map(|i| format!("{}: {}..{}", i.name, i.low, i.high)));
        write!(f, "contract {} [{output}] ({ranges})", c.aggregation.name())?;
        if let Some(rank) = c.rank.and_then(|rank| c.indices.get(rank)) {
            write!(f, " rank {}", rank.name)?;
        }
        if !c.constraints.is_empty() {
            write!(
                f,
                " where {}",
                list(c.constraints.iter().map(|a| format!("{} >= 0", self.affine(a))))
            )?;
        }
        if let (true, Some(default)) = (c.default, self.operands.last()) {
            write!(f, " default {default}")?;
        }
        f.write_str(" { ")?;
        let mut so_far = Vec::new();
        let is_index = |n: usize| {
            c.accesses.iter().flat_map(|a| &a.index).any(|index| index.access == Some(n))
        };
        for (value, (inst, dtype)) in c.body.insts.enumerate() {
            // Print the accesses before the one that this instruction reads. That one becomes its
            // right-hand side if possible.
            if let Inst::Leaf(ContractionLeaf::Access(access)) = inst {
                while so_far.len() < c.accesses.len()
                    && (so_far.len() < *access || so_far.len() == *access && is_index(*access))
                {
                    let n = so_far.len();
                    write!(f, "@{n} = {}; ", self.access(&c.accesses[n], &mut so_far))?;
                }
            }
            write!(f, "v{value} = ")?;
            match inst {
                Inst::Const(scalar) => write!(f, "{scalar} : {dtype}")?,
                Inst::Leaf(ContractionLeaf::Access(n))
                    if *n == so_far.len() && *n < c.accesses.len() =>
                {
                    f.write_str(&self.access(&c.accesses[*n], &mut so_far))?;
                }
                Inst::Leaf(ContractionLeaf::Access(n)) => write!(f, "@{n}")?,
                Inst::Leaf(ContractionLeaf::Index(affine)) => {
                    write!(f, "index {}", self.affine(affine))?
                }
                Inst::Unary(op, a) => write!(f, "{} v{a}", op.name())?,
                Inst::Binary(op, a, b) => write!(f, "{} v{a} v{b}", op.name())?,
                Inst::Select(c, a, b) => write!(f, "select v{c} v{a} v{b}")?,
                Inst::Cast(a) => write!(f, "cast v{a} : {dtype}")?,
            }
            f.write_str("; ")?;
        }
        for n in so_far.len()..c.accesses.len() {
            write!(f, "@{n} = {}; ", self.access(&c.accesses[n], &mut so_far))?;
        }
        write!(
            f,
            "yield {} }}",
            c.body.results.iter().map(|r| format!("v{r}")).collect::<Vec<_>>().join(" ")
        )
    }
}
