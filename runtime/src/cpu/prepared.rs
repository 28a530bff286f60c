//! A nest made ready to run any number of times.

use super::attention::Attention;
use super::contraction::{Contraction, PackedRight};
use super::direct::Direct;
use super::job::{Job, Position};
use super::memory::{Launch, Operand, Output, Register};
use super::reduction::Reduction;
use super::scatter::Scatter;
use super::space::Space;
use super::tape::Tape;
use super::winograd::Winograd;
use std::fmt;
use tile_compiler::nest::Nest;
use tile_compiler::scalar::Program;

/// Why a nest did not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunError {
    /// Not as many buffers as the nest has operands and outputs, or not as many steps as there are loops around it.
    Count,
    /// A buffer is smaller than its tensor, or not aligned.
    Buffer {
        /// What the tensor takes.
        bytes: usize,
    },
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Count => write!(f, "a nest was given more or fewer buffers or steps than it has"),
            RunError::Buffer { bytes } => {
                write!(f, "a buffer is not aligned to 8, or has not the {bytes} bytes of its tensor")
            }
        }
    }
}

impl std::error::Error for RunError {}

/// The way in which a nest runs.
enum Way {
    /// No aggregation.
    Pointwise,
    Winograd(Box<Winograd>),
    Contraction(Box<Contraction>),
    Direct(Box<Direct>),
    Scatter(Box<Scatter>),
    Reduction(Box<Reduction>),
    Attention(Box<Attention>),
}

/// A nest, analysed once for all its runs.
pub struct Prepared {
    nest: Nest,
    epilogue: Tape,
    way: Way,
    positions: Vec<Position>,
}

/// An operand in the form that a nest's runs want it in.
pub struct Packed(Form);

enum Form {
    /// The right factor of a product.
    Right(PackedRight),
    /// The kernel of a convolution, transformed.
    Points(Register),
}

impl Prepared {
    /// Prepares a nest, which must be verified. `kept` says which operands change seldom: that may decide the way it runs.
    /// An `exact` one computes sums of products term by term.
    pub fn new(nest: &Nest, kept: &dyn Fn(usize) -> bool, exact: bool) -> Self {
        let free = Space::new(nest, 0..nest.free);
        let positions = (0..nest.outputs.len()).map(|output| Position::new(nest, output)).collect();
        if let Some(attention) = Attention::new(nest) {
            let epilogue = Tape::new(nest, &Program::default(), &[], free, &[]);
            return Self { nest: nest.clone(), epilogue, way: Way::Attention(Box::new(attention)), positions };
        }
        let epilogue = Tape::new(nest, &nest.epilogue, &nest.epilogue.results, free, &[]);
        let way = match (nest.aggregation, nest.accumulator()) {
            (Some(aggregation), Some(dtype)) => {
                let winograd = if exact { None } else { Winograd::new(nest, kept) };
                if let Some(winograd) = winograd {
                    Way::Winograd(Box::new(winograd))
                } else if let Some(contraction) = Contraction::new(nest, kept) {
                    Way::Contraction(Box::new(contraction))
                } else if let Some(direct) = Direct::new(nest) {
                    Way::Direct(Box::new(direct))
                } else if let Some(scatter) = Scatter::new(nest, aggregation, dtype) {
                    Way::Scatter(Box::new(scatter))
                } else {
                    Way::Reduction(Box::new(Reduction::new(nest, aggregation, dtype)))
                }
            }
            _ => Way::Pointwise,
        };
        Self { nest: nest.clone(), epilogue, way, positions }
    }

    /// The operands that [`Prepared::pack`] packs: those of one factor of a product. Runs that are given the packed form do not read them.
    pub fn packs(&self) -> Vec<usize> {
        match &self.way {
            Way::Winograd(winograd) => winograd.packs(&self.nest),
            Way::Contraction(contraction) => contraction.packs(&self.nest),
            _ => Vec::new(),
        }
    }

    /// Packs the operands of [`Prepared::packs`] for any number of runs; the others need not be there.
    pub fn pack(&self, operands: &[Operand]) -> Option<Packed> {
        self.pack_at(&vec![0; self.nest.loops], operands)
    }

    /// The same for runs at whose steps of the loops the packed elements are those at `steps`.
    pub fn pack_at(&self, steps: &[usize], operands: &[Operand]) -> Option<Packed> {
        let launch = Launch { operands, steps };
        match &self.way {
            Way::Winograd(winograd) => Some(Packed(Form::Points(winograd.pack(launch)))),
            Way::Contraction(contraction) => Some(Packed(Form::Right(contraction.pack(&self.nest, launch)))),
            _ => None,
        }
    }

    /// The operands of the right factor, of a product, whether or not they have other readers too.
    pub fn right(&self) -> Vec<usize> {
        match &self.way {
            Way::Contraction(contraction) => contraction.right(),
            _ => Vec::new(),
        }
    }

    /// Whether the packed form has every element of this operand, and no other's: [`Prepared::unpack`] gives it back.
    pub fn holds(&self, operand: usize) -> bool {
        matches!(&self.way, Way::Contraction(contraction) if contraction.holds() == Some(operand))
    }

    /// The bytes of the operand that the packed form holds.
    pub fn unpack(&self, packed: &Packed) -> Option<Vec<u8>> {
        match (&self.way, &packed.0) {
            (Way::Contraction(contraction), Form::Right(packed)) => contraction.unpack(packed),
            _ => None,
        }
    }

    /// Computes every output, at `steps` of the loops around the nest: reads `operands` and overwrites `outputs`, in the nest's order. Operands that
    /// are `packed`, or that an output is written over, may be empty.
    pub fn run<'a>(
        &self,
        steps: &[usize],
        operands: &[Operand<'a>],
        packed: Option<&Packed>,
        outputs: &'a [Output<'a>],
    ) {
        let Self { nest, epilogue, way, positions } = self;
        let over = |operand: usize| nest.outputs.iter().position(|output| output.over == Some(operand));
        let operand =
            |(number, operand): (usize, &Operand<'a>)| Operand { over: over(number).map(|n| &outputs[n]), ..*operand };
        let operands: Vec<Operand> = operands.iter().enumerate().map(operand).collect();
        let operands = &operands[..];
        let job = Job { nest, epilogue, launch: Launch { operands, steps }, outputs, positions };
        match way {
            Way::Pointwise => job.pointwise(0..nest.places()),
            Way::Winograd(winograd) => {
                let kernel =
                    packed.and_then(|Packed(form)| if let Form::Points(points) = form { Some(points) } else { None });
                winograd.run(&job, kernel);
            }
            Way::Contraction(contraction) => {
                let right =
                    packed.and_then(|Packed(form)| if let Form::Right(right) = form { Some(right) } else { None });
                contraction.run(&job, right);
            }
            Way::Direct(direct) => direct.run(&job),
            Way::Scatter(scatter) => scatter.run(&job),
            Way::Reduction(reduction) => reduction.run(&job, 0..nest.places()),
            Way::Attention(attention) => attention.run(steps, operands, outputs),
        }
    }
}

/// Computes every output of `nest`, which must be verified, at `steps` of the loops around it: reads `operands` and
/// overwrites `outputs`, in the nest's order.
///
/// Each is the bytes of its tensor, row-major, [`tile_compiler::dtype::DType::size`] bytes an element (a bool is one byte), or more;
/// aligned to 8 bytes (best to 64). To run a nest more than once, keep it [`Prepared`].
pub fn run(nest: &Nest, steps: &[usize], operands: &[&[u8]], outputs: &mut [&mut [u8]]) -> Result<(), RunError> {
    check(nest, steps, operands, outputs)?;
    let operands: Vec<Operand> = operands.iter().map(|bytes| Operand::from(*bytes)).collect();
    let outputs: Vec<Output> = outputs.iter_mut().map(|bytes| Output::new(bytes, 0)).collect();
    Prepared::new(nest, &|_| false, false).run(steps, &operands, None, &outputs);
    Ok(())
}

/// Whether the buffers are those that the nest wants.
fn check(nest: &Nest, steps: &[usize], operands: &[&[u8]], outputs: &[&mut [u8]]) -> Result<(), RunError> {
    if operands.len() != nest.operands.len() || outputs.len() != nest.outputs.len() || steps.len() != nest.loops {
        return Err(RunError::Count);
    }
    let buffers = operands.iter().copied().chain(outputs.iter().map(|b| &**b));
    for (ty, buffer) in nest.operands.iter().chain(nest.outputs.iter().map(|output| &output.ty)).zip(buffers) {
        let bytes = ty.elements().saturating_mul(ty.dtype.size());
        if buffer.len() < bytes || buffer.as_ptr().align_offset(8) != 0 {
            return Err(RunError::Buffer { bytes });
        }
    }
    Ok(())
}
