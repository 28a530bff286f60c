//! Checks that apply only to optimizers, losses, metrics and `train` blocks.

use crate::ast::{DimKind, ExprKind, Function, FunctionKind, Ident, SETTINGS, StatementKind};
use crate::check::function::Checker;
use crate::check::scope::Origin;
use crate::check::walk::walk;
use crate::diagnostic::Diagnostic;
use crate::foreign::setting_help;
use crate::suggest::listed;

impl Checker<'_, '_> {
    /// Checks a definition's header, or the settings of a `train` block. Runs after the body is
    /// checked.
    pub fn training(&mut self) {
        let function = self.function;
        let (expected, wanted) = match function.kind {
            FunctionKind::Optimizer => (
                2..=2,
                "the inputs are a trained weight and its gradient, as in `optimizer Sgd(lr = 0.01)(P, G) { … }`",
            ),
            FunctionKind::Loss => (
                1..=usize::MAX,
                "the inputs are the predictions and the targets, as in `loss Error()(Predicted, Target) -> (L) { … }`, \
                 or the predictions alone",
            ),
            FunctionKind::Metric => (
                1..=usize::MAX,
                "the inputs are the predictions and the targets, as in `metric Error()(Predicted, Target) -> (Value) \
                 { … }`, or the predictions alone",
            ),
            FunctionKind::Train => return self.settings(),
            FunctionKind::Function | FunctionKind::Layer | FunctionKind::Model => return,
        };
        let keyword = function.kind.keyword();
        if !expected.contains(&function.inputs.len()) {
            let message =
                format!("expected 2 inputs of this {keyword}, found {}", function.inputs.len());
            self.error(Diagnostic::error("E0132", function.place(), message).help(wanted));
        }
        if let (FunctionKind::Loss | FunctionKind::Metric, [first, second, ..]) =
            (function.kind, function.inputs.as_slice())
            && is_of_targets(&first.name.name)
            && !is_of_targets(&second.name.name)
        {
            let message = format!(
                "the first input of a {keyword} is the predictions, and this is called `{}`",
                first.name.name
            );
            let help = format!("write `({}, {})`", second.name.name, first.name.name);
            self.error(Diagnostic::warning("W0103", first.span, message).help(help));
        }
    }

    /// Checks that a `train` block names a model, and assigns only to known settings.
    fn settings(&mut self) {
        if let Some(name) = &self.function.name {
            let model = self.program.callee_index(&name.name, self.function);
            let is_model = model.is_some_and(|index| {
                self.program.all_functions()[index].kind == FunctionKind::Model
            });
            if let (true, Some(index)) = (is_model, model) {
                self.losses(&self.program.all_functions()[index]);
                self.axis_of_samples(&self.program.all_functions()[index]);
            }
            if !is_model && self.all_read {
                let models = self
                    .program
                    .written_functions()
                    .iter()
                    .filter(|other| other.kind == FunctionKind::Model);
                let names = models.filter_map(|model| Some(model.name.as_ref()?.name.as_str()));
                let suggestion = self.suggestion(&name.name, names);
                self.error_with(
                    Diagnostic::error("E0133", name.span, format!("unknown model `{}`", name.name)),
                    suggestion,
                    "`train` takes the name of a model of this file or of an imported one",
                );
            }
        }
        self.set_twice();
        SETTINGS.iter().for_each(|name| self.scope.mark_used(name));
        let unused: Vec<_> = self.scope.unused().map(|(name, value)| (name, *value)).collect();
        for (name, value) in
            unused.into_iter().filter(|(_, value)| value.origin == Origin::Statement)
        {
            let error = Diagnostic::error("E0134", value.span, format!("unknown setting `{name}`"));
            let suggestion =
                setting_help(name).map(str::to_owned).or_else(|| self.suggestion(name, SETTINGS));
            self.error_with(error, suggestion, &format!("the settings are {}", listed(&SETTINGS)));
            self.scope.mark_used(name);
        }
    }

    /// Warns of a model whose inputs have no axis of any size, along which samples lie.
    fn axis_of_samples(&mut self, model: &Function) {
        for input in &model.inputs {
            let Some([first, ..]) = input.dims.as_deref() else { continue };
            let DimKind::Size(size) = first.kind else { continue };
            let name = &input.name.name;
            let message = format!(
                "the first axis of `{name}` is that of the samples, and has the size {size}"
            );
            let rest = input.dims.iter().flatten().map(|dim| dim.kind.to_string());
            let sizes: Vec<String> = rest.collect();
            let help = format!("write `{name}[N, {}]`", sizes.join(", "));
            let warning = Diagnostic::warning("W0104", first.span, message);
            self.error(warning.help(help));
        }
    }

    /// Warns of a setting that another one replaces.
    fn set_twice(&mut self) {
        let mut seen: Vec<&Ident> = Vec::new();
        for statement in &self.function.body {
            let StatementKind::Assign { targets, value } = &statement.kind else { continue };
            let is_read = |name: &Ident| {
                let mut found = false;
                walk(value, &mut |part| {
                    found |= matches!(&part.kind, ExprKind::Name(other) if other.name == name.name);
                });
                found
            };
            for target in targets.iter().filter(|target| SETTINGS.contains(&target.name.as_str())) {
                let first = seen.iter().find(|first| first.name == target.name);
                if let Some(first) = first.filter(|first| !is_read(first)) {
                    let message =
                        format!("`{}` is set twice: only the last one counts", target.name);
                    let warning = Diagnostic::warning("W0104", target.span, message);
                    let warning = warning.also(first.span, "this one has no effect");
                    self.diagnostics.push(warning.help("remove one of the two"));
                }
                seen.retain(|first| first.name != target.name);
                seen.push(target);
            }
        }
    }
}

/// Returns whether a name is one that targets have in other libraries.
fn is_of_targets(name: &str) -> bool {
    const NAMES: [&str; 9] =
        ["ytrue", "target", "targets", "label", "labels", "true", "truth", "y_true", "actual"];
    NAMES.contains(&name.to_ascii_lowercase().as_str())
}
