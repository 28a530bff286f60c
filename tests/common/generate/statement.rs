//! Random contraction statements, and their meaning by definition: for every assignment of integers
//! to the index variables for which every index and every constraint's left side is an integer in
//! range, a term at its position.

use std::collections::BTreeMap;
use std::fmt::Write;

use proptest::prelude::*;
use tile_compiler::dtype::{DType, Scalar};
use tile_compiler::tensor::{Tensor, TensorType};

use super::choices::Choices;

const NAMES: [&str; 4] = ["i", "j", "k", "l"];
/// Points are searched between `-REACH` and `REACH`.
const REACH: i64 = 100;
/// The limit on nodes of the search for points, and on points.
const WORK: usize = 20_000;

/// An index `(Σ factor * variable + constant) / divisor`, which must be an integer in `0..size`.
#[derive(Clone, Debug)]
struct Index {
    factors: Vec<i64>,
    constant: i64,
    divisor: i64,
    size: i64,
    /// Whether the division is written at each term.
    spread: bool,
}

impl Index {
    fn draw(choices: &mut Choices, variables: usize) -> Index {
        let mut factors = vec![0; variables];
        for _ in 0..choices.of(&[1, 1, 2, 1, 2, 3, 0]) {
            factors[choices.pick(variables)] = choices.of(&[1, 1, -1, 2, -2, 1, 3, -3]);
        }
        let size = choices.of(&[3, 4, 2, 5, 1, 6, 7, 9, 17]);
        let size = if choices.once_in(40) { 0 } else { size };
        let divisor = choices.of(&[1, 1, 1, 1, 2, 3]);
        // The values of most points that other indices allow are in range.
        let below: i64 =
            factors.iter().filter(|factor| **factor < 0).map(|factor| -factor * 3).sum();
        let constant = below + choices.of(&[0, 0, 1, -1, 2, -2, 5]);
        Index { factors, constant, divisor, size, spread: choices.once_in(2) }
    }

    fn text(&self) -> String {
        let divisor = if self.divisor == 1 { String::new() } else { format!("/{}", self.divisor) };
        let inner = if self.spread { divisor.as_str() } else { "" };
        let mut terms: Vec<String> = Vec::new();
        for (name, factor) in NAMES.iter().zip(&self.factors).filter(|(_, factor)| **factor != 0) {
            terms.push(if *factor == 1 {
                format!("{name}{inner}")
            } else {
                format!("{factor}*{name}{inner}")
            });
        }
        if self.constant != 0 || terms.is_empty() {
            terms.push(format!("{}{inner}", self.constant));
        }
        let sum = terms.join(" + ").replace("+ -", "- ");
        if self.spread || self.divisor == 1 { sum } else { format!("({sum}){divisor}") }
    }

    /// Returns the value if it is an integer in range.
    fn at(&self, point: &[i64]) -> Option<usize> {
        let numerator =
            self.constant + self.factors.iter().zip(point).map(|(a, x)| a * x).sum::<i64>();
        let is_valid =
            numerator % self.divisor == 0 && (0..self.size * self.divisor).contains(&numerator);
        is_valid.then_some(numerator / self.divisor).and_then(|value| usize::try_from(value).ok())
    }
}

/// The indices of an access.
type Indices = Vec<Index>;

fn place(choices: &mut Choices, variables: usize, ranks: &[usize]) -> Indices {
    (0..choices.of(ranks)).map(|_| Index::draw(choices, variables)).collect()
}

fn offset(place: &Indices, point: &[i64]) -> Option<usize> {
    place.iter().try_fold(0, |offset, index| {
        Some(offset * usize::try_from(index.size).ok()? + index.at(point)?)
    })
}

fn shape(place: &Indices) -> Vec<usize> {
    place.iter().map(|index| usize::try_from(index.size).unwrap_or(0)).collect()
}

fn texts(place: &Indices) -> String {
    place.iter().map(Index::text).collect::<Vec<_>>().join(", ")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aggregation {
    Sum,
    Product,
    Max,
    Min,
    Assign,
}

/// A program of one contraction statement. For floats it has the gradients of the sum of `O * W`.
#[derive(Clone, Debug)]
pub struct Statement {
    aggregation: Aggregation,
    dtype: DType,
    output: Indices,
    reads: Vec<Indices>,
    constraints: Indices,
    default: bool,
    pub source: String,
    pub inputs: Vec<(String, Tensor)>,
}

/// The meaning of a statement.
pub struct Meaning {
    /// The number of valid points.
    pub points: usize,
    /// Whether a position is written more than once.
    pub twice: bool,
    /// Whether all points were found, if they are finitely many.
    pub is_whole: bool,
    /// Whether a variable may be unbounded as far as single indices tell.
    pub is_open: bool,
    pub outputs: Vec<(String, Vec<f64>)>,
}

pub fn statement() -> impl Strategy<Value = Statement> {
    prop::collection::vec(any::<u32>(), 1..120)
        .prop_map(|numbers| Statement::draw(&mut Choices::new(numbers)))
}

impl Statement {
    fn draw(choices: &mut Choices) -> Statement {
        use Aggregation::{Assign, Max, Min, Product, Sum};
        let aggregation = choices.of(&[Sum, Sum, Sum, Assign, Max, Product, Min]);
        let dtype = choices.of(&[DType::F32, DType::F32, DType::I32]);
        let variables = choices.of(&[2, 3, 1, 2, 3, 4]);
        let output = place(choices, variables, &[1, 2, 2, 3, 0]);
        let reads = (0..choices.of(&[1, 2])).map(|number| {
            place(choices, variables, if number == 0 { &[1, 2, 2, 3] } else { &[1, 2, 2, 3, 0] })
        });
        let reads: Vec<Indices> = reads.collect();
        let constraints = place(choices, variables, &[0, 0, 1, 2]);
        let mut statement = Statement {
            aggregation,
            dtype,
            output,
            reads,
            constraints,
            default: choices.once_in(4),
            source: String::new(),
            inputs: Vec::new(),
        };
        statement.limit(choices, variables);
        statement.write();
        statement.fill(choices);
        statement
    }

    fn indices(&self) -> impl Iterator<Item = &Index> + Clone {
        self.output.iter().chain(self.reads.iter().flatten()).chain(&self.constraints)
    }

    /// Adds constraints for variables that no chain of indices bounds; rarely for none of them.
    fn limit(&mut self, choices: &mut Choices, variables: usize) {
        let spared = choices.once_in(8);
        for variable in 0..variables {
            let mut bounds = vec![(-REACH, REACH); variables];
            narrow(self.indices(), &mut bounds);
            if is_open(bounds[variable]) && !spared {
                let mut factors = vec![0; variables];
                factors[variable] = choices.of(&[1, 1, -1]);
                let (constant, size) = (choices.of(&[0, 2, -1]), choices.of(&[3, 5, 8]));
                self.constraints.push(Index { factors, constant, divisor: 1, size, spread: false });
            }
        }
    }

    fn has_gradient(&self) -> bool {
        self.dtype.is_float()
            && (self.reads.len() == 1
                || !matches!(self.aggregation, Aggregation::Max | Aggregation::Min))
    }

    fn names(&self) -> Vec<&'static str> {
        let mut names = ["A", "B"][..self.reads.len()].to_vec();
        names.extend(self.default.then_some("D"));
        names
    }

    fn write(&mut self) {
        let mut inputs = self.names();
        let mut outputs = vec!["O".to_owned()];
        let aggregation = match self.aggregation {
            Aggregation::Sum => "+",
            Aggregation::Product => "*",
            Aggregation::Max => ">",
            Aggregation::Min => "<",
            Aggregation::Assign => "=",
        };
        let reads = ["A", "B"]
            .iter()
            .zip(&self.reads)
            .map(|(name, read)| format!("{name}[{}]", texts(read)));
        let body = reads.collect::<Vec<_>>().join(" * ");
        let sizes =
            self.output.iter().map(|index| index.size.to_string()).collect::<Vec<_>>().join(", ");
        let places = if self.output.is_empty() {
            String::new()
        } else {
            format!("{}: {sizes}", texts(&self.output))
        };
        let mut text = format!("O[{places}] = {aggregation}({body})");
        for constraint in &self.constraints {
            let _ = write!(text, ", {} < {}", constraint.text(), constraint.size);
        }
        text += if self.default { " default D;" } else { ";" };
        if self.has_gradient() {
            text += " L = sum(O * W);";
            for name in &inputs {
                let _ = write!(text, " G{name} = grad(L, {name});");
                outputs.push(format!("G{name}"));
            }
            inputs.push("W");
        }
        self.source =
            format!("function f({}) -> ({}) {{ {text} }}", inputs.join(", "), outputs.join(", "));
    }

    /// Draws inputs on which everything is exact: small integers; factors of 1 and -1 for products;
    /// and distinct numbers for extremes, since gradients of equal extremes are tested elsewhere.
    fn fill(&mut self, choices: &mut Choices) {
        let start = choices.pick(1000);
        let number = |n: usize| -> f64 {
            let n = n + start;
            match self.aggregation {
                Aggregation::Product => [1.0, -1.0, -1.0, 1.0, 1.0, -1.0, 1.0][n * 5 % 7],
                Aggregation::Max | Aggregation::Min => (n * 1009 % 5003) as f64 - 2501.0,
                Aggregation::Sum | Aggregation::Assign => (n * 5 % 7) as f64 - 3.0,
            }
        };
        let mut shapes: Vec<(&str, Vec<usize>)> =
            ["A", "B"].into_iter().zip(self.reads.iter().map(shape)).collect();
        shapes.extend(self.default.then(|| ("D", shape(&self.output))));
        shapes.extend(self.has_gradient().then(|| ("W", shape(&self.output))));
        let inputs = shapes.into_iter().enumerate().map(|(at, (name, shape))| {
            let ty = TensorType::new(self.dtype, shape);
            let small = |n: usize| ((n + start + at) * 5 % 7) as f64 - 3.0;
            let value = |n: usize| if name == "W" { small(n) } else { number(n + 1000 * at) };
            let values = (0..ty.elements()).map(|n| Scalar::from_f64(ty.dtype, value(n)));
            (name.to_owned(), Tensor::from_scalars(ty.clone(), values.collect::<Vec<_>>()).unwrap())
        });
        self.inputs = inputs.collect();
    }

    fn input(&self, name: &str) -> Vec<f64> {
        self.inputs
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, tensor)| tensor.to_f64s())
            .unwrap_or_default()
    }

    /// Returns the allowed difference of a device's result from the meaning: shares of an extreme's
    /// gradient are rounded.
    pub fn tolerance(&self, output: &str) -> f64 {
        let shares =
            output != "O" && matches!(self.aggregation, Aggregation::Max | Aggregation::Min);
        if shares { 1e-4 } else { 0.0 }
    }

    pub fn meaning(&self) -> Meaning {
        let variables = self.indices().next().map_or(0, |index| index.factors.len());
        let all: Vec<&Index> = self.indices().collect();
        // A variable that does not occur does not count.
        let occurs = |v: usize| all.iter().any(|index| index.factors[v] != 0);
        let mut bounds: Vec<(i64, i64)> =
            (0..variables).map(|v| if occurs(v) { (-REACH, REACH) } else { (0, 0) }).collect();
        let mut search = Search { indices: &all, points: Vec::new(), work: 0, is_whole: true };
        search.run(bounds.clone());
        let is_open =
            narrow(self.indices(), &mut bounds) && bounds.iter().any(|range| is_open(*range));
        let mut places: BTreeMap<usize, Vec<&Vec<i64>>> = BTreeMap::new();
        for point in &search.points {
            places
                .entry(offset(&self.output, point).expect("it is valid"))
                .or_default()
                .push(point);
        }
        let values: Vec<Vec<f64>> =
            ["A", "B"][..self.reads.len()].iter().map(|name| self.input(name)).collect();
        let (weights, default) = (self.input("W"), self.input("D"));
        let elements: usize = shape(&self.output).iter().product();
        let mut found = if self.default { default } else { vec![0.0; elements] };
        let mut gradients: Vec<Vec<f64>> =
            values.iter().map(|values| vec![0.0; values.len()]).collect();
        let mut of_default = weights.clone();
        for (&place, points) in &places {
            let reads = |point: &Vec<i64>| -> Vec<usize> {
                self.reads.iter().map(|read| offset(read, point).expect("it is valid")).collect()
            };
            let terms: Vec<(Vec<usize>, f64)> = points
                .iter()
                .map(|point| {
                    let reads = reads(point);
                    let term = reads.iter().zip(&values).map(|(at, values)| values[*at]).product();
                    (reads, term)
                })
                .collect();
            let all = terms.iter().map(|(_, term)| *term);
            found[place] = match self.aggregation {
                Aggregation::Sum | Aggregation::Assign => all.sum(),
                Aggregation::Product => all.product(),
                Aggregation::Max => all.fold(f64::NEG_INFINITY, f64::max),
                Aggregation::Min => all.fold(f64::INFINITY, f64::min),
            };
            if !self.has_gradient() {
                continue;
            }
            of_default[place] = 0.0;
            let best = terms.iter().position(|(_, term)| *term == found[place]);
            for (number, (reads, term)) in terms.iter().enumerate() {
                let slope = match self.aggregation {
                    Aggregation::Sum | Aggregation::Assign => 1.0,
                    // Factors are 1 and -1.
                    Aggregation::Product => found[place] * term,
                    Aggregation::Max | Aggregation::Min => f64::from(best == Some(number)),
                };
                for (operand, at) in reads.iter().enumerate() {
                    let others = (0..reads.len()).filter(|other| *other != operand);
                    let others: f64 = others.map(|other| values[other][reads[other]]).product();
                    gradients[operand][*at] += weights[place] * slope * others;
                }
            }
        }
        let mut outputs = vec![("O".to_owned(), found)];
        if self.has_gradient() {
            outputs.extend(["GA", "GB"].into_iter().map(str::to_owned).zip(gradients));
            outputs.extend(self.default.then(|| ("GD".to_owned(), of_default)));
        }
        let twice = places.values().any(|points| points.len() > 1);
        Meaning { points: search.points.len(), twice, is_whole: search.is_whole, is_open, outputs }
    }
}

/// Returns whether a range ends near the limit of the search; factors of 3 may keep it from the
/// very end.
fn is_open((low, high): (i64, i64)) -> bool {
    low < 10 - REACH || high > REACH - 10
}

/// Narrows the ranges of variables to what single indices allow given the other ranges. Returns
/// false if nothing is left.
fn narrow<'a>(indices: impl Iterator<Item = &'a Index> + Clone, bounds: &mut [(i64, i64)]) -> bool {
    loop {
        let before = bounds.to_vec();
        for index in indices.clone() {
            let (least, most) =
                (0 - index.constant, index.size * index.divisor - 1 - index.constant);
            let term = |v: usize, bounds: &[(i64, i64)]| {
                let (a, b) = (index.factors[v] * bounds[v].0, index.factors[v] * bounds[v].1);
                (a.min(b), a.max(b))
            };
            if index.factors.iter().all(|factor| *factor == 0) && (least > 0 || most < 0) {
                return false;
            }
            for v in 0..bounds.len() {
                let factor = index.factors[v];
                if factor == 0 {
                    continue;
                }
                let others =
                    (0..bounds.len()).filter(|other| *other != v).map(|other| term(other, bounds));
                let (low, high) = others.fold((0, 0), |sum, term| (sum.0 + term.0, sum.1 + term.1));
                // least <= factor * x + others <= most
                let (mut first, mut last) = (least - high, most - low);
                if factor < 0 {
                    (first, last) = (-last, -first);
                }
                let factor = factor.abs();
                let range = (-(-first).div_euclid(factor), last.div_euclid(factor));
                bounds[v] = (bounds[v].0.max(range.0), bounds[v].1.min(range.1));
                if bounds[v].0 > bounds[v].1 {
                    return false;
                }
            }
        }
        if before == bounds {
            return true;
        }
    }
}

struct Search<'a> {
    indices: &'a [&'a Index],
    points: Vec<Vec<i64>>,
    work: usize,
    is_whole: bool,
}

impl Search<'_> {
    fn run(&mut self, mut bounds: Vec<(i64, i64)>) {
        self.work += 1;
        if self.work > WORK {
            self.is_whole = false;
            return;
        }
        if !narrow(self.indices.iter().copied(), &mut bounds) {
            return;
        }
        let open = bounds.iter().enumerate().filter(|(_, range)| range.0 < range.1);
        let Some((variable, (low, high))) =
            open.min_by_key(|(_, range)| range.1 - range.0).map(|(v, r)| (v, *r))
        else {
            let point: Vec<i64> = bounds.iter().map(|range| range.0).collect();
            if self.indices.iter().all(|index| index.at(&point).is_some()) {
                self.is_whole &= !bounds.iter().any(|range| is_open(*range));
                self.points.push(point);
            }
            return;
        };
        for value in low..=high {
            let mut fixed = bounds.clone();
            fixed[variable] = (value, value);
            self.run(fixed);
        }
    }
}
