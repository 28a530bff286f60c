//! The sizes of a convolution, and the addresses of its elements.

use crate::cpu::product::gemm::Places;
use crate::cpu::product::places::{gathered, locate};
use tile_compiler::affine::Affine;
use tile_compiler::native::{NativeProgram, Side, Winograd};

/// A convolution, with the tables of its addresses.
pub struct Shape {
    /// The side of the window.
    pub taps: usize,
    /// The operand that is the image.
    pub image: usize,
    /// The number of the image's element at the first coordinates, and what each loop around the
    /// nest adds to it.
    pub origin: isize,
    pub loops: Vec<isize>,
    /// For each image, its distance in elements from the first one, and its first place.
    pub images: Vec<(isize, usize)>,
    pub lines: Side,
    pub pixels: Side,
    pub channels: usize,
    pub filters: usize,
    /// The operand that is the kernel, and the places of its elements: filters × (taps, then
    /// channels).
    pub kernel: usize,
    pub places: Places,
    /// Whether the kernel can be transformed ahead.
    pub packs: bool,
}

impl Shape {
    /// Makes the tables of a convolution.
    pub fn new(program: &NativeProgram, winograd: &Winograd) -> Self {
        let offset = &winograd.image.offset;
        let (place, mut point) = (program.place(), vec![0; program.extents.len()]);
        let image = |number| {
            locate(&program.extents, &winograd.images, number, &mut point);
            let terms = |affine: &Affine| {
                winograd.images.iter().map(|&a| affine.coefficient(a) * point[a]).sum::<i64>()
            };
            (terms(offset) as isize, terms(&place) as usize)
        };
        Self {
            taps: winograd.taps,
            image: winograd.image.operand,
            origin: winograd.origin as isize,
            loops: program.loops().map(|v| offset.coefficient(v) as isize).collect(),
            images: (0..program.points(&winograd.images)).map(image).collect(),
            lines: winograd.lines.clone(),
            pixels: winograd.pixels.clone(),
            channels: winograd.channels,
            filters: winograd.filters,
            kernel: winograd.kernel.operand,
            places: gathered(
                program,
                [&[], &[winograd.filter], &winograd.terms],
                &winograd.kernel,
                &[],
            ),
            packs: winograd.packs,
        }
    }
}
