//! Branches and loops. Loops are unrolled, so the loop condition must be known before each
//! iteration. A branch with an unknown condition is imported both ways. Its results are selected
//! elementwise, which requires equal types.

use super::control::Site;
use super::import::{Importer, sentence};
use super::model::{OnnxError, title};
use super::proto;
use crate::dtype::DType;
use crate::lower::Passed;
use crate::tensor::{Tensor, TensorType};

impl<'p> Importer<'p> {
    /// Imports one branch, or both if the condition is unknown.
    pub(super) fn branch(
        &mut self,
        site: &Site<'_, 'p>,
        condition: Passed,
    ) -> Result<Vec<Passed>, OnnxError> {
        let node = self.calls.tensor(&condition).map_err(|error| site.fails(sentence(&error)))?;
        if self.known(node).is_none() {
            // If that fails and the condition can be evaluated, a single branch may succeed.
            match self.both_branches(site, &condition) {
                Err(error) if self.value(&condition).is_err() => return Err(error),
                Err(_) => {}
                chosen => return chosen,
            }
        }
        let taken = self.number(site, &condition, "its condition")? != 0;
        let graph = site.graph(if taken { "then_branch" } else { "else_branch" })?;
        self.within(site, graph, Vec::new())
    }

    fn both_branches(
        &mut self,
        site: &Site<'_, 'p>,
        condition: &Passed,
    ) -> Result<Vec<Passed>, OnnxError> {
        let then = self.within(site, site.graph("then_branch")?, Vec::new())?;
        let otherwise = self.within(site, site.graph("else_branch")?, Vec::new())?;
        let mut chosen = Vec::new();
        for (then, otherwise) in then.into_iter().zip(otherwise) {
            let types = [&then, &otherwise].map(|value| match value {
                Passed::Tensor(node) => Some(self.calls.graph().node(*node).ty.clone()),
                _ => None,
            });
            if types[0] != types[1] || types[0].is_none() {
                let what = "its condition is not known when the model is compiled, and its branches give different types";
                return Err(site.fails(what));
            }
            chosen.push(self.library(
                site,
                "OnnxWhere",
                vec![],
                vec![condition.clone(), then, otherwise],
            )?);
        }
        Ok(chosen)
    }

    /// Imports an inner graph of the node, once.
    pub(super) fn within(
        &mut self,
        site: &Site<'_, 'p>,
        graph: &'p proto::Graph,
        inputs: Vec<Passed>,
    ) -> Result<Vec<Passed>, OnnxError> {
        self.count(site.node).map_err(|what| site.fails(what))?;
        self.body(graph, inputs, site.opsets, &format!("{}.", title(site.node)), site.outer)
    }

    pub(super) fn turns(
        &mut self,
        site: &Site<'_, 'p>,
        inputs: &[Passed],
    ) -> Result<Vec<Passed>, OnnxError> {
        let body = site.graph("body")?;
        let most = match inputs.first() {
            None | Some(Passed::Nothing) => i64::MAX,
            Some(value) => self.number(site, value, "how often it turns")?,
        };
        let mut goes_on = match inputs.get(1) {
            None | Some(Passed::Nothing) => Passed::Bool(true),
            Some(value) => value.clone(),
        };
        let mut carried: Vec<Passed> = inputs.iter().skip(2).cloned().collect();
        let mut stacked: Vec<Vec<Passed>> =
            vec![Vec::new(); body.outputs.len().saturating_sub(1 + carried.len())];
        for turn in 0.. {
            if turn >= most || self.number(site, &goes_on, "whether it goes on")? == 0 {
                break;
            }
            let mut given = vec![Passed::Int(turn), goes_on.clone()];
            given.extend(carried.iter().cloned());
            let mut outputs = self.within(site, body, given)?.into_iter();
            // A body that passes on its condition input keeps the condition known.
            goes_on = outputs.next().unwrap_or(Passed::Bool(false));
            carried.iter_mut().zip(&mut outputs).for_each(|(value, next)| *value = next);
            for (all, part) in stacked.iter_mut().zip(outputs) {
                all.push(self.unsqueezed(site, part, 0)?);
            }
        }
        if stacked.iter().any(Vec::is_empty) {
            stacked = self.stacked_types(site, body, goes_on, &carried)?;
        }
        for all in stacked {
            carried.push(self.stacked(site, all, 0)?);
        }
        Ok(carried)
    }

    /// Returns for each stacked result of a loop without turns a part of length 0. Its other sizes
    /// are those that a turn would give.
    fn stacked_types(
        &mut self,
        site: &Site<'_, 'p>,
        body: &'p proto::Graph,
        goes_on: Passed,
        carried: &[Passed],
    ) -> Result<Vec<Vec<Passed>>, OnnxError> {
        let given = [&[Passed::Int(0), goes_on], carried].concat();
        let outputs = self.within(site, body, given)?;
        let none = Tensor::zeros(TensorType::new(DType::I64, [0]));
        let none = none.ok_or_else(|| site.fails("there is no memory"))?;
        let none = self.calls.constant(&none).map_err(|error| site.fails(sentence(&error)))?;
        let mut parts = Vec::new();
        for part in outputs.into_iter().skip(1 + carried.len()) {
            let one = self.unsqueezed(site, part, 0)?;
            let axis = vec![("axis".to_owned(), Passed::Int(0))];
            let inputs = vec![one, Passed::Tensor(none)];
            parts.push(vec![self.library(site, "OnnxGather", axis, inputs)?]);
        }
        Ok(parts)
    }

    pub(super) fn scan(
        &mut self,
        site: &Site<'_, 'p>,
        mut inputs: Vec<Passed>,
    ) -> Result<Vec<Passed>, OnnxError> {
        let body = site.graph("body")?;
        if site.opsets.get("").is_some_and(|&version| version < 9) {
            return Err(site.fails("Scan is supported from version 9 on"));
        }
        let sequences = site.int("num_scan_inputs", 0);
        let carries =
            usize::try_from(sequences).ok().and_then(|count| inputs.len().checked_sub(count));
        let carries =
            carries.ok_or_else(|| site.fails(format!("it has {} inputs", inputs.len())))?;
        let sequences = inputs.split_off(carries);
        let at = |list: &[i64], number: usize| list.get(number).copied().unwrap_or(0);
        let mut length = None;
        for (number, sequence) in sequences.iter().enumerate() {
            let size = self.along(site, sequence, at(site.ints("scan_input_axes"), number))?;
            if length.replace(size).is_some_and(|length| length != size) {
                return Err(site.fails("its sequences are not of one length"));
            }
        }
        let length = length.ok_or_else(|| site.fails("it has no sequence"))? as i64;
        let mut carried = inputs;
        let mut stacked: Vec<Vec<Passed>> =
            vec![Vec::new(); body.outputs.len().saturating_sub(carried.len())];
        for turn in 0..length {
            let mut given = carried.clone();
            for (number, sequence) in sequences.iter().enumerate() {
                let place = if at(site.ints("scan_input_directions"), number) == 0 {
                    turn
                } else {
                    length - 1 - turn
                };
                let axis = vec![(
                    "axis".to_owned(),
                    Passed::Int(at(site.ints("scan_input_axes"), number)),
                )];
                given.push(self.library(
                    site,
                    "OnnxGather",
                    axis,
                    vec![sequence.clone(), Passed::Int(place)],
                )?);
            }
            let mut outputs = self.within(site, body, given)?.into_iter();
            carried.iter_mut().zip(&mut outputs).for_each(|(value, next)| *value = next);
            for (number, (all, part)) in stacked.iter_mut().zip(outputs).enumerate() {
                all.push(self.unsqueezed(site, part, at(site.ints("scan_output_axes"), number))?);
            }
        }
        for (number, mut all) in stacked.into_iter().enumerate() {
            if at(site.ints("scan_output_directions"), number) != 0 {
                all.reverse();
            }
            carried.push(self.stacked(site, all, at(site.ints("scan_output_axes"), number))?);
        }
        Ok(carried)
    }

    /// Concatenates the results of a loop's iterations along their new axis.
    pub(super) fn stacked(
        &mut self,
        site: &Site,
        turns: Vec<Passed>,
        axis: i64,
    ) -> Result<Passed, OnnxError> {
        if turns.is_empty() {
            return Err(
                site.fails("it never turns, so that the shape of what it stacks is not known")
            );
        }
        self.joined(site, turns, axis)
    }
}
