use super::*;
use crate::cpu::loops::runner::Runner;
use crate::cpu::memory::{Output as Written, elements_mut};
use crate::cpu::vector::emulated::Emulated;
use proptest::prelude::*;
use tile_compiler::affine::Affine;
use tile_compiler::dtype::DType;
use tile_compiler::graph::Aggregation;
use tile_compiler::native::{self, Implementation};
use tile_compiler::nest::{Axis, Leaf, Load, Nest, Output};
use tile_compiler::profile::Profile;
use tile_compiler::scalar::{BinaryOp, Inst, Program, Value};
use tile_compiler::tensor::TensorType;

/// A convolution of some images by a window of `taps` × `taps`, with these numbers of zeros before
/// and after each side. `backwards` sides are those of a gradient.
#[derive(Clone, Debug)]
struct Convolution {
    taps: usize,
    images: usize,
    lines: usize,
    pixels: usize,
    channels: usize,
    filters: usize,
    padding: [usize; 4],
    backwards: [bool; 2],
    /// Whether guards keep the image's addresses inside, instead of the load's own conditions.
    guarded: bool,
}

/// The axes of a convolution's nest: images, lines, pixels, filters, taps in both directions and
/// channels. An axis of extent 1 is the constant 0.
struct Axes {
    all: Vec<Axis>,
    /// The number of those that are free.
    free: usize,
    n: Affine,
    y: Affine,
    x: Affine,
    f: Affine,
    i: Affine,
    j: Affine,
    c: Affine,
}

impl Axes {
    fn new(convolution: &Convolution) -> Self {
        let Convolution { taps, images, lines, pixels, channels, filters, .. } = *convolution;
        let merged = convolution.is_merged();
        let mut all: Vec<Axis> = Vec::new();
        let mut axis = |name: &str, extent: usize| {
            if extent == 1 {
                return Affine::constant(0);
            }
            all.push(Axis { name: name.into(), extent });
            Affine::var(all.len() - 1)
        };
        let [n, y, x, f] = [("n", images), ("y", lines), ("x", pixels), ("f", filters)]
            .map(|(name, n)| axis(name, n));
        let (i, j) = (axis("i", taps), axis("j", if merged { 1 } else { taps }));
        let c = axis("c", channels * if merged { taps } else { 1 });
        let free = [images, lines, pixels, filters].iter().filter(|extent| **extent > 1).count();
        Self { all, free, n, y, x, f, i, j, c }
    }
}

/// Returns a sum of multiples.
fn sum(terms: &[(&Affine, i64)]) -> Affine {
    let zero = Affine::constant(0);
    terms
        .iter()
        .fold(zero, |sum, (affine, factor)| sum.add(&affine.scale(*factor).unwrap()).unwrap())
}

/// Adds a load to a program.
fn load(program: &mut Program<Leaf>, operand: usize, offset: Affine, when: Vec<Affine>) -> Value {
    program.push(
        Inst::Leaf(Leaf::Load(Load { operand, offset, dynamic: Vec::new(), when })),
        DType::F32,
    )
}

impl Convolution {
    fn size(&self, side: usize) -> usize {
        let inner = if side == 0 { self.lines } else { self.pixels };
        inner + self.taps - 1 - self.padding[2 * side] - self.padding[2 * side + 1]
    }

    /// Returns the coordinate of a result and a tap.
    fn coordinate(&self, side: usize, at: usize, tap: usize) -> Option<usize> {
        let tap = if self.backwards[side] { self.taps - 1 - tap } else { tap };
        (at + tap)
            .checked_sub(self.padding[2 * side])
            .filter(|coordinate| *coordinate < self.size(side))
    }

    /// Builds the nest. Axes of extent 1 are left out, and taps share an axis with the channels if
    /// nothing tells them apart.
    fn nest(&self) -> Nest {
        let axes = Axes::new(self);
        let Axes { n, y, x, f, .. } = &axes;
        let (offset, conditions) = self.image(&axes);
        let (guards, when) =
            if self.guarded { (conditions, Vec::new()) } else { (Vec::new(), conditions) };
        let mut body = Program::default();
        let (image, kernel) =
            (load(&mut body, 0, offset, when), load(&mut body, 1, self.kernel(&axes), Vec::new()));
        body.results = vec![body.binary(BinaryOp::Mul, image, kernel)];
        // A bias, and a residual.
        let mut epilogue = Program::default();
        let mut value = epilogue.push(Inst::Leaf(Leaf::Accumulator), DType::F32);
        let places =
            [n, y, x, f].into_iter().zip([self.images, self.lines, self.pixels, self.filters]);
        let place = places.fold(Affine::constant(0), |place, (axis, extent)| {
            sum(&[(&place, extent as i64), (axis, 1)])
        });
        for (operand, offset) in [(2, f.clone()), (3, place.clone())] {
            let other = load(&mut epilogue, operand, offset, Vec::new());
            value = epilogue.binary(BinaryOp::Add, value, other);
        }
        epilogue.results = vec![value];
        let of = |count: usize| TensorType::new(DType::F32, [count]);
        let nest = Nest {
            name: "convolution".into(),
            free: axes.free,
            rows: axes.free,
            axes: axes.all,
            loops: 0,
            derived: Vec::new(),
            guards,
            operands: vec![
                of(self.images * self.size(0) * self.size(1) * self.channels),
                of(self.taps * self.taps * self.channels * self.filters),
                of(self.filters),
                of(self.places()),
            ],
            aggregation: Some(Aggregation::Sum),
            in_bytes: Vec::new(),
            position: None,
            rank: None,
            body,
            inner: Vec::new(),
            epilogue,
            outputs: vec![Output { ty: of(self.places()), position: place, over: None }],
        };
        nest.verify().unwrap();
        nest
    }

    /// Returns whether the taps of a line share an axis with the channels.
    fn is_merged(&self) -> bool {
        self.padding[2..] == [0, 0] && !self.backwards[1] && !self.guarded
    }

    /// Returns the offset of the image's element, and the conditions under which it is inside.
    fn image(&self, Axes { n, y, x, i, j, c, .. }: &Axes) -> (Affine, Vec<Affine>) {
        let (height, width, channels) =
            (self.size(0) as i64, self.size(1) as i64, self.channels as i64);
        let one = Affine::constant(1);
        let coordinate = |side: usize, at: &Affine, tap: &Affine| {
            let (sign, first) =
                if self.backwards[side] { (-1, self.taps as i64 - 1) } else { (1, 0) };
            sum(&[(at, 1), (tap, sign), (&one, first - self.padding[2 * side] as i64)])
        };
        let (u, v) = (coordinate(0, y, i), coordinate(1, x, j));
        let offset =
            sum(&[(n, height * width * channels), (&u, width * channels), (&v, channels), (c, 1)]);
        let inside = |coordinate: &Affine, size: i64| {
            [coordinate.clone(), sum(&[(&one, size - 1), (coordinate, -1)])]
        };
        let conditions = if self.is_merged() && self.padding == [0; 4] {
            Vec::new()
        } else if self.is_merged() {
            inside(&u, height).into()
        } else {
            inside(&u, height).into_iter().chain(inside(&v, width)).collect()
        };
        (offset, conditions)
    }

    /// Returns the offset of the kernel's element.
    fn kernel(&self, Axes { i, j, c, f, .. }: &Axes) -> Affine {
        let (channels, filters) = (self.channels as i64, self.filters as i64);
        sum(&[
            (i, self.taps as i64 * channels * filters),
            (j, channels * filters),
            (c, filters),
            (f, 1),
        ])
    }

    fn places(&self) -> usize {
        self.images * self.lines * self.pixels * self.filters
    }

    /// Computes the results by definition, in f64.
    fn reference(&self, [image, kernel, bias, residual]: [&[f32]; 4]) -> Vec<f64> {
        (0..self.places())
            .map(|place| {
                let (f, x, y) = (
                    place % self.filters,
                    place / self.filters % self.pixels,
                    place / self.filters / self.pixels,
                );
                let (y, n) = (y % self.lines, y / self.lines);
                let mut sum = f64::from(bias[f]) + f64::from(residual[place]);
                for (i, j) in
                    (0..self.taps * self.taps).map(|tap| (tap / self.taps, tap % self.taps))
                {
                    let (Some(u), Some(v)) = (self.coordinate(0, y, i), self.coordinate(1, x, j))
                    else {
                        continue;
                    };
                    for c in 0..self.channels {
                        let at = ((n * self.size(0) + u) * self.size(1) + v) * self.channels + c;
                        let tap = (i * self.taps + j) * self.channels + c;
                        sum += f64::from(image[at]) * f64::from(kernel[tap * self.filters + f]);
                    }
                }
                sum
            })
            .collect()
    }
}

/// Returns numbers in -1..1 without a pattern.
fn numbers(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// Computes the results of an algorithm, with the kernel transformed ahead or not.
fn run(nest: &Nest, transforms: Transforms, operands: &[&[f32]], ahead: bool) -> Option<Vec<f32>> {
    let shape = native::Winograd { tile: transforms.outputs, ..native::Winograd::recognise(nest)? };
    let program = NativeProgram::with(
        nest,
        &Profile::cpu(),
        Implementation::Winograd(Box::new(shape.clone())),
    );
    program.verify().unwrap();
    let winograd = Winograd::of(Shape::new(&program, &shape), transforms);
    assert_eq!(winograd.packs(), [1]);
    let operands: Vec<Operand> =
        operands.iter().map(|operand| Operand::from(bytemuck::cast_slice(operand))).collect();
    let launch = Launch { operands: &operands, steps: &[] };
    let kernel = ahead.then(|| winograd.pack(launch, None));
    let mut result = Register::zeroed(nest.places() * size_of::<f32>());
    let outputs = [Written::new(result.elements_mut(), 0)];
    let epilogue = Runner::new(program.epilogue.clone());
    // SAFETY: the output is borrowed here alone, and each place has a position of its own.
    let job = unsafe { Job::new(&program, &epilogue, launch, &outputs) };
    winograd.run(&job, kernel.as_ref());
    Some(elements_mut::<f32>(result.elements_mut())[..nest.places()].to_vec())
}

fn suiting(convolution: &Convolution) -> impl Iterator<Item = Transforms> {
    let taps = convolution.taps;
    transforms().into_iter().filter(move |transforms| transforms.taps == taps)
}

fn check(convolution: &Convolution) {
    let nest = convolution.nest();
    let operands: Vec<Vec<f32>> =
        nest.operands.iter().zip(1..).map(|(ty, seed)| numbers(ty.elements(), seed)).collect();
    let [image, kernel, bias, residual] = [0, 1, 2, 3].map(|operand: usize| &operands[operand][..]);
    let operands = [image, kernel, bias, residual];
    let expected = convolution.reference(operands);
    // Pixels and taps are below 1. With the matrices A, B, G of an algorithm with six points along
    // one side, a result is a sum of terms whose magnitudes add up to at most the square of
    // max |Aᵀ| (|G| 1 · |Bᵀ| 1) for each channel: 564 with 3 taps, 1132 with 5. An estimate: each
    // term is rounded once, and errors of channels add up as random numbers do.
    let magnitude = if convolution.taps == 3 { 564.0 } else { 1132.0 };
    let rounding = f64::from(f32::EPSILON) / 2.0;
    let tolerance = rounding * magnitude * (convolution.channels as f64).sqrt();
    Emulated::each(|| {
        let suiting =
            suiting(convolution).flat_map(|transforms| [(transforms, true), (transforms, false)]);
        for (transforms, ahead) in suiting {
            let got = run(&nest, transforms, &operands, ahead).expect("it is such a convolution");
            for (place, (got, sum)) in got.iter().zip(&expected).enumerate() {
                let error = (f64::from(*got) - sum).abs();
                assert!(error <= tolerance, "place {place} is {got}, not {sum}: {convolution:?}");
            }
        }
    });
}

fn convolutions() -> impl Strategy<Value = Convolution> {
    let sizes = (1usize..4, 2usize..15, 2usize..15, 1usize..40, 2usize..70);
    let sides = (any::<[bool; 2]>(), any::<bool>(), proptest::array::uniform4(0usize..5));
    let all = (prop::sample::select([3, 5].as_slice()), sizes, sides);
    all.prop_map(
        |(taps, (images, lines, pixels, channels, filters), (backwards, guarded, padding))| {
            Convolution {
                taps,
                images,
                lines,
                pixels,
                channels,
                filters,
                padding: padding.map(|zeros| zeros.min(taps - 1)),
                backwards,
                guarded,
            }
        },
    )
}

/// Returns a convolution with these sizes and nothing else that is special.
fn plain(
    images: usize,
    lines: usize,
    pixels: usize,
    channels: usize,
    filters: usize,
) -> Convolution {
    Convolution {
        taps: 3,
        images,
        lines,
        pixels,
        channels,
        filters,
        padding: [1; 4],
        backwards: [false; 2],
        guarded: true,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn equals_the_definition(convolution in convolutions()) {
        prop_assume!((0..2).all(|side| {
            let inner = if side == 0 { convolution.lines } else { convolution.pixels };
            convolution.padding[2 * side] + convolution.padding[2 * side + 1] < inner + convolution.taps - 1
        }));
        check(&convolution);
    }
}

/// Tests more tiles than pass at once, more filters than are multiplied at once (also no multiple
/// of panels of 12), more channels than pass at once, and a kernel that blocks share.
#[test]
fn large() {
    check(&plain(2, 37, 41, 20, 150));
    check(&plain(1, 6, 7, 1030, 40));
    check(&plain(1, 9, 10, 250, 170));
    check(&Convolution { taps: 5, padding: [2; 4], ..plain(2, 13, 15, 40, 150) });
}

/// Without padding, the taps of a line share an axis with the channels.
#[test]
fn unguarded() {
    for padding in [[0; 4], [1, 1, 0, 0]] {
        check(&Convolution { padding, guarded: false, ..plain(2, 9, 11, 6, 16) });
        check(&Convolution { taps: 5, padding, guarded: false, ..plain(2, 9, 11, 6, 16) });
    }
}

/// A nest with a stride of 2, or with a window of another size, is no such convolution.
#[test]
fn others_are_none() {
    let mut nest = plain(1, 8, 8, 16, 16).nest();
    assert!(native::Winograd::recognise(&nest).is_some());
    let taps = nest.axes.iter().position(|axis| axis.name == "i").unwrap();
    nest.axes[taps].extent = 2;
    assert!(native::Winograd::recognise(&nest).is_none());
    nest.axes[taps].extent = 3;
    let Some((Inst::Leaf(Leaf::Load(load)), _)) = nest.body.insts.iter_mut().next() else {
        panic!("the image is loaded first")
    };
    let lines = nest.axes.iter().position(|axis| axis.name == "y").unwrap();
    load.offset = load
        .offset
        .add(&Affine::var(lines).scale(load.offset.coefficient(lines)).unwrap())
        .unwrap();
    assert!(native::Winograd::recognise(&nest).is_none());
}

/// The algorithm pays for some of a network's convolutions, and not for small ones.
#[test]
fn choice() {
    let chosen = |convolution: &Convolution, kept: bool| match NativeProgram::new(
        &convolution.nest(),
        &Profile::cpu(),
        &|_| kept,
    )
    .implementation
    {
        Implementation::Winograd(winograd) => Some(winograd.tile),
        _ => None,
    };
    assert_eq!(chosen(&plain(1, 56, 56, 64, 64), true), Some(4));
    assert_eq!(chosen(&plain(1, 56, 56, 64, 64), false), Some(4));
    assert_eq!(chosen(&plain(32, 14, 14, 256, 256), false), Some(4));
    assert_eq!(
        chosen(&Convolution { taps: 5, padding: [2; 4], ..plain(128, 28, 28, 32, 64) }, false),
        Some(2)
    );
    assert_eq!(chosen(&plain(1, 224, 224, 3, 64), true), None);
    assert_eq!(chosen(&plain(1, 7, 7, 512, 512), false), None);
    assert_eq!(chosen(&plain(1, 8, 8, 2, 2), true), None);
}

/// Tests the errors that the module's head states.
#[test]
fn rounding() {
    let [two, four] = errors(&plain(1, 12, 12, 256, 32))[..] else {
        panic!("there are two algorithms")
    };
    let [two_of_five] =
        errors(&Convolution { taps: 5, padding: [2; 4], ..plain(1, 12, 12, 256, 32) })[..]
    else {
        panic!("there is one algorithm")
    };
    println!("two {two} four {four} two of five {two_of_five}");
    assert!(
        two < 0.8 && four < 2.5 && two_of_five < 2.5,
        "{two}, {four}, {two_of_five} times the error of direct sums"
    );
}

/// Returns the errors of each algorithm, relative to those of sums term by term.
fn errors(convolution: &Convolution) -> Vec<f64> {
    let nest = convolution.nest();
    let mut operands: Vec<Vec<f32>> =
        nest.operands.iter().zip(1..).map(|(ty, seed)| numbers(ty.elements(), seed)).collect();
    operands[2..].iter_mut().for_each(|operand| operand.fill(0.0));
    let [image, kernel, bias, residual] = [0, 1, 2, 3].map(|operand: usize| &operands[operand][..]);
    let operands = [image, kernel, bias, residual];
    let expected = convolution.reference(operands);
    let error = |got: &[f32]| {
        let squares = got.iter().zip(&expected).map(|(got, sum)| (f64::from(*got) - sum).powi(2));
        (squares.sum::<f64>() / got.len() as f64).sqrt()
    };
    // The sums term by term.
    let direct: Vec<f32> = (0..convolution.places())
        .map(|place| {
            let (f, x, y) = (place % 32, place / 32 % 12, place / 32 / 12);
            let mut sum = 0.0;
            let taps = convolution.taps;
            for (i, j) in (0..taps * taps).map(|tap| (tap / taps, tap % taps)) {
                let (Some(u), Some(v)) =
                    (convolution.coordinate(0, y, i), convolution.coordinate(1, x, j))
                else {
                    continue;
                };
                for c in 0..256 {
                    sum = image[(u * 12 + v) * 256 + c]
                        .mul_add(kernel[((i * taps + j) * 256 + c) * 32 + f], sum);
                }
            }
            sum
        })
        .collect();
    let direct = error(&direct);
    suiting(convolution)
        .map(|transforms| error(&run(&nest, transforms, &operands, true).unwrap()) / direct)
        .collect()
}
