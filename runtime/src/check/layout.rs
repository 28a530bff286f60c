//! The memory layout of a type's values, shared by `Memory`, pointers and values.
//!
//! A layout is a tree of scalars, sequences (vectors, matrices by column, arrays) and structs, with
//! WGSL's byte offsets. Its leaves, in order of offset, are the words of a value of that type.

use std::cell::OnceCell;
use std::fmt::Write;
use std::rc::Rc;

use naga::{ArraySize, Handle, Module, Scalar, Type, TypeInner};

/// A scalar within a type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Leaf {
    /// The offset in bytes from the start of the type.
    pub offset: usize,
    pub scalar: Scalar,
    pub atomic: bool,
}

#[derive(Debug)]
pub(super) struct Layout {
    pub shape: Shape,
    /// The size in bytes. A run-time array counts as empty.
    pub size: usize,
    leaves: OnceCell<Vec<Leaf>>,
}

#[derive(Debug, PartialEq)]
pub(super) enum Shape {
    Scalar {
        scalar: Scalar,
        atomic: bool,
    },
    Sequence {
        element: Rc<Layout>,
        /// The bytes from one element to the next.
        stride: usize,
        /// The number of elements, or `None` for a run-time array.
        length: Option<usize>,
    },
    /// The members in order: name, offset in bytes, layout.
    Struct(Vec<(String, usize, Rc<Layout>)>),
}

impl PartialEq for Layout {
    fn eq(&self, other: &Self) -> bool {
        self.size == other.size && self.shape == other.shape
    }
}

impl Layout {
    fn new(shape: Shape, size: usize) -> Rc<Self> {
        let leaves = OnceCell::new();
        Rc::new(Self { shape, size, leaves })
    }

    fn scalar(scalar: Scalar, atomic: bool) -> Rc<Self> {
        Self::new(Shape::Scalar { scalar, atomic }, usize::from(scalar.width))
    }

    fn sequence(element: Rc<Layout>, stride: usize, length: Option<usize>) -> Rc<Self> {
        let size = stride * length.unwrap_or(0);
        Self::new(Shape::Sequence { element, stride, length }, size)
    }

    /// Returns every scalar of the type, in order of offset.
    pub fn leaves(&self) -> &[Leaf] {
        self.leaves.get_or_init(|| match &self.shape {
            &Shape::Scalar { scalar, atomic } => vec![Leaf { offset: 0, scalar, atomic }],
            Shape::Sequence { element, stride, length } => (0..length.unwrap_or(0))
                .flat_map(|index| element.leaves_at(index * stride))
                .collect(),
            Shape::Struct(members) => {
                members.iter().flat_map(|(_, offset, member)| member.leaves_at(*offset)).collect()
            }
        })
    }

    fn leaves_at(&self, base: usize) -> impl Iterator<Item = Leaf> {
        self.leaves().iter().map(move |leaf| Leaf { offset: base + leaf.offset, ..*leaf })
    }

    /// Returns the scalar type of a scalar, vector, matrix or array, or that of a struct's first
    /// member.
    pub fn element_scalar(&self) -> Option<Scalar> {
        match &self.shape {
            Shape::Scalar { scalar, .. } => Some(*scalar),
            Shape::Sequence { element, .. } => element.element_scalar(),
            Shape::Struct(members) => members.first()?.2.element_scalar(),
        }
    }

    /// Returns the width in bytes of the narrowest scalar. No access is finer.
    pub fn granule(&self) -> usize {
        match &self.shape {
            Shape::Scalar { scalar, .. } => usize::from(scalar.width),
            Shape::Sequence { element, .. } => element.granule(),
            Shape::Struct(members) => {
                members.iter().map(|(.., member)| member.granule()).min().unwrap_or(1)
            }
        }
    }

    /// Returns the number of elements. A run-time array has as many as fit in `bytes` bytes.
    pub fn length(&self, bytes: usize) -> Option<usize> {
        match &self.shape {
            Shape::Sequence { stride, length, .. } => {
                Some(length.unwrap_or(bytes / (*stride).max(1)))
            }
            _ => None,
        }
    }

    /// Returns whether it ends with a run-time array.
    fn is_open(&self) -> bool {
        match &self.shape {
            Shape::Scalar { .. } => false,
            Shape::Sequence { length, .. } => length.is_none(),
            Shape::Struct(members) => members.last().is_some_and(|(.., last)| last.is_open()),
        }
    }

    /// Appends to `path` how to reach the part with layout `target` (a scalar, if `None`) at byte
    /// `offset`: `.rows[3][1]`.
    pub fn path(&self, offset: usize, target: Option<&Layout>, path: &mut String) {
        if target == Some(self) {
            return;
        }
        match &self.shape {
            Shape::Scalar { .. } => {}
            Shape::Sequence { element, stride, .. } => {
                // Writing to a string cannot fail.
                let _ = write!(path, "[{}]", offset / stride);
                element.path(offset % stride, target, path);
            }
            Shape::Struct(members) => {
                let inside = members.iter().rfind(|(_, start, _)| *start <= offset);
                if let Some((name, start, member)) = inside {
                    let _ = write!(path, ".{name}");
                    member.path(offset - start, target, path);
                }
            }
        }
    }
}

/// The kind of an expression's value, by its type.
pub(super) enum Typed {
    Data(Rc<Layout>),
    /// A pointer to data of this layout.
    Pointer(Rc<Layout>),
    /// A value that the checker does not evaluate: an image or a sampler.
    Opaque,
}

/// The layout of each type of a module, by its handle. Some types have none.
pub(super) struct Layouts(Vec<Option<Rc<Layout>>>);

impl Layouts {
    pub fn new(module: &Module) -> Self {
        let mut layouts = Self(Vec::with_capacity(module.types.len()));
        for (_, ty) in module.types.iter() {
            let layout = layouts.of(&ty.inner);
            layouts.0.push(layout);
        }
        layouts
    }

    pub fn get(&self, ty: Handle<Type>) -> Option<&Rc<Layout>> {
        self.0.get(ty.index())?.as_ref()
    }

    pub fn typed(&self, inner: &TypeInner) -> Typed {
        let pointee = match *inner {
            TypeInner::Pointer { base, .. } => self.get(base).cloned(),
            TypeInner::ValuePointer { size: None, scalar, .. } => {
                Some(Layout::scalar(scalar, false))
            }
            TypeInner::ValuePointer { size: Some(size), scalar, .. } => {
                self.of(&TypeInner::Vector { size, scalar })
            }
            _ => return self.of(inner).map_or(Typed::Opaque, Typed::Data),
        };
        pointee.map_or(Typed::Opaque, Typed::Pointer)
    }

    /// Returns the layout of a type whose parts all have known layouts.
    fn of(&self, inner: &TypeInner) -> Option<Rc<Layout>> {
        let vector = |size: u32, scalar: Scalar| {
            let length = Some(size as usize);
            Layout::sequence(Layout::scalar(scalar, false), usize::from(scalar.width), length)
        };
        Some(match inner {
            TypeInner::Scalar(scalar) => Layout::scalar(*scalar, false),
            TypeInner::Atomic(scalar) => Layout::scalar(*scalar, true),
            TypeInner::Vector { size, scalar } => vector(u32::from(*size), *scalar),
            TypeInner::Matrix { columns, rows, scalar } => {
                // A column of three rows is aligned like one of four.
                let stride = u32::from(*rows).next_power_of_two() * u32::from(scalar.width);
                let column = vector(u32::from(*rows), *scalar);
                Layout::sequence(column, stride as usize, Some(u32::from(*columns) as usize))
            }
            // Each invocation of the subgroup holds the whole matrix, by rows.
            TypeInner::CooperativeMatrix { columns, rows, scalar, .. } => {
                let length = Some(*columns as usize * *rows as usize);
                Layout::sequence(Layout::scalar(*scalar, false), usize::from(scalar.width), length)
            }
            TypeInner::Array { base, size, stride } => {
                let length = match size {
                    ArraySize::Constant(length) => Some(length.get() as usize),
                    ArraySize::Dynamic => None,
                    ArraySize::Pending(_) => return None,
                };
                Layout::sequence(self.get(*base)?.clone(), *stride as usize, length)
            }
            TypeInner::Struct { members, span } => {
                let members = members
                    .iter()
                    .enumerate()
                    .map(|(index, member)| {
                        let name = member.name.clone().unwrap_or_else(|| format!("member{index}"));
                        Some((name, member.offset as usize, self.get(member.ty)?.clone()))
                    })
                    .collect::<Option<Vec<_>>>()?;
                let size = match members.last() {
                    Some((_, offset, last)) if last.is_open() => offset + last.size,
                    _ => *span as usize,
                };
                Layout::new(Shape::Struct(members), size)
            }
            _ => return None,
        })
    }
}
