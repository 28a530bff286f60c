//! The checker's reports: a sentence about the fault, and the line of the kernel.

use std::fmt;

use naga::{Expression, Function, Handle};

/// The reason why a kernel was rejected. It displays as a sentence, and the line of the kernel as
/// WGSL if it is known.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Fault {
    /// The kind.
    pub kind: Kind,
    /// The workgroup that was running, and the sizes that turn invocation indices into ids.
    group: Option<Group>,
    /// The line of the module as `naga::back::wgsl` prints it: its number, from 1, and its text.
    pub line: Option<(usize, String)>,
    pub(super) site: Site,
}

/// The kind of a fault. Invocations are local invocation indices, and places are WGSL paths such as
/// `tile[3]`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Kind {
    /// The module or the arguments of the run are invalid. Nothing ran.
    Invalid(String),
    /// The checker does not interpret this construct.
    Unsupported(String),
    /// An access is beyond the end of an array.
    OutOfBounds {
        /// The array.
        place: String,
        /// The index.
        index: i128,
        /// The number of elements.
        length: usize,
        /// The invocation that accesses it.
        invocation: usize,
    },
    /// A place is read before anything was written there.
    Uninitialised {
        /// The place.
        place: String,
        /// The invocation that reads it.
        invocation: usize,
    },
    /// Two invocations of a workgroup access a place between two barriers, at least one of them to
    /// write.
    Race {
        /// The place.
        place: String,
        /// The first access, and its invocation.
        first: (Access, usize),
        /// The second access, and its invocation.
        second: (Access, usize),
    },
    /// Two workgroups, by linear index, access a place in one dispatch, at least one of them to
    /// write.
    WorkgroupRace {
        /// The place.
        place: String,
        /// The first access, and its workgroup.
        first: (Access, usize),
        /// The second access, and its workgroup.
        second: (Access, usize),
    },
    /// Only `active` of `of` invocations reach an operation that all must reach together. `absent`
    /// is one of the others.
    Divergence {
        /// The operation.
        operation: String,
        /// The number of invocations that reach it.
        active: usize,
        /// The number of invocations.
        of: usize,
        /// An invocation that does not reach it.
        absent: usize,
    },
    /// Invocations differ in an operand that must be uniform.
    NotUniform {
        /// The operation.
        operation: String,
        /// An invocation whose operand differs.
        invocation: usize,
    },
    /// An integer is divided by zero.
    DivisionByZero {
        /// The invocation that divides.
        invocation: usize,
    },
    /// A loop has more turns than the checker allows.
    EndlessLoop {
        /// The most turns.
        limit: u32,
    },
}

/// The kind of an access to a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A load.
    Read,
    /// A store.
    Write,
}

#[derive(Clone, Copy, Debug)]
struct Group {
    /// The linear index.
    index: usize,
    /// The invocations of a workgroup, and the workgroups of the dispatch.
    size: [u32; 3],
    count: [u32; 3],
}

/// A position in the module: a statement, and if it is an `Emit`, the expression.
#[derive(Clone, Debug, Default)]
pub(super) struct Site {
    pub function: Option<Code>,
    /// From the innermost block outwards: the statement's index in its block, that block's index in
    /// its statement, and so on.
    pub trail: Vec<usize>,
    pub expression: Option<Handle<Expression>>,
}

/// A function of a module.
#[derive(Clone, Copy, Debug)]
pub(super) enum Code {
    EntryPoint(usize),
    Function(Handle<Function>),
}

pub(super) type Result<T> = std::result::Result<T, Box<Fault>>;

impl From<Kind> for Box<Fault> {
    fn from(kind: Kind) -> Self {
        Box::new(Fault { kind, group: None, line: None, site: Site::default() })
    }
}

impl Kind {
    /// Reports a construct that is not supported, named by the first word of its debug form.
    pub(super) fn unsupported(construct: &impl fmt::Debug) -> Self {
        let text = format!("{construct:?}");
        let name = text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
        Self::Unsupported(name.to_owned())
    }
}

impl Fault {
    /// Adds an outer step to the position, while the fault is passed outwards.
    pub(super) fn within(mut self: Box<Self>, index: usize) -> Box<Self> {
        if self.site.function.is_none() {
            self.site.trail.push(index);
        }
        self
    }

    pub(super) fn at(mut self: Box<Self>, expression: Handle<Expression>) -> Box<Self> {
        if self.site.function.is_none() {
            self.site.expression = Some(expression);
        }
        self
    }

    /// Completes the position. Steps in callers are not part of it.
    pub(super) fn in_function(mut self: Box<Self>, function: Code) -> Box<Self> {
        self.site.function.get_or_insert(function);
        self
    }

    pub(super) fn in_workgroup(
        mut self: Box<Self>,
        index: usize,
        size: [u32; 3],
        count: [u32; 3],
    ) -> Box<Self> {
        self.group = Some(Group { index, size, count });
        self
    }

    fn invocation(&self, index: usize) -> String {
        match &self.group {
            Some(group) => format!("invocation {}", id(index, group.size)),
            None => format!("invocation {index}"),
        }
    }

    fn workgroup(&self, index: usize) -> String {
        match &self.group {
            Some(group) => format!("workgroup {}", id(index, group.count)),
            None => format!("workgroup {index}"),
        }
    }
}

/// Returns a linear index as an id, with x fastest.
fn id(index: usize, size: [u32; 3]) -> String {
    let [x, y, _] = size.map(|size| (size as usize).max(1));
    format!("({}, {}, {})", index % x, index / x % y, index / x / y)
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "written",
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match &self.kind {
            Kind::Invalid(reason) => write!(f, "invalid: {reason}")?,
            Kind::Unsupported(name) => write!(f, "not supported by the checker: {name}")?,
            Kind::OutOfBounds { place, index, length, invocation } => write!(
                f,
                "out of bounds: {} indexes `{place}`, of length {length}, at {index}",
                self.invocation(*invocation)
            )?,
            Kind::Uninitialised { place, invocation } => write!(
                f,
                "uninitialised: {} reads `{place}`, which nothing has written",
                self.invocation(*invocation)
            )?,
            Kind::Race { place, first, second } => write!(
                f,
                "race: `{place}` is {} by {} and {} by {} with no barrier between",
                first.0,
                self.invocation(first.1),
                second.0,
                self.invocation(second.1)
            )?,
            Kind::WorkgroupRace { place, first, second } => write!(
                f,
                "race: `{place}` is {} by {} and {} by {} in one dispatch",
                first.0,
                self.workgroup(first.1),
                second.0,
                self.workgroup(second.1)
            )?,
            Kind::Divergence { operation, active, of, absent } => write!(
                f,
                "divergent: {operation} is reached by {active} of {of} invocations, and not by {}",
                self.invocation(*absent)
            )?,
            Kind::NotUniform { operation, invocation } => write!(
                f,
                "not uniform: the operand of {operation} differs in {}",
                self.invocation(*invocation)
            )?,
            Kind::DivisionByZero { invocation } => {
                write!(
                    f,
                    "division by zero: {} divides an integer by 0",
                    self.invocation(*invocation)
                )?;
            }
            Kind::EndlessLoop { limit } => {
                write!(f, "endless: a loop is not done after {limit} iterations")?
            }
        }
        match (&self.group, &self.kind) {
            (Some(_), Kind::WorkgroupRace { .. }) | (None, _) => {}
            (Some(group), _) => write!(f, ", in {}", self.workgroup(group.index))?,
        }
        if let Some((number, text)) = &self.line {
            write!(f, "\n  at line {number}: {text}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Fault {}
