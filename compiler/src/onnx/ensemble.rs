//! `TreeEnsemble`, `TreeEnsembleRegressor` and `TreeEnsembleClassifier`: calls of the library on
//! the tables of `trees.rs`.

use super::control::Site;
use super::import::{Importer, sentence};
use super::model::{OnnxError, title};
use super::tensor;
use super::trees::{Attributes, Trees, by_ids, by_places};
use crate::dtype::DType;
use crate::lower::Passed;
use crate::tensor::Tensor;

/// The operator of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ensemble {
    Places,
    Regressor,
    Classifier,
}

impl<'p> Importer<'p> {
    pub(super) fn ensemble(
        &mut self,
        site: &Site<'_, 'p>,
        kind: Ensemble,
        input: Passed,
    ) -> Result<Vec<Passed>, OnnxError> {
        let given = Attributes { given: &site.attributes, loader: self.loader };
        let labels = site.ints("classlabels_int64s").to_vec();
        let names =
            site.attribute("classlabels_strings").map_or(0, |attribute| attribute.texts.len());
        // The index of a class represents its name.
        let labels = if names > 0 { (0..names as i64).collect() } else { labels };
        let targets = || {
            usize::try_from(given.int("n_targets", 1))
                .map_err(|_| "it has less than no targets".to_owned())
        };
        let trees = match kind {
            Ensemble::Places => targets().and_then(|targets| by_places(&given, targets)),
            Ensemble::Regressor => targets().and_then(|targets| by_ids(&given, "target", targets)),
            Ensemble::Classifier => by_ids(&given, "class", labels.len()),
        };
        let trees = trees.map_err(|what| site.fails(what))?;
        let node = self.calls.tensor(&input).map_err(|error| site.fails(sentence(&error)))?;
        let ty = self.calls.graph().node(node).ty.clone();
        if ty.shape.last().is_none_or(|&features| trees.largest_feature >= features) {
            let largest = trees.largest_feature;
            return Err(site
                .fails(format!("its trees look at the feature {largest}, and its input is {ty}")));
        }
        let [leaves, scores] = self.tree_scores(site, &trees, input)?;
        let bases =
            Passed::List(trees.base_values.iter().map(|&value| Passed::Float(value)).collect());
        let mut parameters = vec![
            ("base_values".to_owned(), bases),
            ("post_transform".to_owned(), Passed::Text(trees.transform.clone())),
        ];
        if kind != Ensemble::Classifier {
            let dtype = if kind == Ensemble::Places { trees.scores.dtype() } else { DType::F32 };
            parameters.push(("type".to_owned(), Passed::Int(tensor::number(dtype))));
            return Ok(vec![self.library(
                site,
                "onnx_tree_regression",
                parameters,
                vec![scores],
            )?]);
        }
        let counts = match &trees.has {
            Some(has) => {
                let has = self.table(site, "has", has)?;
                self.library(site, "onnx_tree_scores", vec![], vec![leaves, has])?
            }
            None => {
                let all = trees.all_have.iter().map(|&has| Passed::Int(has.into())).collect();
                self.calls
                    .tensor(&Passed::List(all))
                    .map(Passed::Tensor)
                    .map_err(|error| site.fails(sentence(&error)))?
            }
        };
        let is_binary = labels.len() == 2 && trees.targets_with_scores == 1;
        parameters.push((
            "labels".to_owned(),
            Passed::List(labels.into_iter().map(Passed::Int).collect()),
        ));
        parameters.push(("is_binary".to_owned(), Passed::Bool(is_binary)));
        parameters.push(("is_positive".to_owned(), Passed::Bool(trees.is_positive)));
        match self.library(site, "onnx_tree_classes", parameters, vec![scores, counts])? {
            Passed::List(outputs) => Ok(outputs),
            output => Ok(vec![output]),
        }
    }

    /// Computes the leaves that each row of the input reaches, and the sums of their scores.
    fn tree_scores(
        &mut self,
        site: &Site<'_, 'p>,
        trees: &Trees,
        input: Passed,
    ) -> Result<[Passed; 2], OnnxError> {
        let mut inputs = vec![input];
        let tables = [
            ("roots", Some(&trees.roots)),
            ("features", Some(&trees.features)),
            ("splits", Some(&trees.splits)),
            ("yes", Some(&trees.yes)),
            ("no", Some(&trees.no)),
            ("modes", trees.modes.as_ref()),
            ("missing", trees.missing.as_ref()),
        ];
        for (name, tensor) in tables {
            inputs.push(match tensor {
                Some(tensor) => self.table(site, name, tensor)?,
                None => Passed::Nothing,
            });
        }
        let depth = ("depth".to_owned(), Passed::Int(trees.depth as i64));
        let mode = ("mode".to_owned(), Passed::Int(trees.mode as i64));
        let leaves = self.library(site, "onnx_tree_leaves", vec![depth, mode], inputs)?;
        let scores = self.table(site, "scores", &trees.scores)?;
        let aggregate = vec![("aggregate".to_owned(), Passed::Text(trees.aggregate.to_owned()))];
        let scores =
            self.library(site, "onnx_tree_scores", aggregate, vec![leaves.clone(), scores])?;
        Ok([leaves, scores])
    }

    /// Stores a table as a tensor of the graph.
    fn table(
        &mut self,
        site: &Site<'_, 'p>,
        name: &str,
        value: &Tensor,
    ) -> Result<Passed, OnnxError> {
        let path = format!("{}.{name}", title(site.node));
        self.stored(&tensor::stored(value), &path, false).map_err(|what| site.fails(what))
    }
}
