//! Operators on sequences, which are lists during the import.

use super::attributes::literal;
use super::control::{Control, Site};
use super::import::Importer;
use super::model::OnnxError;
use crate::lower::Passed;

/// Units of work for each part of a split tensor.
const PART_UNITS: usize = 10;

impl<'p> Importer<'p> {
    /// Imports an operator on sequences.
    pub(super) fn sequence(
        &mut self,
        control: Control,
        site: &Site<'_, 'p>,
        inputs: Vec<Passed>,
    ) -> Result<Vec<Passed>, OnnxError> {
        Ok(match control {
            Control::SequenceConstruct => {
                inputs.iter().try_for_each(|item| site.is_item(item))?;
                vec![Passed::List(inputs)]
            }
            Control::SequenceEmpty => vec![Passed::List(Vec::new())],
            Control::SequenceAt => {
                let items = site.items(&inputs, 0)?;
                let place = self.place(site, site.input(&inputs, 1)?, items.len())?;
                vec![
                    items
                        .get(place)
                        .cloned()
                        .ok_or_else(|| site.fails("there is nothing at this place"))?,
                ]
            }
            Control::SequenceInsert => {
                let mut items = site.items(&inputs, 0)?;
                let place = if inputs.len() > 2 {
                    self.place(site, site.input(&inputs, 2)?, items.len())?
                } else {
                    items.len()
                };
                let item = site.input(&inputs, 1)?;
                site.is_item(&item)?;
                items.insert(place, item);
                vec![Passed::List(items)]
            }
            Control::SequenceErase => {
                let mut items = site.items(&inputs, 0)?;
                let last = items.len().saturating_sub(1);
                let place = if inputs.len() > 1 {
                    self.place(site, site.input(&inputs, 1)?, items.len())?
                } else {
                    last
                };
                if place >= items.len() {
                    return Err(site.fails("there is nothing at this place"));
                }
                items.remove(place);
                vec![Passed::List(items)]
            }
            Control::SequenceLength => vec![Passed::Int(site.items(&inputs, 0)?.len() as i64)],
            Control::SequenceMap => self.map(site, inputs)?,
            Control::SplitToSequence => self.split(site, site.input(&inputs, 0)?, inputs.get(1))?,
            Control::ConcatFromSequence => {
                let mut items = site.items(&inputs, 0)?;
                let axis = site.int("axis", 0);
                if site.int("new_axis", 0) != 0 {
                    items = items
                        .into_iter()
                        .map(|item| self.unsqueezed(site, item, axis))
                        .collect::<Result<_, _>>()?;
                }
                vec![self.joined(site, items, axis)?]
            }
            _ => return Err(site.fails("it is no operator on sequences")),
        })
    }

    /// Imports the body for each item of the first input, a sequence. Other inputs that are
    /// sequences also give one item each.
    pub(super) fn map(
        &mut self,
        site: &Site<'_, 'p>,
        inputs: Vec<Passed>,
    ) -> Result<Vec<Passed>, OnnxError> {
        let body = site.graph("body")?;
        let Some(Passed::List(first)) = inputs.first() else {
            return Err(site.fails("its input is no sequence"));
        };
        let mut outputs: Vec<Vec<Passed>> = vec![Vec::new(); body.outputs.len()];
        for number in 0..first.len() {
            let of = |input: &Passed| match input {
                Passed::List(items) => items.get(number).cloned(),
                value => Some(value.clone()),
            };
            let given: Option<Vec<Passed>> = inputs.iter().map(of).collect();
            let given = given.ok_or_else(|| site.fails("its sequences are not of one length"))?;
            let results = self.within(site, body, given)?;
            outputs.iter_mut().zip(results).for_each(|(all, result)| all.push(result));
        }
        Ok(outputs.into_iter().map(Passed::List).collect())
    }

    pub(super) fn split(
        &mut self,
        site: &Site<'_, 'p>,
        input: Passed,
        sizes: Option<&Passed>,
    ) -> Result<Vec<Passed>, OnnxError> {
        let axis = site.int("axis", 0);
        let length = self.along(site, &input, axis)? as i64;
        let (sizes, keeps) = match sizes {
            None | Some(Passed::Nothing) => {
                self.spend(
                    usize::try_from(length).unwrap_or(usize::MAX).saturating_mul(PART_UNITS),
                )
                .map_err(|what| site.fails(what))?;
                (vec![1; length as usize], site.int("keepdims", 1) != 0)
            }
            Some(sizes) => match literal(&self.value(sizes).map_err(|what| site.fails(what))?) {
                Passed::Int(size) if size > 0 => {
                    let count = length.div_euclid(size) + i64::from(length % size != 0);
                    self.spend(
                        usize::try_from(count).unwrap_or(usize::MAX).saturating_mul(PART_UNITS),
                    )
                    .map_err(|what| site.fails(what))?;
                    ((0..count).map(|n| size.min(length - n * size)).collect(), true)
                }
                Passed::List(items) => (
                    items
                        .iter()
                        .map(|item| if let Passed::Int(size) = item { *size } else { 0 })
                        .collect(),
                    true,
                ),
                _ => return Err(site.fails("the sizes of its parts are not above 0")),
            },
        };
        let list = Passed::List(sizes.iter().map(|&size| Passed::Int(size)).collect());
        let axis_of = |axis: i64| ("axis".to_owned(), Passed::Int(axis));
        let parts = self.library(site, "OnnxSplit_18", vec![axis_of(axis)], vec![input, list])?;
        let mut parts = match parts {
            Passed::List(parts) => parts,
            part => vec![part],
        };
        if !keeps {
            let axes = || Passed::List(vec![Passed::Int(axis)]);
            let squeezed = parts
                .into_iter()
                .map(|part| self.library(site, "OnnxSqueeze_13", vec![], vec![part, axes()]));
            parts = squeezed.collect::<Result<_, _>>()?;
        }
        Ok(vec![Passed::List(parts)])
    }

    /// Returns a position in a sequence. A negative one counts from the end.
    pub(super) fn place(
        &mut self,
        site: &Site,
        value: Passed,
        length: usize,
    ) -> Result<usize, OnnxError> {
        let place = self.number(site, &value, "the place in the sequence")?;
        let from_start = if place < 0 { place + length as i64 } else { place };
        let place = usize::try_from(from_start).ok().filter(|place| *place <= length);
        place.ok_or_else(|| site.fails(format!("a sequence of {length} has no place {from_start}")))
    }
}
