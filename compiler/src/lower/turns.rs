//! Models trained in turn: the settings that their `train` blocks have in common, the weights that
//! they share, and the states that they keep apart.

use tile_lang::Program;
use tile_lang::ast::{Function, StatementKind};
use tile_lang::diagnostic::Diagnostic;
use tile_lang::span::Span;

use super::network::{Network, Role, Weight};
use super::train::{Given, Settings, given, place_of};
use crate::graph::Op;

/// Returns the settings of each of several models with `train` blocks. All but `steps` concern the
/// run of all of them: a block that does not set one takes that of another block.
///
/// # Errors
/// Two blocks set different values.
pub fn settings_in_turn(
    program: &Program,
    models: &[&Function],
) -> Result<Vec<Settings>, Vec<Diagnostic>> {
    let mut blocks: Vec<(&Function, Given)> = Vec::new();
    for model in models {
        if let Some(block) = program.training(model) {
            blocks.push((block, given(program, model, block)?));
        }
    }
    let mut common = Given::new();
    for (number, (block, values)) in blocks.iter().enumerate() {
        for (&name, &value) in values.iter().filter(|(name, _)| **name != "steps") {
            if *common.entry(name).or_insert(value) == value {
                continue;
            }
            let before = blocks[..number].iter().find(|(_, values)| values.contains_key(name));
            let message = format!(
                "the `train` blocks set different values for `{name}`, and models trained in turn have one"
            );
            let error = Diagnostic::error("E0240", place_of(block, name), message);
            let error = match before {
                Some((block, _)) => error.also(place_of(block, name), "here it has another value"),
                None => error,
            };
            return Err(vec![
                error.help("set it in one of the blocks; `--entry` trains one model"),
            ]);
        }
    }
    let of_block = |(_, values): &(&Function, Given)| {
        let own = values.iter().filter(|(name, _)| **name == "steps");
        let all: Given = common.iter().chain(own).map(|(name, value)| (*name, *value)).collect();
        Settings::of(&all)
    };
    Ok(blocks.iter().map(of_block).collect())
}

/// Checks that weights with the same path have the same shape in two models that are trained in
/// turn. A model is given with its weights.
///
/// # Errors
/// Names the first weight that differs, with its place in both models.
pub fn check_shared(
    first: (&Function, &[Weight]),
    second: (&Function, &[Weight]),
) -> Result<(), Diagnostic> {
    for weight in second.1 {
        let path = &weight.path;
        let Some(other) = first.1.iter().find(|other| other.path == *path) else { continue };
        if other.ty == weight.ty && other.kind == weight.kind {
            continue;
        }
        let [one, two] =
            [first.0, second.0].map(|model| model.name.as_ref().map_or("", |name| &name.name));
        let described = |weight: &Weight| format!("a {} {}", weight.kind.keyword(), weight.ty);
        let message = format!(
            "`{path}` is {} in `{one}`, and {} in `{two}`, which is trained in turn with it",
            described(other),
            described(weight)
        );
        return Err(Diagnostic::error("E0230", place_in(second.0, path), message)
            .also(place_in(first.0, path), format!("here in `{one}`"))
            .help("parts with the same name are one part for both: give one of them another name, or train one model with `--entry`"));
    }
    Ok(())
}

/// Returns the place in a model's body that names the part with this path, or else the model's.
fn place_in(model: &Function, path: &str) -> Span {
    let part = path.split(['.', '[']).next().unwrap_or(path);
    let named = model.body.iter().find_map(|statement| match &statement.kind {
        StatementKind::Assign { targets, .. } => targets.iter().find(|name| name.name == part),
        StatementKind::Weight(weight) => Some(&weight.name).filter(|name| name.name == part),
        _ => None,
    });
    named.map_or_else(|| model.place(), |name| name.span)
}

impl Network {
    /// Returns the path that a weight of an optimizer, a metric or a loss has in the steps of
    /// `model`, which is trained in turn with others: `train.Generate.optimizer.…`,
    /// `loss.Generate[0].…`. [`Network::FAILED`] is shared, so that a failed step stops the steps
    /// of all models.
    pub fn in_turn(model: &str, path: &str) -> String {
        let first = path.find(['.', '[']).unwrap_or(path.len());
        match path == Network::FAILED {
            true => path.to_owned(),
            false => format!("{}.{model}{}", &path[..first], &path[first..]),
        }
    }

    /// Gives the weights of the optimizer, the loss and the metrics paths that those of other
    /// models do not have: see [`Network::in_turn`].
    pub fn keep_apart(&mut self, model: &str) {
        let Network { graph, weights, initial, .. } = self;
        for weight in weights {
            if weight.role == Role::Model {
                continue;
            }
            let path = Network::in_turn(model, &weight.path);
            for (output, _) in graph.outputs.iter_mut().chain(&mut initial.outputs) {
                if *output == weight.path {
                    output.clone_from(&path);
                }
            }
            graph.node_mut(weight.node).op = Op::Weight(path.clone());
            weight.path = path;
        }
    }
}
