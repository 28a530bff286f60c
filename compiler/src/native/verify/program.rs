//! Checks the invariants of native programs.

use crate::affine::Affine;
use crate::dtype::DType;
use crate::graph::Aggregation;

use super::super::address::Address;
use super::super::attention::{Attention, Block, Shorter, Stages};
use super::super::blocks::{MOST_AT_ONCE, PANEL_ROW_BYTES};
use super::super::direct::{Direct, Form};
use super::super::pieces::Piece;
use super::super::product::{Factor, Product};
use super::super::program::{Implementation, NativeOutput, NativeProgram, Position};
use super::super::reduction::Reduction;
use super::super::running::Running;
use super::super::space::{Lines, Space};
use super::super::tape::Tape;
use super::super::update::Update;
use super::super::winograd::Winograd;
use super::{Checked, ensure};

impl NativeProgram {
    /// Checks the invariants that the [module documentation](super::super) states.
    pub fn verify(&self) -> Checked {
        let fault = |message: String| format!("the native program `{}`: {message}", self.name);
        self.verified().map_err(fault)
    }

    fn verified(&self) -> Checked {
        ensure(self.extents.len() == self.variables.axes, || "an axis has no extent".into())?;
        ensure(self.variables.loops <= self.variables.axes, || "more loops than axes".into())?;
        self.tape(&self.epilogue)?;
        match &self.implementation {
            Implementation::Pointwise => {}
            Implementation::Update(update) => self.update(update)?,
            Implementation::Pieces(pieces) => return self.pieces(pieces),
            Implementation::Winograd(winograd) => self.winograd(winograd)?,
            Implementation::Product(product) => self.product(product)?,
            Implementation::Direct(direct) => self.direct(direct)?,
            Implementation::Scatter(scatter) => {
                self.tape(&scatter.key)?;
                ensure(scatter.key.results.len() == 1, || "a key of several values".into())?;
                ensure(scatter.reduction.across, || "a scatter along points".into())?;
                self.reduction(&scatter.reduction)?;
            }
            Implementation::Running(running) => self.running(running)?,
            Implementation::Reduction(reduction) => self.reduction(reduction)?,
            Implementation::Attention(attention) => return self.attention(attention),
        }
        ensure(self.epilogue.results.len() == self.outputs.len(), || {
            "not one result for each output".into()
        })?;
        for (number, (output, &result)) in
            self.outputs.iter().zip(&self.epilogue.results).enumerate()
        {
            let dtype = self.epilogue.dtypes.get(result);
            ensure(dtype == Some(&output.ty.dtype), || {
                format!("out{number} has another type than its result")
            })?;
        }
        self.positions()
    }

    fn update(&self, update: &Update) -> Checked {
        let Update { changes, row } = update;
        self.tape(changes)?;
        let [change] = changes.results[..] else {
            return Err("a condition of several values".into());
        };
        let is_bool = changes.dtypes.get(change) == Some(&DType::Bool);
        ensure(is_bool, || "a condition that is no bool".into())?;
        let fits = changes.space.size.checked_mul(*row) == Some(self.places());
        ensure(fits, || "rows that do not make up the places".into())?;
        ensure(row.is_multiple_of(self.epilogue.row_length.unwrap_or(1)), || {
            "a chunk of several rows".into()
        })?;
        ensure(matches!(&self.outputs[..], [NativeOutput { over: Some(_), .. }]), || {
            "an update of no operand".into()
        })
    }

    fn positions(&self) -> Checked {
        for (number, output) in self.outputs.iter().enumerate() {
            match &output.position {
                Position::InOrder(shift) => {
                    let steady = shift.variables().all(|variable| self.loops().contains(&variable));
                    ensure(steady, || format!("out{number} is shifted from place to place"))?;
                }
                Position::Lines(lines) => self.lines(lines, &self.epilogue.space)?,
                Position::Rows(lines, rows) => {
                    self.space(rows)?;
                    self.lines(lines, rows)?;
                }
            }
            let same = |operand: usize| self.operands.get(operand) == Some(&output.ty);
            ensure(output.over.is_none_or(same), || {
                format!("out{number} is written over another type")
            })?;
        }
        Ok(())
    }

    fn tape(&self, tape: &Tape) -> Checked {
        ensure(tape.variables == self.variables, || "a tape names other variables".into())?;
        self.space(&tape.space)?;
        tape.verify(&self.operands)
    }

    /// Checks that the extents are those of the axes.
    fn space(&self, space: &Space) -> Checked {
        let own = self.extents.get(space.axes());
        ensure(own == Some(&space.extents), || "a space has other extents than its axes".into())
    }

    fn lines(&self, lines: &Lines, space: &Space) -> Checked {
        lines.expressions.iter().try_for_each(|expression| self.expression(expression))?;
        let through = |expressions| {
            Lines::through(space, self.variables.axes, &self.variables.derived, expressions)
        };
        let same = *lines == through(lines.expressions.clone());
        ensure(same, || "an address has another pace than its expressions".into())
    }

    fn expression(&self, expression: &Affine) -> Checked {
        let known = expression.variables().all(|variable| variable < self.variables.count());
        ensure(known, || "an address names a variable that there is not".into())
    }

    fn address(&self, address: &Address, dtype: DType) -> Checked {
        let operand = self.operands.get(address.operand);
        let fits = operand.is_some_and(|ty| ty.dtype == dtype);
        ensure(fits, || format!("in{} is not a factor of type {dtype}", address.operand))?;
        address.expressions().try_for_each(|expression| self.expression(expression))
    }

    fn axes<'a>(&self, axes: impl IntoIterator<Item = &'a usize>) -> Checked {
        let known = axes.into_iter().all(|&axis| axis < self.variables.loops);
        ensure(known, || "an implementation names an axis that there is not".into())
    }

    fn winograd(&self, winograd: &Winograd) -> Checked {
        let Winograd { taps, tile, image, kernel, .. } = winograd;
        ensure(Winograd::FORMS.contains(&(*taps, *tile)), || {
            format!("no tiles of {tile} for windows of {taps}")
        })?;
        self.axes(winograd.images.iter().chain(&winograd.terms).chain([&winograd.filter]))?;
        let terms = self.points(&winograd.terms) == taps * taps * winograd.channels;
        ensure(terms, || "a kernel of other terms than the window has".into())?;
        self.address(image, DType::F32)?;
        self.address(kernel, DType::F32)
    }

    fn product(&self, product: &Product) -> Checked {
        let Product { batch, rows, columns, terms, dtype, blocks, .. } = product;
        let is_known = matches!(dtype, DType::F32 | DType::F64 | DType::I32);
        ensure(is_known, || format!("a product of {dtype}"))?;
        let mut axes: Vec<usize> =
            [batch, rows, columns, terms].into_iter().flatten().copied().collect();
        self.axes(&axes)?;
        let places = self.epilogue.space.axes();
        let of_places: Vec<usize> = [batch, rows, columns].into_iter().flatten().copied().collect();
        let is_whole = of_places.iter().all(|axis| places.contains(axis))
            && places.clone().all(|axis| self.extents[axis] == 1 || of_places.contains(&axis));
        ensure(is_whole, || "a product of other places".into())?;
        axes.sort_unstable();
        ensure(axes.windows(2).all(|pair| pair[0] != pair[1]), || "an axis has two roles".into())?;
        let terms = 1..=PANEL_ROW_BYTES / dtype.size();
        ensure(terms.contains(&blocks.terms), || format!("blocks of {} terms", blocks.terms))?;
        for (size, of) in [(blocks.columns, "columns"), (blocks.rows, "rows")] {
            ensure((1..=MOST_AT_ONCE).contains(&size), || format!("blocks of {size} {of}"))?;
        }
        product.guards.iter().try_for_each(|guard| self.expression(guard))?;
        if *dtype == DType::I32 {
            return self.product_of_bytes([&product.left, &product.right]);
        }
        for factor in [&product.left, &product.right] {
            match factor {
                Factor::Gathered { address, .. } => {
                    let ty = self.operands.get(address.operand);
                    let half =
                        ty.map(|ty| ty.dtype).filter(|ty| *dtype == DType::F32 && ty.is_half());
                    self.address(address, half.unwrap_or(*dtype))?;
                }
                Factor::Computed { tape, guards } => {
                    self.tape(tape)?;
                    self.lines(guards, &tape.space)?;
                    let typed =
                        matches!(tape.results[..], [result] if tape.dtypes[result] == *dtype);
                    ensure(typed, || "a factor of another type".into())?;
                }
            }
        }
        Ok(())
    }

    /// Checks that one factor is gathered from u8, and the other from i8.
    fn product_of_bytes(&self, factors: [&Factor; 2]) -> Checked {
        let mut signed = Vec::new();
        for factor in factors {
            let Factor::Gathered { address, .. } = factor else {
                return Err("a computed factor of a product of integers".into());
            };
            let ty = self.operands.get(address.operand);
            let dtype = ty.map(|ty| ty.dtype).filter(|dtype| *dtype == DType::I8);
            signed.push(dtype.is_some());
            self.address(address, dtype.unwrap_or(DType::U8))?;
        }
        ensure(signed[0] != signed[1], || "two factors of the same sign".into())
    }

    fn direct(&self, direct: &Direct) -> Checked {
        let free = self.epilogue.space.axes().end;
        let Some(columns) = free.checked_sub(direct.form.column_axes()) else {
            return Err("no axis of columns".into());
        };
        let last = free - 1;
        ensure(direct.rows.is_none_or(|rows| rows + 1 == columns), || {
            "rows along another axis".into()
        })?;
        self.space(&direct.taps)?;
        let factors = || [&direct.x].into_iter().chain(&direct.w);
        factors().try_for_each(|address| self.address(address, DType::F32))?;
        let along = |address: &Address| address.offset.coefficient(last);
        let contiguous = matches!(
            (direct.form, along(&direct.x), direct.w.as_ref().map(along)),
            (Form::Products, 1, Some(1))
                | (Form::ByNumber, 1, Some(0))
                | (Form::OfNumber | Form::OfGroups, 0, Some(1))
                | (Form::Sum | Form::Max | Form::Min, 1 | 2, None)
        );
        let is_one = direct.form != Form::OfGroups
            || direct.w.as_ref().is_some_and(|w| {
                w.offset.coefficient(columns) == self.extents[last] as i64
                    && direct.x.offset.coefficient(columns) > 0
                    && direct.x.offset.coefficient(last) == 0
            });
        ensure(contiguous && is_one, || "elements that are apart".into())?;
        direct.conditions.iter().try_for_each(|condition| self.expression(condition))
    }

    fn reduction(&self, reduction: &Reduction) -> Checked {
        let Reduction { places, points, body, across, .. } = reduction;
        let own = if *across { places } else { points };
        ensure(body.space == *own, || "a body over other points".into())?;
        ensure(*places == self.epilogue.space, || "a reduction to other places".into())?;
        self.space(points)?;
        self.tape(body)?;
        self.lines(&reduction.guards, own)?;
        self.lines(&reduction.position, own)?;
        let is_arg = matches!(reduction.aggregation, Aggregation::ArgMax | Aggregation::ArgMin);
        ensure(reduction.position.is_empty() != is_arg, || "a position without need".into())?;
        let may_rank = !*across && is_arg;
        let of_places = |rank: &Affine| rank.variables().all(|v| places.axes().contains(&v));
        ensure(reduction.rank.as_ref().is_none_or(|rank| may_rank && of_places(rank)), || {
            "a rank without positions along the points, or not of places".into()
        })?;
        let typed = match body.results[..] {
            [value] => body.dtypes[value] == reduction.dtype,
            [value, counts] => {
                body.dtypes[value] == reduction.dtype && body.dtypes[counts] == DType::Bool
            }
            _ => false,
        };
        ensure(typed, || "a body of other types".into())
    }

    fn running(&self, running: &Running) -> Checked {
        let Running { aggregation, dtype, axis, added, terms, .. } = running;
        self.tape(terms)?;
        ensure(terms.space == self.epilogue.space, || "terms of other places".into())?;
        ensure(terms.space.axes().contains(axis), || "places along another axis".into())?;
        let are_places = added.start <= added.end && added.end <= self.extents[*axis];
        ensure(are_places, || "terms of places that there are not".into())?;
        ensure(aggregation.operation().is_some(), || format!("a running {}", aggregation.name()))?;
        let typed = matches!(terms.results[..], [result] if terms.dtypes[result] == *dtype);
        ensure(typed, || "terms of another type".into())
    }

    fn pieces(&self, pieces: &[Piece]) -> Checked {
        let mut places = 0usize;
        for Piece { operands, program } in pieces {
            program.verify()?;
            places = places.saturating_add(program.places());
            let of_whole = operands.iter().map(|&number| self.operands.get(number));
            let reads = of_whole.eq(program.operands.iter().map(Some));
            let types = |program: &Self| {
                program.outputs.iter().map(|output| output.ty.clone()).collect::<Vec<_>>()
            };
            ensure(reads && types(program) == types(self), || {
                "a piece with other tensors than the whole".into()
            })?;
            ensure(matches!(program.implementation, Implementation::Pointwise), || {
                "a piece that is not pointwise".into()
            })?;
        }
        ensure(places == self.places(), || "pieces of more or fewer places".into())
    }

    fn attention(&self, attention: &Attention) -> Checked {
        ensure(attention.of_rows.len() == self.outputs.len(), || {
            "an output without a kind".into()
        })?;
        for block in &attention.blocks {
            ensure(!block.turns.is_empty(), || "a block without a loop".into())?;
            self.stages(attention, block, &block.stages)?;
            let Some(Shorter { stages, choice, top, score }) = &block.shorter else { continue };
            stages.iter().try_for_each(|stages| self.stages(attention, block, stages))?;
            let is_known = block.turns.last() == Some(&choice.len())
                && choice.iter().all(|&number| number <= stages.len())
                && *top < block.statistics
                && score.dtype == DType::F32
                && stages.iter().all(|shorter| shorter.area <= block.stages.area);
            ensure(is_known, || "shorter stages that a block does not have".into())?;
        }
        Ok(())
    }

    fn stages(&self, attention: &Attention, block: &Block, stages: &Stages) -> Checked {
        let (count, statistics) = (self.operands.len(), block.statistics);
        let of_rows = attention.of_rows.iter().filter(|of_rows| **of_rows).count();
        let Stages { scores, weights, product, .. } = stages;
        scores.iter().chain([weights, product]).try_for_each(NativeProgram::verify)?;
        let reads =
            scores.iter().all(|stage| stage.operands.len() == count && stage.outputs.len() == 1)
                && scores.len() == block.stages.scores.len()
                && weights.operands.len() == count + scores.len()
                && weights.outputs.len() == 1 + statistics + of_rows
                && product.operands.len() == count + 1 + statistics
                && product.outputs.len() == self.outputs.len() - of_rows;
        ensure(reads, || "stages with other tensors than a block has".into())
    }
}
