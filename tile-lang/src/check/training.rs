//! What only optimizers, losses, metrics and `train` blocks have to keep to.

use crate::ast::{FunctionKind, SETTINGS};
use crate::check::function::Checker;
use crate::check::scope::Origin;
use crate::diagnostic::Diagnostic;
use crate::suggest::did_you_mean;

impl Checker<'_, '_> {
    /// Checks a definition's header, or what a `train` block sets, after its body.
    pub fn training(&mut self) {
        let function = self.function;
        let wanted = match function.kind {
            FunctionKind::Optimizer => {
                "a trained weight and its gradient, as in `optimizer Sgd(lr = 0.01)(P, G) { … }`"
            }
            FunctionKind::Loss => {
                "what is given and what should be, as in `loss Error()(Predicted, Target) -> (L) { … }`"
            }
            FunctionKind::Metric => {
                "what is given and what should be, as in `metric Error()(Predicted, Target) -> (Value) { … }`"
            }
            FunctionKind::Train => return self.settings(),
            FunctionKind::Function | FunctionKind::Layer | FunctionKind::Model => return,
        };
        let keyword = function.kind.keyword();
        if function.inputs.len() < 2 || function.kind == FunctionKind::Optimizer && function.inputs.len() > 2 {
            let place = function.name.as_ref().map_or(function.span, |name| name.span);
            let count = function.inputs.len();
            let message = format!("this {keyword} has {count} input{}", if count == 1 { "" } else { "s" });
            self.error(Diagnostic::error("E0132", place, message).help(format!("its inputs are {wanted}")));
        }
    }

    /// A `train` block is of a model, and sets nothing but what there is to set.
    fn settings(&mut self) {
        if let Some(name) = &self.function.name {
            let model = self.program.callee_index(&name.name, self.function);
            let is_model = model.is_some_and(|index| self.program.all_functions()[index].kind == FunctionKind::Model);
            if !is_model && self.all_read {
                let models = self.program.written_functions().iter().filter(|other| other.kind == FunctionKind::Model);
                let names = models.filter_map(|model| Some(model.name.as_ref()?.name.as_str()));
                let suggestion = did_you_mean(&name.name, names);
                self.error_with(
                    Diagnostic::error("E0133", name.span, format!("there is no model `{}`", name.name)),
                    suggestion,
                    "`train` names a model of this file or of one that it imports",
                );
            }
        }
        SETTINGS.iter().for_each(|name| self.scope.mark_used(name));
        let unused: Vec<_> = self.scope.unused().map(|(name, value)| (name, *value)).collect();
        for (name, value) in unused.into_iter().filter(|(_, value)| value.origin == Origin::Statement) {
            let error = Diagnostic::error("E0134", value.span, format!("`train` has no setting `{name}`"));
            let all = SETTINGS.join(", ");
            self.error_with(error, did_you_mean(name, SETTINGS), &format!("its settings are {all}"));
            self.scope.mark_used(name);
        }
    }
}
