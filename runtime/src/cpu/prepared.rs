//! Native programs that are prepared once, to run any number of times.

use super::attention::Attention;
use super::loops::job::Job;
use super::loops::pieces::Pieces;
use super::loops::reduction::Reduction;
use super::loops::runner::Runner;
use super::loops::running::Running;
use super::loops::scatter::Scatter;
use super::loops::updates::Update;
use super::memory::{Launch, Operand, Operands, Output, Register};
use super::product::contraction::Contraction;
use super::product::direct::Direct;
use super::product::gemm;
use super::product::winograd::Winograd;
use super::profile::profile;
use std::fmt;
use std::sync::Arc;
use tile_compiler::native::{Implementation, NativeProgram};
use tile_compiler::nest::Nest;

/// The reason why a nest did not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunError {
    /// The number of buffers differs from that of the nest's operands and outputs, or the number of
    /// steps from that of the loops around it.
    Count,
    /// A buffer is smaller than its tensor, or not aligned.
    Buffer {
        /// The size of the tensor.
        bytes: usize,
    },
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Count => {
                write!(f, "a nest was given more or fewer buffers or steps than it has")
            }
            RunError::Buffer { bytes } => {
                write!(
                    f,
                    "a buffer is not aligned to 8, or has not the {bytes} bytes of its tensor"
                )
            }
        }
    }
}

impl std::error::Error for RunError {}

/// The executor of a program's implementation.
enum Way {
    /// No aggregation: the epilogue alone.
    Pointwise,
    Update(Box<Update>),
    Pieces(Pieces),
    Winograd(Box<Winograd>),
    Contraction(Box<Contraction>),
    Direct(Box<Direct>),
    Scatter(Box<Scatter>),
    Running(Box<Running>),
    Reduction(Box<Reduction>),
    Attention(Box<Attention>),
}

/// A native program, ready for all its runs.
pub struct Prepared {
    program: Arc<NativeProgram>,
    epilogue: Runner,
    way: Way,
}

/// Operands in the form that a nest's runs read.
#[derive(PartialEq)]
pub struct Packed(Form);

#[derive(PartialEq)]
enum Form {
    /// The right factor of a product, in panels.
    Right(gemm::Packed),
    /// The kernel of a convolution, transformed.
    Points(Register),
}

impl Packed {
    /// Returns whether it has f32 elements of a product, all of them finite.
    pub fn is_finite(&self) -> bool {
        matches!(&self.0, Form::Right(right) if right.is_finite())
    }
}

impl Prepared {
    /// Prepares a program, which must be verified.
    pub fn new(program: Arc<NativeProgram>) -> Self {
        let epilogue = Runner::new(program.epilogue.clone());
        let way = match &program.implementation {
            Implementation::Pointwise => Way::Pointwise,
            Implementation::Update(update) => Way::Update(Box::new(Update::new(update))),
            Implementation::Pieces(pieces) => Way::Pieces(Pieces::new(pieces)),
            Implementation::Winograd(winograd) => {
                Way::Winograd(Box::new(Winograd::new(&program, winograd)))
            }
            Implementation::Product(product) => {
                Way::Contraction(Box::new(Contraction::new(&program, product)))
            }
            Implementation::Direct(direct) => Way::Direct(Box::new(Direct::new(&program, direct))),
            Implementation::Scatter(scatter) => Way::Scatter(Box::new(Scatter::new(scatter))),
            Implementation::Running(running) => {
                Way::Running(Box::new(Running::new(running, &program.epilogue)))
            }
            Implementation::Reduction(reduction) => {
                Way::Reduction(Box::new(Reduction::new(reduction)))
            }
            Implementation::Attention(attention) => {
                Way::Attention(Box::new(Attention::new(attention)))
            }
        };
        Self { program, epilogue, way }
    }

    /// Returns the operands that [`Prepared::pack`] packs: those of one factor of a product. A run
    /// that is given the packed form does not read them.
    pub fn packs(&self) -> Vec<usize> {
        match &self.way {
            Way::Winograd(winograd) => winograd.packs(),
            Way::Contraction(contraction) => contraction.packs(),
            _ => Vec::new(),
        }
    }

    /// Packs the operands of [`Prepared::packs`] for any number of runs. The other operands may be
    /// empty. `room` is the packed form of earlier values, whose memory is used again. To free it
    /// and allocate as much would fragment the heap of an app that packs often.
    pub fn pack(&self, operands: &[Operand], room: Option<Packed>) -> Option<Packed> {
        self.pack_at(&vec![0; self.program.loops().len()], operands, room)
    }

    /// Packs as [`Prepared::pack`] does, the elements at these steps of the loops.
    pub fn pack_at(
        &self,
        steps: &[usize],
        operands: &[Operand],
        room: Option<Packed>,
    ) -> Option<Packed> {
        let launch = Launch { operands, steps };
        let room = room.map(|Packed(form)| match form {
            Form::Right(right) => right.into_memory(),
            Form::Points(points) => points,
        });
        match &self.way {
            Way::Winograd(winograd) => Some(Packed(Form::Points(winograd.pack(launch, room)))),
            Way::Contraction(contraction) => {
                Some(Packed(Form::Right(contraction.pack(launch, room))))
            }
            _ => None,
        }
    }

    /// Returns whether [`Prepared::pack`] saves time if so many runs follow.
    pub fn pays_to_pack(&self, runs: usize) -> bool {
        match &self.way {
            Way::Contraction(contraction) => contraction.pays_to_pack(runs),
            _ => true,
        }
    }

    /// Returns the bytes that [`Prepared::pack`] takes.
    pub fn packed_bytes(&self) -> u64 {
        match &self.way {
            Way::Winograd(winograd) => winograd.packed_bytes(),
            Way::Contraction(contraction) => contraction.packed_bytes(),
            _ => 0,
        }
    }

    /// Returns the bytes that a run keeps at most beside operands and outputs. `is_packed` says
    /// whether it is given the packed form.
    pub fn working_bytes(&self, is_packed: bool) -> u64 {
        match &self.way {
            Way::Winograd(winograd) if !is_packed => winograd.packed_bytes(),
            Way::Contraction(contraction) => contraction.working_bytes(is_packed),
            Way::Update(update) => update.working_bytes(),
            Way::Scatter(scatter) => scatter.working_bytes(),
            Way::Reduction(reduction) => reduction.working_bytes(),
            Way::Attention(attention) => attention.working_bytes(),
            Way::Pointwise
            | Way::Pieces(_)
            | Way::Winograd(_)
            | Way::Direct(_)
            | Way::Running(_) => 0,
        }
    }

    /// Returns the operands of a product's right factor, even if they have other readers.
    pub fn right(&self) -> Vec<usize> {
        match &self.way {
            Way::Contraction(contraction) => contraction.right(),
            _ => Vec::new(),
        }
    }

    /// Returns whether the packed form holds every element of this operand, and nothing else, so
    /// that [`Prepared::unpack`] restores it.
    pub fn holds(&self, operand: usize) -> bool {
        matches!(&self.way, Way::Contraction(contraction) if contraction.holds() == Some(operand))
    }

    /// Restores the bytes of the operand that the packed form holds.
    pub fn unpack(&self, packed: &Packed) -> Option<Vec<u8>> {
        match (&self.way, &packed.0) {
            (Way::Contraction(contraction), Form::Right(packed)) => contraction.unpack(packed),
            _ => None,
        }
    }

    /// Computes every output, at these `steps` of the loops around the nest. `operands` and
    /// `outputs` are in the nest's order; outputs are overwritten. An operand may be empty if it is
    /// `packed`, or if an output is written over it.
    ///
    /// # Safety
    /// - Nest: it is verified, and no two places share a position of an output.
    /// - Operands and outputs: they are aligned to their elements.
    /// - Outputs: while the nest runs, nobody else accesses the positions that it writes at these
    ///   steps, and no two outputs share memory.
    pub unsafe fn run<'a>(
        &self,
        steps: &[usize],
        operands: &[Operand<'a>],
        packed: Option<&Packed>,
        outputs: &'a [Output<'a>],
    ) {
        let Self { program, epilogue, way } = self;
        let over =
            |operand: usize| program.outputs.iter().position(|output| output.over == Some(operand));
        let operand = |(number, operand): (usize, &Operand<'a>)| match over(number) {
            // SAFETY: a verified nest reads such an operand only at the places that it writes. Each
            // implementation computes a place by one thread, and nobody else accesses the output.
            Some(output) => unsafe { operand.overwritten(&outputs[output]) },
            None => *operand,
        };
        let operands: Operands = operands.iter().enumerate().map(operand).collect();
        let operands = &operands[..];
        // SAFETY: the contract is the same.
        let job = unsafe { Job::new(program, epilogue, Launch { operands, steps }, outputs) };
        match way {
            Way::Pointwise => job.pointwise(0..program.places()),
            Way::Update(update) => update.run(&job),
            // SAFETY: the contract is the same.
            Way::Pieces(pieces) => unsafe { pieces.run(job.launch, outputs) },
            Way::Winograd(winograd) => {
                let kernel = packed.and_then(|Packed(form)| {
                    if let Form::Points(points) = form { Some(points) } else { None }
                });
                winograd.run(&job, kernel);
            }
            Way::Contraction(contraction) => {
                let right =
                    packed.and_then(
                        |Packed(form)| {
                            if let Form::Right(right) = form { Some(right) } else { None }
                        },
                    );
                contraction.run(&job, right);
            }
            Way::Direct(direct) => direct.run(&job),
            Way::Scatter(scatter) => scatter.run(&job),
            Way::Running(running) => running.run(&job),
            Way::Reduction(reduction) => reduction.run(&job, 0..program.places()),
            // SAFETY: the contract is the same.
            Way::Attention(attention) => unsafe { attention.run(steps, operands, outputs) },
        }
    }
}

/// Computes every output of `nest`, at these `steps` of the loops around it. `operands` and
/// `outputs` are in the nest's order; outputs are overwritten.
///
/// A buffer holds at least the bytes of its tensor: row-major, with
/// [`tile_compiler::dtype::DType::size`] bytes for each element (one byte for a bool). It is
/// aligned to 8 bytes, or better to 64. To run a nest more than once, use [`Prepared`].
///
/// # Safety
/// - Nest: it is verified, and no two places share a position of an output.
pub unsafe fn run(
    nest: &Nest,
    steps: &[usize],
    operands: &[&[u8]],
    outputs: &mut [&mut [u8]],
) -> Result<(), RunError> {
    check(nest, steps, operands, outputs)?;
    let program = NativeProgram::new(nest, &profile(false), &|_| false);
    let operands: Vec<Operand> = operands.iter().map(|bytes| Operand::from(*bytes)).collect();
    let outputs: Vec<Output> = outputs.iter_mut().map(|bytes| Output::new(bytes, 0)).collect();
    // SAFETY: the contract is the same. The outputs are borrowed by this function alone.
    unsafe { Prepared::new(Arc::new(program)).run(steps, &operands, None, &outputs) };
    Ok(())
}

/// Checks that the buffers and steps fit the nest.
fn check(
    nest: &Nest,
    steps: &[usize],
    operands: &[&[u8]],
    outputs: &[&mut [u8]],
) -> Result<(), RunError> {
    if operands.len() != nest.operands.len()
        || outputs.len() != nest.outputs.len()
        || steps.len() != nest.loops
    {
        return Err(RunError::Count);
    }
    let buffers = operands.iter().copied().chain(outputs.iter().map(|b| &**b));
    for (ty, buffer) in
        nest.operands.iter().chain(nest.outputs.iter().map(|output| &output.ty)).zip(buffers)
    {
        let bytes = ty.elements().saturating_mul(ty.dtype.size());
        if buffer.len() < bytes || buffer.as_ptr().align_offset(8) != 0 {
            return Err(RunError::Buffer { bytes });
        }
    }
    Ok(())
}
