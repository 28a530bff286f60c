//! [`Scores`]: the form of a classifier's outputs, probabilities or logits.

#[cfg(feature = "compile")]
use tile_lang::ast::{Expr, ExprKind, Function, StatementKind};

#[cfg(feature = "compile")]
use crate::model::Model;

/// The form of a classifier's scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "pack", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "pack", serde(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum Scores {
    /// Numbers from 0 to 1, which sum to 1 over the classes of a softmax.
    Probabilities,
    /// The arguments of a softmax, or of a sigmoid for one score of two classes.
    Logits,
}

impl Scores {
    /// Returns the forms of a model's outputs, derived from the losses of its `train` block. `None`
    /// stands for an output whose loss is no cross-entropy, or without a loss. Without a block, the
    /// list is empty.
    #[cfg(feature = "compile")]
    pub fn of_outputs(model: &Model, entry: Option<&str>) -> Vec<Option<Scores>> {
        let program = model.program();
        let Ok(function) = program.entry(entry) else { return Vec::new() };
        let Some(block) = program.training(function) else { return Vec::new() };
        let loss = loss_of(block);
        match loss.map(|loss| &loss.kind) {
            Some(ExprKind::List(losses)) => losses.iter().map(of_loss).collect(),
            _ => vec![loss.and_then(of_loss); function.outputs.len()],
        }
    }

    /// Computes the probabilities of all classes from the scores of a sample. A single score is
    /// that of the second of two classes.
    pub fn probabilities(self, scores: &[f64]) -> Vec<f64> {
        let second = |p: f64| vec![1.0 - p, p];
        match (self, scores) {
            (Scores::Probabilities, &[p]) => second(p),
            (Scores::Probabilities, scores) => scores.to_vec(),
            (Scores::Logits, &[x]) => second(1.0 / (1.0 + (-x).exp())),
            (Scores::Logits, scores) => {
                let greatest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let weights: Vec<f64> =
                    scores.iter().map(|score| (score - greatest).exp()).collect();
                let sum: f64 = weights.iter().sum();
                weights.into_iter().map(|weight| weight / sum).collect()
            }
        }
    }
}

/// Returns the value that a `train` block gives to `loss`.
#[cfg(feature = "compile")]
fn loss_of(block: &Function) -> Option<&Expr> {
    block.body.iter().find_map(|statement| match &statement.kind {
        StatementKind::Assign { targets, value }
            if targets.iter().any(|target| target.name == "loss") =>
        {
            Some(value)
        }
        _ => None,
    })
}

#[cfg(feature = "compile")]
fn of_loss(loss: &Expr) -> Option<Scores> {
    match &loss.kind {
        ExprKind::Name(name) => {
            name.name.to_ascii_lowercase().contains("crossentropy").then_some(Scores::Probabilities)
        }
        ExprKind::Call { callee, arguments } => {
            let form = of_loss(callee)?;
            let from_logits = arguments.iter().any(|argument| {
                let is_named =
                    argument.name.as_ref().is_some_and(|name| name.name == "from_logits");
                is_named
                    && matches!(&argument.value.kind, ExprKind::Name(value) if value.name == "true")
            });
            Some(if from_logits { Scores::Logits } else { form })
        }
        _ => None,
    }
}

#[cfg(all(test, feature = "compile"))]
mod tests {
    use super::*;

    fn scores(loss: &str) -> Option<Scores> {
        let source = format!(
            "model M(X[N, 2]) -> (Y) {{ Y = X |> Dense(2); }}\ntrain M {{ loss = {loss}; }}"
        );
        Scores::of_outputs(&Model::compile(&source).unwrap(), None)[0]
    }

    #[test]
    fn losses() {
        assert_eq!(
            scores("SparseCategoricalCrossentropy(from_logits = true)"),
            Some(Scores::Logits)
        );
        assert_eq!(
            scores("CategoricalCrossentropy(label_smoothing = 0.1)"),
            Some(Scores::Probabilities)
        );
        assert_eq!(scores("binary_crossentropy(from_logits = false)"), Some(Scores::Probabilities));
        assert_eq!(scores("MeanSquaredError"), None);
        let two = "model M(X[N, 2]) -> (Y, Z) { Y = X |> Dense(2); Z = X; }
            train M { loss = [MeanSquaredError(), SparseCategoricalCrossentropy()]; }";
        let forms = Scores::of_outputs(&Model::compile(two).unwrap(), None);
        assert_eq!(forms, [None, Some(Scores::Probabilities)]);
    }

    #[test]
    fn probabilities() {
        assert_eq!(Scores::Logits.probabilities(&[0.0]), [0.5, 0.5]);
        assert_eq!(Scores::Logits.probabilities(&[1000.0, 1000.0]), [0.5, 0.5]);
        assert_eq!(Scores::Probabilities.probabilities(&[0.25]), [0.75, 0.25]);
    }
}
