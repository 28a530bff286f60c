//! Random valid kernels for property tests of the text form and of emission.

use proptest::prelude::*;

use super::*;

/// A kernel whose `Debug` form is its text.
pub(crate) struct Printed(pub Kernel);

impl std::fmt::Debug for Printed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Generates kernels over elements of `dtypes`, i32 and bool.
pub(crate) fn kernel(dtypes: &'static [DType]) -> impl Strategy<Value = Printed> {
    prop::collection::vec(any::<u32>(), 20..400).prop_map(move |entropy| {
        let mut source = Source { entropy, at: 0, dtypes, scope: Vec::new(), matrices: None };
        let mut builder = Builder::new("k", [32, 1, 1], [3, 2, 1]);
        for dtype in dtypes {
            let ty = Type::vector(*dtype, source.lanes());
            builder.read("a", ty, 16);
            builder.write("out", ty, 16);
            builder.shared("tile", ty, 8);
        }
        if source.dtypes.contains(&DType::F16) && source.below(2) == 0 {
            source.matrices(&mut builder);
        }
        builder.step("t");
        source.scope.push((Expr::step(0), Type::I32, false));
        source.block(&mut builder, true, 0);
        Printed(
            builder.finish().unwrap_or_else(|invalid| panic!("the generator is wrong: {invalid}")),
        )
    })
}

struct Source {
    entropy: Vec<u32>,
    at: usize,
    dtypes: &'static [DType],
    /// Variables in scope, with their types and whether they may be assigned.
    scope: Vec<(Expr, Type, bool)>,
    /// Number of the first matrix's workgroup array, if there are matrices. Matrix 0 is a left one,
    /// 1 a right one and 2 a sum; each has an array in this order.
    matrices: Option<usize>,
}

impl Source {
    /// Returns a number below `n`, or 0 once the entropy is used up, so that generation ends.
    fn below(&mut self, n: usize) -> usize {
        self.at += 1;
        self.entropy.get(self.at - 1).map_or(0, |word| *word as usize % n)
    }

    /// Adds a matrix of each role, with an array for each.
    fn matrices(&mut self, b: &mut Builder) {
        let (size, dtype) = ([8, 16][self.below(2)], [DType::F16, DType::F32][self.below(2)]);
        for (role, dtype) in [(Role::Left, dtype), (Role::Right, dtype), (Role::Sum, DType::F32)] {
            let array = b.shared("staged", Type::scalar(dtype), 512);
            self.matrices.get_or_insert(array);
            b.matrix("m", role, dtype, size);
        }
    }

    fn lanes(&mut self) -> u8 {
        [1, 2, 4][self.below(3)]
    }

    fn dtype(&mut self) -> DType {
        match self.below(self.dtypes.len() + 2) {
            0 => DType::I32,
            1 => DType::Bool,
            at => self.dtypes[at - 2],
        }
    }

    fn block(&mut self, b: &mut Builder, uniform: bool, depth: usize) {
        let visible = self.scope.len();
        while self.at < self.entropy.len() {
            match self.below(if self.matrices.is_none() || !uniform { 10 } else { 12 }) {
                0..3 => {
                    let ty = Type::vector(self.dtype(), self.lanes());
                    let value = self.expr(b, ty, 3);
                    let name = ["total", "x", "row", "local"][self.below(4)];
                    let assignable = self.below(2) == 0;
                    let variable =
                        if assignable { b.var(name, value) } else { b.let_(name, value) };
                    self.scope.push((variable, ty, assignable));
                }
                3..5 => {
                    let assignable: Vec<_> = self.scope.iter().filter(|v| v.2).cloned().collect();
                    if !assignable.is_empty() {
                        let (variable, ty, _) = &assignable[self.below(assignable.len())];
                        let value = self.expr(b, *ty, 3);
                        b.assign(variable, value);
                    }
                }
                5..7 => {
                    let at = self.below(self.dtypes.len());
                    let index = self.index(b, 2);
                    let ty = b.ty(&Expr::load_shared(at, 0)).unwrap();
                    let value = self.expr(b, ty, 3);
                    match self.below(2) {
                        0 => b.store_shared(at, index, value),
                        _ => b.store(2 * at + 1, index, value),
                    }
                }
                7 if depth < 3 => {
                    let to = if self.below(2) == 0 { Expr::workgroup(0) } else { 12.into() };
                    let (from, step) = (self.below(4) as i32, 1 + self.below(3) as u32);
                    b.for_("k", from, to, step, |b, k| {
                        self.scope.push((k, Type::I32, false));
                        self.block(b, uniform, depth + 1);
                        self.scope.pop();
                    });
                }
                8 if depth < 3 => {
                    let condition = self.expr(b, Type::BOOL, 3);
                    if self.below(2) == 0 {
                        b.if_(condition, |b| self.block(b, false, depth + 1));
                    } else {
                        let source = std::cell::RefCell::new(&mut *self);
                        let block =
                            |b: &mut Builder| source.borrow_mut().block(b, false, depth + 1);
                        b.if_else(condition, block, block);
                    }
                }
                9 if uniform && self.below(2) == 0 => {
                    let ty = Type::vector(DType::I32, self.lanes());
                    let op =
                        [BinaryOp::Add, BinaryOp::Mul, BinaryOp::Max, BinaryOp::Min][self.below(4)];
                    let value = self.expr(b, ty, 3);
                    let collected = b.collect("all", op, value);
                    self.scope.push((collected, ty, false));
                }
                9 if uniform => b.barrier(),
                10 => {
                    let Some(array) = self.matrices else { continue };
                    let number = self.below(3);
                    let first = Expr::from(8 * self.below(3) as i32);
                    let place = MatrixAddress { shared: array + number, first, pitch: 16 };
                    match self.below(2) {
                        0 => b.load_matrix(number, place),
                        _ => b.store_matrix(number, place),
                    }
                }
                11 => b.multiply_add(2, 0, 1),
                _ => break,
            }
        }
        self.scope.truncate(visible);
    }

    /// Returns an index within every array.
    fn index(&mut self, b: &Builder, depth: usize) -> Expr {
        self.expr(b, Type::I32, depth).and(7)
    }

    fn boxed(&mut self, b: &Builder, ty: Type, depth: usize) -> Box<Expr> {
        Box::new(self.expr(b, ty, depth))
    }

    /// Returns an expression of type `ty`, built without folding.
    fn expr(&mut self, b: &Builder, ty: Type, depth: usize) -> Expr {
        let Type { dtype, lanes } = ty;
        if depth == 0 || self.at >= self.entropy.len() {
            return self.leaf(ty);
        }
        let d = depth - 1;
        match self.below(12) {
            0 | 1 => {
                let at = self.below(self.dtypes.len());
                let load = match self.below(2) {
                    0 => Expr::load(2 * at, self.index(b, d)),
                    _ => Expr::load_shared(at, self.index(b, d)),
                };
                if b.ty(&load) == Ok(ty) { load } else { self.leaf(ty) }
            }
            2 => {
                let op = UnaryOp::ALL[self.below(24)];
                let a = self.boxed(b, ty, d);
                if is_native_unary(op, dtype) { Expr::Unary(op, a) } else { *a }
            }
            3..6 => {
                let op = BinaryOp::ALL[self.below(18)];
                let of = if op.is_comparison() { Type::vector(self.dtype(), lanes) } else { ty };
                if (op.is_comparison() && dtype != DType::Bool) || !is_native_binary(op, of.dtype) {
                    return self.leaf(ty);
                }
                let left = self.boxed(b, of, d);
                // Divisors are not 0, and shift counts are below the width.
                let right = match op {
                    BinaryOp::Div | BinaryOp::ShiftLeft | BinaryOp::ShiftRight
                        if of.dtype.is_integer() =>
                    {
                        Box::new(
                            Expr::from(Scalar::from_i64(of.dtype, 1 + self.below(7) as i64))
                                .splat(lanes),
                        )
                    }
                    _ => self.boxed(b, of, d),
                };
                Expr::Binary(op, left, right)
            }
            6 if dtype.is_float() => {
                Expr::Fma(self.boxed(b, ty, d), self.boxed(b, ty, d), self.boxed(b, ty, d))
            }
            6 | 7 if ty == Type::I32 => match self.below(2) {
                0 => Expr::Quotient(self.boxed(b, ty, d), 1 + self.below(9) as u32),
                _ => Expr::Remainder(self.boxed(b, ty, d), 1 + self.below(9) as u32),
            },
            8 => {
                let condition = self.boxed(b, Type::vector(DType::Bool, lanes), d);
                Expr::Select(condition, self.boxed(b, ty, d), self.boxed(b, ty, d))
            }
            9 => {
                let from = Type::vector(self.dtype(), lanes);
                Expr::Cast(dtype, self.boxed(b, from, d))
            }
            10 if dtype.bits() == 32 => {
                Expr::Bitcast(dtype, self.boxed(b, Type::vector(DType::I32, lanes), d))
            }
            _ if lanes > 1 => match self.below(2) {
                0 => Expr::Splat(lanes, self.boxed(b, Type::scalar(dtype), d)),
                _ => {
                    Expr::Vector((0..lanes).map(|_| self.expr(b, Type::scalar(dtype), d)).collect())
                }
            },
            _ => Expr::Lane(self.boxed(b, Type::vector(dtype, 4), d), self.below(4) as u8),
        }
    }

    fn leaf(&mut self, ty: Type) -> Expr {
        let known: Vec<_> = self.scope.iter().filter(|v| v.1 == ty).map(|v| v.0.clone()).collect();
        if !known.is_empty() && self.below(3) > 0 {
            return known[self.below(known.len())].clone();
        }
        if ty.lanes > 1 {
            return Expr::Splat(ty.lanes, Box::new(self.leaf(Type::scalar(ty.dtype))));
        }
        if ty == Type::I32 && self.below(2) == 0 {
            let axis = self.below(3) as u8;
            return match self.below(5) {
                0 | 1 => Expr::local(axis),
                2 | 3 => Expr::workgroup(axis),
                _ => Expr::Builtin(
                    [Builtin::Subgroup, Builtin::SubgroupLane, Builtin::Subgroups][axis as usize],
                ),
            };
        }
        let value = [0.0, 1.0, -2.5, 1e-7, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 3e4, -7.0]
            [self.below(9)];
        Expr::Literal(Scalar::from_f64(ty.dtype, value))
    }
}
