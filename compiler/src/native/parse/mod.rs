//! Reads the text form of tapes, which `text` describes.

mod program;

use std::str::FromStr;

use crate::affine::Affine;
use crate::cursor::{Cursor, ParseError, Parsed};
use crate::dense::Dense;
use crate::dtype::{DType, Scalar};
use crate::graph::Aggregation;
use crate::nest::Derived;
use crate::scalar::{BinaryOp, UnaryOp, Value};

use super::chain::{Chain, Move};
use super::code::{Code, Relation};
use super::fused::{Fused, Term};
use super::space::{Lines, Space, Variables};
use super::step::{Action, Reader, TapeStep};
use super::tape::Tape;
use super::text::TERMS;

impl FromStr for Tape {
    type Err = ParseError;

    /// Reads the text form. The tape is not verified.
    fn from_str(text: &str) -> Result<Tape, ParseError> {
        Cursor::read(text, |cursor| {
            let tape = cursor.tape()?;
            cursor.end("the end")?;
            Ok(tape)
        })
    }
}

/// Returns the number of the variable of this name, `a0` or `q0`.
fn variable(name: &str, variables: &Variables) -> Option<usize> {
    let number = || name.get(1..)?.parse::<usize>().ok();
    match name.get(..1)? {
        "a" => number().filter(|number| *number < variables.axes),
        "q" => number()
            .filter(|number| *number < variables.derived.len())
            .map(|number| number + variables.axes),
        _ => None,
    }
}

impl Cursor<'_> {
    /// Reads the text of an expression up to one of `]`, `,` and `>`.
    pub(super) fn affine(&mut self, variables: &Variables) -> Parsed<Affine> {
        let text = self.take(|c| !matches!(c, ']' | ',' | '>'));
        Affine::parse(text, |name| variable(name, variables))
    }

    /// Reads conditions after `where`, or none.
    pub(super) fn conditions(&mut self, variables: &Variables) -> Parsed<Vec<Affine>> {
        let mut conditions = Vec::new();
        let mut more = self.eat("where ");
        while more {
            conditions.push(self.affine(variables)?);
            self.expect(">=")?;
            self.expect("0")?;
            more = self.eat(",");
        }
        Ok(conditions)
    }

    fn value_number(&mut self) -> Parsed<Value> {
        self.expect("v")?;
        self.number()
    }

    fn register(&mut self) -> Parsed<usize> {
        self.expect("in")?;
        self.expect("r")?;
        self.number()
    }

    /// Reads numbers in brackets.
    pub(super) fn numbers(&mut self) -> Parsed<Vec<usize>> {
        self.expect("[")?;
        self.list("]", Self::number)
    }

    pub(super) fn variables(&mut self) -> Parsed<Variables> {
        self.expect("variables")?;
        let axes = self.number()?;
        self.expect("loops")?;
        self.expect("from")?;
        let mut variables = Variables { axes, loops: self.number()?, derived: Vec::new() };
        while self.eat(",") {
            self.expect(&format!("q{}", variables.derived.len()))?;
            self.expect("=")?;
            self.expect("[")?;
            let numerator = self.affine(&variables)?;
            self.expect("]")?;
            self.expect("/")?;
            variables.derived.push(Derived { numerator, denominator: self.number()? });
        }
        Ok(variables)
    }

    pub(super) fn aggregation(&mut self) -> Parsed<Aggregation> {
        let word = self.word();
        Aggregation::parse(word).ok_or_else(|| format!("`{word}` is not an aggregation"))
    }

    fn types(&mut self) -> Parsed<Dense<Value, DType>> {
        self.expect("types")?;
        let mut types = Vec::new();
        while !self.starts_with("registers") {
            let dtype = self.dtype()?;
            let count: usize = if self.eat("*") { self.number()? } else { 1 };
            types.extend(std::iter::repeat_n(dtype, count.min(1 << 20)));
        }
        Ok(types.into())
    }

    /// Returns whether `text` is next.
    pub(super) fn starts_with(&self, text: &str) -> bool {
        self.rest.trim_start().starts_with(text)
    }

    fn literal(&mut self, dtype: DType) -> Parsed<Scalar> {
        let text = self.scalar()?;
        Scalar::parse(dtype, text).ok_or_else(|| format!("`{text}` is not a value of type {dtype}"))
    }

    /// Reads the braces of a tape and what is between them.
    pub(super) fn tape(&mut self) -> Parsed<Tape> {
        self.expect("tape")?;
        self.expect("{")?;
        self.expect("space")?;
        let first = self.number()?;
        let space = Space::of(first, self.numbers()?);
        let variables = self.variables()?;
        if space.axes().end > variables.axes {
            return Err("the space has more axes than there are".into());
        }
        let dtypes = self.types()?;
        self.expect("registers")?;
        let registers = self.numbers()?;
        self.expect("chunk")?;
        let longest = self.number()?;
        let row_length = if self.eat("of rows of") { Some(self.number()?) } else { None };
        let row = if self.eat("up to multiples of") { Some(self.number()?) } else { None };
        let mut tape = Tape {
            space,
            steps: Vec::new(),
            operations: 0,
            longest_chain: None,
            lodgers: Vec::new(),
            steady: Vec::new(),
            dtypes,
            registers,
            constants: Vec::new(),
            given: Vec::new(),
            results: Vec::new(),
            direct: Vec::new(),
            variables,
            row,
            row_length,
            longest,
            fused: None,
        };
        while !self.eat("}") {
            self.statement(&mut tape)?;
        }
        Ok(tape)
    }

    fn statement(&mut self, tape: &mut Tape) -> Parsed<()> {
        if self.eat("const ") {
            let (value, register) = (self.value_number()?, self.register()?);
            self.expect("=")?;
            let dtype = *tape.dtypes.get(value).ok_or_else(|| format!("v{value} has no type"))?;
            tape.constants.push((value, register, self.literal(dtype)?));
        } else if self.eat("given ") {
            tape.given.push((self.value_number()?, self.register()?));
        } else if self.eat("steady ") {
            let (value, register) = (self.value_number()?, self.register()?);
            self.expect("every")?;
            let period = self.number()?;
            self.expect("=")?;
            tape.steady.push((TapeStep { value, register, action: self.action(tape)? }, period));
        } else if self.eat("yield ") {
            tape.results.push(self.value_number()?);
            tape.direct.push(self.eat("direct"));
        } else if self.eat("lodge ") {
            let lodger = self.value_number()?;
            self.expect("with")?;
            tape.lodgers.push((lodger, self.value_number()?));
        } else if self.eat("prefetch ") {
            self.expect("at")?;
            tape.longest_chain = Some(self.number()?);
        } else if self.eat("fused") {
            tape.fused = Some(self.fused()?);
        } else if self.eat("operations ") {
            tape.operations = self.number()?;
        } else {
            let (value, register) = (self.value_number()?, self.register()?);
            self.expect("=")?;
            tape.steps.push(TapeStep { value, register, action: self.action(tape)? });
        }
        Ok(())
    }

    fn fused(&mut self) -> Parsed<Fused> {
        let mut fused = Fused::default();
        for (number, name) in TERMS.iter().enumerate() {
            if self.eat(&format!("{name} ")) {
                fused.terms[number] = Some(self.term()?);
            }
        }
        fused.low = if self.eat("low ") { Some(self.literal(DType::F32)?) } else { None };
        fused.high = if self.eat("high ") { Some(self.literal(DType::F32)?) } else { None };
        Ok(fused)
    }

    fn term(&mut self) -> Parsed<Term> {
        if self.eat("in") {
            return Ok(Term::AtPlace(self.number()?));
        }
        self.expect("r")?;
        let register = self.number()?;
        self.expect("every")?;
        Ok(Term::Kept { register, period: self.number()? })
    }

    fn action(&mut self, tape: &Tape) -> Parsed<Action> {
        let word = self.word();
        Ok(match word {
            "load" => Action::Load(Box::new(self.reader(tape)?)),
            "index" => {
                self.expect("[")?;
                let affine = self.affine(&tape.variables)?;
                self.expect("]")?;
                Action::Index(Box::new(self.paced(tape, affine)?))
            }
            "select" => {
                Action::Select(self.value_number()?, self.value_number()?, self.value_number()?)
            }
            "cast" => Action::Cast(self.value_number()?),
            "statistic" => Action::Statistic(self.aggregation()?, self.value_number()?),
            "chain" => Action::Chain(Box::new(self.chain()?)),
            _ => match (UnaryOp::parse(word), BinaryOp::parse(word)) {
                (Some(op), _) => Action::Unary(op, self.value_number()?),
                (_, Some(op)) if op.is_comparison() => {
                    Action::Compare(op, self.value_number()?, self.value_number()?)
                }
                (_, Some(op)) => Action::Binary(op, self.value_number()?, self.value_number()?),
                _ => return Err(format!("`{word}` is not an operation")),
            },
        })
    }

    /// Reads the pace of an expression, which must be what the space gives it.
    fn paced(&mut self, tape: &Tape, affine: Affine) -> Parsed<Lines> {
        let lines =
            Lines::through(&tape.space, tape.variables.axes, &tape.variables.derived, vec![affine]);
        self.expect("by")?;
        let step: i64 = self.number()?;
        self.expect("for")?;
        let run: usize = self.number()?;
        if (step, run) == (lines.steps[0], lines.run) {
            Ok(lines)
        } else {
            Err(format!(
                "expected `by {} for {}`, found `by {step} for {run}`",
                lines.steps[0], lines.run
            ))
        }
    }

    fn reader(&mut self, tape: &Tape) -> Parsed<Reader> {
        self.expect("in")?;
        let operand = self.number()?;
        self.expect("[")?;
        let affine = self.affine(&tape.variables)?;
        self.expect("]")?;
        let mut dynamic = Vec::new();
        while self.eat("+") {
            let stride = self.number()?;
            self.expect("*")?;
            let value = self.value_number()?;
            self.expect(":")?;
            dynamic.push((value, self.dtype()?, stride));
        }
        let offset = self.paced(tape, affine.clone())?;
        let in_place = self.eat("in place");
        let saturates = self.eat("saturated");
        let conditions = self.conditions(&tape.variables)?;
        let lines = |affines| {
            Lines::through(&tape.space, tape.variables.axes, &tape.variables.derived, affines)
        };
        let guarded = lines([affine].into_iter().chain(conditions.iter().cloned()).collect());
        let conditions = lines(conditions);
        Ok(Reader { operand, offset, conditions, guarded, dynamic, in_place, saturates })
    }

    fn chain(&mut self) -> Parsed<Chain> {
        let from = self.value_number()?;
        self.expect("{")?;
        let mut chain = Chain { from, moves: Vec::new(), registers: Vec::new() };
        loop {
            let step = self.chain_move(&mut chain)?;
            chain.moves.push(step);
            if !self.eat(";") {
                break;
            }
        }
        self.expect("}")?;
        chain.registers.sort_unstable();
        Ok(chain)
    }

    fn chain_move(&mut self, chain: &mut Chain) -> Parsed<Move> {
        let mut stored = |cursor: &mut Self| {
            let value = cursor.value_number()?;
            chain.registers.push((value, cursor.register()?));
            Parsed::Ok(value)
        };
        let word = self.word();
        Ok(match word {
            "divide" => Move::Divide(self.value_number()?),
            "replace" => {
                let by = self.value_number()?;
                let when = self.eat("where");
                if !when {
                    self.expect("unless")?;
                }
                Move::Replace { condition: self.value_number()?, when, by }
            }
            "keep" => Move::Keep(stored(self)?),
            "aggregate" => {
                let aggregation = self.aggregation()?;
                self.expect("as")?;
                Move::Aggregate(aggregation, stored(self)?)
            }
            _ => {
                if let Some(relation) =
                    Relation::ALL.into_iter().find(|relation| relation.name() == word)
                {
                    let with = self.value_number()?;
                    self.expect("as")?;
                    return Ok(Move::Compare(relation, with, stored(self)?));
                }
                let code = Code::parse(word)
                    .ok_or_else(|| format!("`{word}` is not an operation of chains"))?;
                let mut operands = [None; 2];
                for operand in &mut operands[..code.operands()] {
                    *operand = Some(self.value_number()?);
                }
                Move::Apply(code, operands)
            }
        })
    }
}
