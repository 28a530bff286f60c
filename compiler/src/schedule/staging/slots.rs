//! [`Slots`]: the part of an operand that an invocation stages, from its addresses to the values in
//! workgroup memory.
//!
//! Parts of addresses and conditions that depend on the invocation alone are computed before all
//! loops. A *window* is a point of the outer reduction axes; conditions on these are computed once
//! for all of its blocks. A block adds only terms that are equal in all invocations.
//!
//! A read that is not to count reads element 0, and the value is set to 0 when it is stored: a
//! branch around the read would wait for memory before the block at hand is multiplied.

use crate::affine::Affine;
use crate::dtype::{DType, Scalar};
use crate::kernel::{Builder, Expr};
use crate::nest::{Leaf, Load, loads_of};
use crate::scalar::{BinaryOp, Inst};

use super::super::ScheduleError;
use super::super::point::Point;
use super::super::values::Values;
use super::{DEEP, Side};

/// The part of a block that an invocation stages in one turn.
#[derive(Clone)]
struct Slot<'a> {
    /// True if the slot is within the block.
    exists: Expr,
    /// The slot's first reduction point, relative to the block, and its first element in the staged
    /// tile.
    k: Expr,
    word: Expr,
    /// The own points that are read, and whether each counts, as far as is known before the block
    /// is. A vector of own points is one point. Those out of bounds are the last one in bounds,
    /// since no invocation uses their products.
    points: Vec<(Point<'a>, Expr)>,
}

/// All slots of an invocation.
#[derive(Clone)]
pub(in crate::schedule) struct Slots<'a> {
    /// The variables that all points share.
    point: Point<'a>,
    slots: Vec<Slot<'a>>,
}

/// The operand at the points of a slot, and the conditions without which it is 0.
pub(in crate::schedule) type Fetched = Vec<(Expr, Expr)>;

impl<'a> Side<'a> {
    /// Returns the slots of invocation `lane` of `threads`, in the block whose first own point is
    /// `start`.
    pub fn slots(
        &self,
        b: &mut Builder,
        point: &Point<'a>,
        lane: &Expr,
        threads: u32,
        start: &Expr,
    ) -> Slots<'a> {
        let (across, down) = (self.block / self.width(), self.block_depth / self.depth());
        let count = across * down;
        let slots = (0..count.div_ceil(threads)).map(|turn| {
            let slot = b.let_("slot", lane.clone() + (turn * threads) as i32);
            let exists = if (turn + 1) * threads <= count {
                true.into()
            } else {
                slot.clone().lt(count as i32)
            };
            let line = if self.along_reduction { down } else { across };
            let (number, within) = match threads.is_multiple_of(line) {
                // All slots are at the same place of their line.
                true => (
                    lane.clone().quotient(line) + (turn * threads / line) as i32,
                    lane.clone().remainder(line),
                ),
                false => (slot.clone().quotient(line), slot.remainder(line)),
            };
            let (k, own) = if self.along_reduction { (within, number) } else { (number, within) };
            let own = b.let_(self.name, own);
            let (word, first) = if self.in_scalars {
                let (own, k) = (own * self.width() as i32, k.clone() * self.depth() as i32);
                (own.clone() * self.pitch() as i32 + k, own)
            } else if self.is_deep() {
                // Own points of an invocation's vector are apart, so that those of consecutive
                // invocations are adjacent.
                let vectors = self.block / self.lanes;
                let vector = own.clone().remainder(vectors) * self.lanes as i32;
                (own.clone() * self.pitch() as i32 + &k, vector + own.quotient(vectors))
            } else {
                let line = k.clone() * (self.depth() * self.pitch()) as i32;
                (line + &own, own * self.lanes as i32)
            };
            let k = k * self.depth() as i32;
            let word = b.let_("word", word);
            let first = b.let_("index", start + first);
            let whole = self.vector && !self.along_reduction;
            let points = (0..if whole { 1 } else { self.width() })
                .map(|number| self.own_point(b, point, &k, first.clone() + number as i32));
            let points = points.map(|at| (at, exists.clone())).collect();
            Slot { exists, k, word, points }
        });
        let slots = slots.collect();
        Slots { point: point.clone(), slots }
    }

    /// Returns the point with this own position in a slot that begins with reduction point `k` of a
    /// block.
    fn own_point(&self, b: &mut Builder, point: &Point<'a>, k: &Expr, index: Expr) -> Point<'a> {
        let whole = self.vector && !self.along_reduction;
        let last = self.count as i32 - if whole { self.lanes as i32 } else { 1 };
        let index = match self.count.is_multiple_of(self.block as usize) {
            true => index,
            false => index.binary(BinaryOp::Min, last),
        };
        let mut at = point.clone();
        at.set_position(b, self.axes, &index);
        at = at.within(self.advance().map_or(self.reduction, |(_, inner)| inner), k.clone());
        let loads: Vec<&Load> = loads_of(self.program, self.factor).collect();
        let conditions = loads.iter().flat_map(|load| &load.when).chain(self.guards);
        at.prepare(b, &loads, conditions);
        match (self.vector, self.axes.last(), self.reduction.last()) {
            (true, Some(&axis), _) if !self.along_reduction => at.vector(axis, self.lanes as u8),
            (true, _, Some(&axis)) => at.vector(axis, DEEP as u8),
            _ => at,
        }
    }

    /// Returns the load that is the operand, if it is one.
    fn load(&self) -> Option<&'a Load> {
        match &self.program.insts[self.factor].0 {
            Inst::Leaf(Leaf::Load(load)) if load.dynamic.is_empty() => Some(load),
            _ => None,
        }
    }

    /// Returns the conditions under which the operand is not 0.
    fn conditions(&self) -> impl Iterator<Item = &'a Affine> {
        self.guards.iter().chain(self.load().into_iter().flat_map(|load| &load.when))
    }

    /// Moves slots to a window, and names the conditions that are known there.
    pub fn in_window(&self, b: &mut Builder, slots: &Slots<'a>, window: &Expr) -> Slots<'a> {
        let mut slots = slots.clone();
        let Some((outer, _)) = self.advance() else { return slots };
        slots.point.set_position(b, outer, window);
        for (at, counts) in slots.slots.iter_mut().flat_map(|slot| &mut slot.points) {
            at.share(b, &slots.point, outer);
            let known: Vec<&Affine> = self.conditions().filter(|c| at.knows(c)).collect();
            let valid = counts.clone().and(at.holds(known.iter().copied()));
            *counts = b.let_("valid", valid);
            at.assume(known);
        }
        slots
    }

    /// Returns whether a point of a block needs the values of the reduction axes. It does not if
    /// its load and its conditions follow from the position in the block.
    fn needs_position(&self, at: &Point) -> bool {
        let is_enough = self.load().is_some_and(|load| at.has_stride(load))
            && self.conditions().all(|condition| at.knows(condition));
        self.advance().is_none() && !is_enough
    }

    /// Moves the points of a slot to the block that starts at `start` in their window. Returns them
    /// with the conditions under which they count. `known` has points at some distances from the
    /// start.
    fn in_block(
        &self,
        b: &mut Builder,
        slot: &Slot<'a>,
        start: &Expr,
        known: &mut Vec<(Expr, Point<'a>)>,
    ) -> Vec<(Point<'a>, Expr)> {
        let below = match self.depth.is_multiple_of(self.unit as usize) {
            true => true.into(),
            false => slot.k.clone().lt(Expr::from(self.depth as i32) - start),
        };
        let mut points: Vec<(Point, Expr)> = Vec::new();
        for (point, valid) in &slot.points {
            let mut at = point.clone();
            at.set_start(b, start);
            if self.needs_position(&at) {
                match known.iter().find(|(k, _)| *k == slot.k) {
                    Some((_, other)) => at.share(b, other, self.reduction),
                    None => {
                        let position = b.let_("position", start + &slot.k);
                        at.set_position(b, self.reduction, &position);
                        known.push((slot.k.clone(), at.clone()));
                    }
                }
            }
            let counts = valid.clone().and(&below).and(at.holds(self.conditions()));
            at.assume(self.conditions());
            let counts = match counts {
                Expr::Binary(..) => b.let_("counts", counts),
                known => known,
            };
            points.push((at, counts));
        }
        points
    }

    /// Reads the block that starts at `start` into registers.
    pub fn fetch(
        &self,
        b: &mut Builder,
        slots: &Slots<'a>,
        start: &Expr,
    ) -> Result<Vec<Fetched>, ScheduleError> {
        let mut known = Vec::new();
        let of_slot = |slot: &Slot<'a>| {
            let points = self.in_block(b, slot, start, &mut known).into_iter();
            points.map(|(at, counts)| self.value(b, &at, counts)).collect()
        };
        slots.slots.iter().map(of_slot).collect()
    }

    /// Returns the operand at a point, and the condition without which it is 0. A load that is not
    /// to count reads element 0, so that no branch waits for it.
    fn value(
        &self,
        b: &mut Builder,
        at: &Point,
        counts: Expr,
    ) -> Result<(Expr, Expr), ScheduleError> {
        if let Some(load) = self.load() {
            let value = at.load_if(b, load, self.dtype(), &counts)?;
            return Ok((value, counts));
        }
        let value = |b: &mut Builder| {
            at.values(b, self.program, &[self.factor], None).map(|v| v[self.factor].clone())
        };
        if counts.as_bool() == Some(true) {
            return Ok((value(b)?, counts));
        }
        let zero = self.zero(b, at)?;
        let guarded = b.var(self.name, zero);
        b.if_(counts, |b| -> Result<(), ScheduleError> {
            let value = value(b)?;
            b.assign(&guarded, value);
            Ok(())
        })?;
        Ok((guarded, true.into()))
    }

    /// Returns 0 in the type of a value.
    fn zero(&self, b: &mut Builder, at: &Point) -> Result<Expr, ScheduleError> {
        let zero = Scalar::zero(self.dtype());
        Ok(Values { b, profile: at.profile, lanes: at.lanes }.constant(zero)?)
    }

    /// Stores what was read in workgroup memory, in the part that begins with element `origin`.
    pub fn put(
        &self,
        b: &mut Builder,
        slots: &Slots<'a>,
        array: usize,
        origin: &Expr,
        fetched: &[Fetched],
    ) -> Result<(), ScheduleError> {
        for (slot, fetched) in slots.slots.iter().zip(fetched) {
            b.if_(slot.exists.clone(), |b| -> Result<(), ScheduleError> {
                let mut values = Vec::with_capacity(fetched.len());
                for ((value, counts), (at, _)) in fetched.iter().zip(&slot.points) {
                    let zero = self.zero(b, at)?;
                    let value = match counts.as_bool() {
                        Some(true) => value.clone(),
                        _ => b.let_(
                            self.name,
                            counts.clone().splat(at.lanes).select(value.clone(), zero),
                        ),
                    };
                    values.push(value);
                }
                let first = slot.word.clone() + origin;
                if self.in_scalars {
                    self.put_scalars(b, array, first, &values);
                    return Ok(());
                }
                if self.depth() == 1 || self.is_deep() {
                    b.store_shared(array, first, Expr::vector(values));
                    return Ok(());
                }
                for k in 0..self.depth() {
                    let lanes = values.iter().map(|value| value.clone().lane(k as u8)).collect();
                    let word = first.clone() + (k * self.pitch()) as i32;
                    b.store_shared(array, word, Expr::vector(lanes));
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Stores the block that starts at `start` in workgroup memory.
    pub fn stage(
        &self,
        b: &mut Builder,
        slots: &Slots<'a>,
        array: usize,
        start: &Expr,
    ) -> Result<(), ScheduleError> {
        let fetched = self.fetch(b, slots, start)?;
        self.put(b, slots, array, &0.into(), &fetched)
    }

    /// Stores the values of a slot in a tile of scalars, from element `first` on.
    fn put_scalars(&self, b: &mut Builder, array: usize, first: Expr, values: &[Expr]) {
        let first = b.let_("first", first);
        let numbers = if self.vector { self.depth().max(self.width()) } else { self.width() };
        let apart = if self.depth() > 1 { 1 } else { self.pitch() };
        for number in 0..numbers {
            let value = match values {
                [vector] if numbers > 1 => vector.clone().lane(number as u8),
                values => values[number as usize].clone(),
            };
            b.store_shared(array, first.clone() + (number * apart) as i32, value);
        }
    }

    /// Returns the type of the operand's values.
    fn dtype(&self) -> DType {
        self.program.dtype(self.factor)
    }
}
