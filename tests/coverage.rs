//! The table of golden/steps is complete: each library name that Keras also has, and each of its
//! options, is in a case, or in golden/steps/exceptions.txt with a reason. An option counts if a
//! case gives it another value than its default. An option with choices needs a case for each of
//! them.
//!
//! Conversely, the library has each name and each option of Keras that concerns training, or
//! golden/steps/absent.txt has a reason.
//!
//! A line of exceptions.txt or absent.txt is `NAME: reason`, `NAME.option: reason` or
//! `NAME.option=choice: reason`; `*` stands for any name or option.

mod common;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use common::golden::{Case, path, text};
use tile_lang::ast::{
    Argument, Expr, ExprKind, Function, FunctionKind, Input, Statement, StatementKind,
};

/// A hyper-parameter or an input of a definition.
struct Choice {
    name: String,
    /// Whether a case must set it: a hyper-parameter, or an input that has a default.
    wanted: bool,
    default: Option<String>,
    values: Vec<String>,
}

/// A definition of the library that Keras has under the same name.
#[derive(Default)]
struct Definition {
    parameters: Vec<Choice>,
    inputs: Vec<Choice>,
}

fn text_of(expr: &Expr, source: &str) -> String {
    source[expr.span.start as usize..expr.span.end as usize].trim_matches('"').to_owned()
}

fn choice(input: &Input, source: &str, wanted: bool) -> Choice {
    let values = match input.choices.as_ref().map(|choices| &choices.kind) {
        Some(ExprKind::List(items)) => items.iter().map(|item| text_of(item, source)).collect(),
        _ => Vec::new(),
    };
    let default = input.default.as_ref().map(|default| text_of(default, source));
    Choice { name: input.name.name.clone(), wanted, default, values }
}

/// The names that both the library and Keras have, and the targets of aliases.
struct Library {
    definitions: BTreeMap<String, Definition>,
    aliases: HashMap<String, String>,
}

impl Library {
    fn new() -> Library {
        let signatures = text("keras_signatures.txt");
        let keras: BTreeSet<&str> =
            signatures.lines().filter_map(|line| Some(line.split_once('(')?.0)).collect();
        let mut library = Library { definitions: BTreeMap::new(), aliases: HashMap::new() };
        for file in tile_lang::LIBRARY.iter() {
            let parsed = tile_lang::parse(file.text).file;
            for alias in parsed.aliases {
                library.aliases.insert(alias.name.name, alias.target.name);
            }
            for function in parsed.functions {
                let Some(name) = function.name.as_ref().map(|name| name.name.clone()) else {
                    continue;
                };
                if !file.name.starts_with("onnx_") && keras.contains(name.as_str()) {
                    library.definitions.insert(name, definition(&function, file.text));
                }
            }
        }
        library
    }

    /// Returns the definition that a name stands for. A text may name a class: `"adam"`.
    fn resolved<'a>(&'a self, name: &'a str) -> &'a str {
        self.aliases.get(name).map_or(name, String::as_str)
    }

    /// Returns everything that a case must contain: `NAME`, `NAME.option`, `NAME.option=choice`.
    fn wanted(&self) -> BTreeSet<String> {
        let mut wanted = BTreeSet::new();
        for (name, definition) in &self.definitions {
            wanted.insert(name.clone());
            for option in definition
                .parameters
                .iter()
                .chain(&definition.inputs)
                .filter(|option| option.wanted)
            {
                let full = format!("{name}.{}", option.name);
                let others =
                    option.values.iter().filter(|value| Some(*value) != option.default.as_ref());
                wanted.extend(others.map(|value| format!("{full}={value}")));
                if option.values.is_empty() {
                    wanted.insert(full);
                }
            }
        }
        wanted
    }
}

fn definition(function: &Function, source: &str) -> Definition {
    let parameters =
        function.parameters.iter().flatten().map(|input| choice(input, source, true)).collect();
    // The inputs of functions, losses and metrics are always given.
    let optional = |input: &Input| function.kind == FunctionKind::Layer && input.default.is_some();
    let inputs =
        function.inputs.iter().map(|input| choice(input, source, optional(input))).collect();
    Definition { parameters, inputs }
}

/// The contents of the cases.
struct Found<'l> {
    library: &'l Library,
    found: BTreeSet<String>,
    /// The class of each instance of the current case.
    instances: HashMap<String, String>,
}

impl Found<'_> {
    fn case(&mut self, case: &Case) {
        let settings = case.of("set").map(|(name, value)| format!("{name} = {value};"));
        let source =
            format!("model Case(X) -> (Y) {{\n{}{}}}\n", case.body, settings.collect::<String>());
        self.instances.clear();
        for function in tile_lang::parse(&source).file.functions {
            for statement in &function.body {
                self.statement(statement, &source);
            }
        }
    }

    fn statement(&mut self, statement: &Statement, source: &str) {
        let StatementKind::Assign { targets, value } = &statement.kind else { return };
        if let (ExprKind::Call { callee, .. }, [target]) = (&value.kind, &targets[..])
            && let ExprKind::Name(class) = &callee.kind
        {
            self.instances
                .insert(target.name.clone(), self.library.resolved(&class.name).to_owned());
        }
        self.expr(value, source);
    }

    fn expr(&mut self, expr: &Expr, source: &str) {
        match &expr.kind {
            ExprKind::Name(name) => {
                self.found.insert(self.library.resolved(&name.name).to_owned());
            }
            ExprKind::Text(text) => {
                self.found.insert(self.library.resolved(text).to_owned());
            }
            ExprKind::List(items) => items.iter().for_each(|item| self.expr(item, source)),
            ExprKind::Call { callee, arguments } => {
                self.expr(callee, source);
                arguments.iter().for_each(|argument| self.expr(&argument.value, source));
                match &callee.kind {
                    ExprKind::Name(name) => self.call(&name.name, arguments, source),
                    // `Dense(2)(X)`: a call with the inputs.
                    ExprKind::Call { callee, .. } => {
                        if let ExprKind::Name(name) = &callee.kind {
                            self.options(&name.name.clone(), arguments, source, true);
                        }
                    }
                    _ => {}
                }
            }
            ExprKind::Unary { operand, .. } => self.expr(operand, source),
            ExprKind::Binary { left, right, .. } => {
                self.expr(left, source);
                self.expr(right, source);
            }
            _ => {}
        }
    }

    fn call(&mut self, name: &str, arguments: &[Argument], source: &str) {
        match self.instances.get(name).cloned() {
            Some(class) if !self.library.definitions.contains_key(name) => {
                self.options(&class, arguments, source, true)
            }
            _ => self.options(name, arguments, source, false),
        }
    }

    fn options(&mut self, name: &str, arguments: &[Argument], source: &str, inputs: bool) {
        let name = self.library.resolved(name);
        let Some(definition) = self.library.definitions.get(name) else { return };
        let options = if inputs { &definition.inputs } else { &definition.parameters };
        for (place, argument) in arguments.iter().enumerate() {
            let option = match &argument.name {
                Some(given) => options.iter().find(|option| option.name == given.name),
                None => options.get(place),
            };
            let (Some(option), value) = (option, text_of(&argument.value, source)) else {
                continue;
            };
            if option.default.as_ref() != Some(&value) {
                let full = format!("{name}.{}", option.name);
                self.found.insert(if option.values.is_empty() {
                    full
                } else {
                    format!("{full}={value}")
                });
            }
        }
    }
}

/// Returns whether an exception covers `name`.
fn excepts(exception: &str, name: &str) -> bool {
    match (exception.split_once('.'), name.split_once('.')) {
        _ if exception == name => true,
        // An exception for a name covers all of its options.
        (None, Some((class, _))) => exception == class,
        (Some((class, option)), Some((other, rest))) => {
            (class == "*" || class == other)
                && (option == "*"
                    || option == rest
                    || rest.split_once('=').is_some_and(|(name, _)| name == option))
        }
        _ => false,
    }
}

#[test]
fn every_option_has_a_case() {
    let library = Library::new();
    let mut found = Found { library: &library, found: BTreeSet::new(), instances: HashMap::new() };
    let (mut cases, mut families) = (0, 0);
    for entry in std::fs::read_dir(path("steps")).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        if file.ends_with(".npz") {
            families += 1;
            for case in Case::all(&format!("steps/{}", file.replace(".npz", ".txt"))) {
                cases += 1;
                found.case(&case);
            }
        }
    }
    let wanted = library.wanted();
    let missing: Vec<&String> = wanted.iter().filter(|name| !found.found.contains(*name)).collect();
    let covered = |with_option: bool| {
        let all = wanted.iter().filter(|name| name.contains('.') == with_option);
        (all.clone().filter(|name| found.found.contains(*name)).count(), all.count())
    };
    println!(
        "{cases} cases of {families} families: names {:?}, options {:?}",
        covered(false),
        covered(true)
    );
    assert_explained(&missing, "steps/exceptions.txt");
}

/// Asserts that a file of exceptions covers exactly the missing names and options.
fn assert_explained(missing: &[&String], file: &str) {
    let exceptions = text(file);
    let exceptions: Vec<&str> = exceptions
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| Some(line.split_once(": ")?.0))
        .collect();
    let unexplained: Vec<&&String> = missing
        .iter()
        .filter(|name| !exceptions.iter().any(|exception| excepts(exception, name)))
        .collect();
    let needless: Vec<&&str> = exceptions
        .iter()
        .filter(|exception| !missing.iter().any(|name| excepts(exception, name)))
        .collect();
    assert!(unexplained.is_empty(), "missing without a reason: {unexplained:#?}");
    assert!(needless.is_empty(), "not missing, or no such name or option, in {file}: {needless:?}");
}

/// Returns the names of options in a signature: `a = [0, 1], b`.
fn option_names(signature: &str) -> Vec<&str> {
    let mut depth = 0;
    let items = signature.split(|c| {
        depth += i32::from(c == '[') - i32::from(c == ']');
        c == ',' && depth == 0
    });
    items.filter_map(|item| item.split_whitespace().next()).collect()
}

#[test]
fn every_option_of_training_is_there() {
    let library = Library::new();
    let signatures = text("keras_signatures.txt");
    let mut section = "";
    let mut missing = BTreeSet::new();
    for line in signatures.lines() {
        section = line.strip_prefix("# ").unwrap_or(section);
        let Some((name, options)) = line.split_once('(') else { continue };
        if !["losses", "metrics", "optimizers", "schedules"].contains(&section) {
            continue;
        }
        let Some(definition) = library.definitions.get(library.resolved(name)) else {
            missing.insert(name.to_owned());
            continue;
        };
        let known = |option: &&str| {
            definition.parameters.iter().any(|parameter| parameter.name == **option)
        };
        let options = option_names(options.trim_end_matches(')'));
        missing.extend(
            options.iter().filter(|option| !known(option)).map(|option| format!("{name}.{option}")),
        );
    }
    assert_explained(&missing.iter().collect::<Vec<_>>(), "steps/absent.txt");
}
