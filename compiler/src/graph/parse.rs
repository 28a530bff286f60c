//! Reads the text form of a [`Graph`], which [`super::text`] describes. Line breaks count as
//! spaces.

use std::collections::HashMap;
use std::sync::Arc;

use super::text::{is_plain, usual_operand};
use super::{
    Access, Aggregation, Contraction, ContractionLeaf, Graph, Index, IndexRange, NodeId, Op,
    Origin, Scan,
};
use crate::affine::Affine;
use crate::cursor::{Cursor, ParseError, Parsed};
use crate::dtype::{DType, Scalar};
use crate::scalar::{BinaryOp, Inst, Program, UnaryOp, Value};
use crate::tensor::TensorType;

impl Graph {
    /// Reads the text form. The graph is not verified.
    pub fn parse(text: &str) -> Result<Graph, ParseError> {
        Cursor::read(text, Cursor::whole)
    }
}

/// The nodes read so far, by number.
type Numbers = HashMap<usize, NodeId>;

impl<'a> Cursor<'a> {
    fn name(&mut self) -> Parsed<String> {
        if !self.eat("\"") {
            return match self.take(is_plain) {
                "" => Err(format!("expected a name at {}", self.here())),
                name => Ok(name.to_string()),
            };
        }
        let mut name = String::new();
        let mut chars = self.rest.chars();
        loop {
            match chars.next() {
                Some('"') => break,
                Some('\\') => match chars.next() {
                    Some('n') => name.push('\n'),
                    Some('r') => name.push('\r'),
                    Some(c) => name.push(c),
                    None => return Err("a quoted name has no end".into()),
                },
                Some(c) => name.push(c),
                None => return Err("a quoted name has no end".into()),
            }
        }
        self.rest = chars.as_str();
        Ok(name)
    }

    fn node(&mut self, numbers: &Numbers) -> Parsed<NodeId> {
        self.expect("%")?;
        let number = self.number()?;
        numbers
            .get(&number)
            .copied()
            .ok_or_else(|| format!("%{number} is not computed before it is used"))
    }

    fn ty(&mut self) -> Parsed<TensorType> {
        self.expect(":")?;
        let dtype = self.dtype()?;
        self.expect("[")?;
        Ok(TensorType { dtype, shape: self.list("]", Self::number)? })
    }

    fn whole(&mut self) -> Parsed<Graph> {
        let graph = self.graph()?;
        self.end("a node")?;
        Ok(graph)
    }

    fn graph(&mut self) -> Parsed<Graph> {
        self.expect("graph")?;
        let mut graph = Graph::new(self.name()?);
        self.expect("(")?;
        // The header refers to nodes that follow.
        let number = |cursor: &mut Self| cursor.expect("%").and_then(|()| cursor.number::<usize>());
        let inputs = self.list(")", number)?;
        self.expect("->")?;
        self.expect("(")?;
        let outputs = self.list(")", |cursor| {
            let name = cursor.name()?;
            cursor.expect("=")?;
            Ok((name, number(cursor)?))
        })?;
        let mut numbers = Numbers::new();
        while self.eat("%") {
            let number = self.number()?;
            self.expect("=")?;
            let (op, operands, ty) = self.op(&numbers, &graph)?;
            let id = graph.add(op, ty, &operands);
            if self.eat("#") {
                graph.node_mut(id).name = Some(self.name()?);
                if self.eat("in ") {
                    let function = self.name()?;
                    let path = if self.eat("at ") { self.name()? } else { String::new() };
                    graph.node_mut(id).origin = Some(Arc::new(Origin { function, path }));
                }
            }
            if numbers.insert(number, id).is_some() {
                return Err(format!("%{number} is computed twice"));
            }
        }
        let resolve = |number: &usize| {
            numbers
                .get(number)
                .copied()
                .ok_or_else(|| format!("the header names %{number}, which is not computed"))
        };
        graph.inputs = inputs.iter().map(resolve).collect::<Parsed<_>>()?;
        graph.outputs =
            outputs.into_iter().map(|(name, n)| Ok((name, resolve(&n)?))).collect::<Parsed<_>>()?;
        Ok(graph)
    }

    fn op(&mut self, numbers: &Numbers, graph: &Graph) -> Parsed<(Op, Vec<NodeId>, TensorType)> {
        let parse_as = |dtype, text: &str| {
            Scalar::parse(dtype, text)
                .ok_or_else(|| format!("`{text}` is not a value of type {dtype}"))
        };
        let word = self.word();
        let op = match word {
            "input" => Op::Input(self.name()?),
            "weight" => Op::Weight(self.name()?),
            "constant" => {
                let text = self.scalar()?;
                let ty = self.ty()?;
                return Ok((Op::Constant(parse_as(ty.dtype, text)?), vec![], ty));
            }
            "elements" => {
                self.expect("[")?;
                let texts = self.list("]", Self::scalar)?;
                let ty = self.ty()?;
                let scalars = texts
                    .into_iter()
                    .map(|text| parse_as(ty.dtype, text))
                    .collect::<Parsed<_>>()?;
                return Ok((Op::Elements(scalars), vec![], ty));
            }
            "index" => Op::Index { axis: self.number()? },
            "select" => Op::Select,
            "cast" => Op::Cast,
            "reshape" => Op::Reshape,
            "stop_gradient" => Op::StopGradient,
            "prng_value" => Op::PrngValue,
            "prng_state" => Op::PrngState { elements: self.number()? },
            "result" => Op::Result { number: self.number()? },
            "scan" => {
                let (scan, operands) = self.scan(numbers)?;
                return Ok((Op::Scan(Box::new(scan)), operands, self.ty()?));
            }
            "contract" => {
                let (contraction, operands) = self.contraction(numbers, graph)?;
                return Ok((Op::Contraction(Box::new(contraction)), operands, self.ty()?));
            }
            _ => match (UnaryOp::parse(word), BinaryOp::parse(word)) {
                (Some(op), _) => Op::Unary(op),
                (_, Some(op)) => Op::Binary(op),
                _ => return Err(format!("`{word}` is not an operation")),
            },
        };
        let mut operands = Vec::new();
        while self.rest.trim_start().starts_with('%') {
            operands.push(self.node(numbers)?);
        }
        Ok((op, operands, self.ty()?))
    }

    fn scan(&mut self, numbers: &Numbers) -> Parsed<(Scan, Vec<NodeId>)> {
        fn along(cursor: &mut Cursor) -> Parsed<usize> {
            cursor.expect("along")?;
            cursor.number()
        }
        let length = self.number()?;
        self.expect("sequences")?;
        self.expect("(")?;
        let sequences = self.list(")", |cursor| Ok((cursor.node(numbers)?, along(cursor)?)))?;
        self.expect("carries")?;
        self.expect("(")?;
        let carries = self.list(")", |cursor| cursor.node(numbers))?;
        self.expect("captures")?;
        self.expect("(")?;
        let captures = self.list(")", |cursor| cursor.node(numbers))?;
        self.expect("yields")?;
        self.expect("(")?;
        let yields = self.list(")", along)?;
        self.expect("{")?;
        let body = self.graph()?;
        self.expect("}")?;
        let (operands, sequences): (Vec<_>, _) = sequences.into_iter().unzip();
        let scan = Scan { length, sequences, carries: carries.len(), yields, body };
        Ok((scan, [operands, carries, captures].concat()))
    }

    fn contraction(
        &mut self,
        numbers: &Numbers,
        graph: &Graph,
    ) -> Parsed<(Contraction, Vec<NodeId>)> {
        let word = self.word();
        let aggregation =
            Aggregation::parse(word).ok_or_else(|| format!("`{word}` is not an aggregation"))?;
        self.expect("[")?;
        // Index names follow the output places that use them.
        let output = self.list("]", |cursor| Ok(cursor.affine_text()))?;
        self.expect("(")?;
        let indices = self.list(")", |cursor| {
            let name = cursor.name()?;
            cursor.expect(":")?;
            let low = cursor.number()?;
            cursor.expect("..")?;
            Ok(IndexRange { name, low, high: cursor.number()? })
        })?;
        let rank = if self.eat("rank") {
            let name = self.name()?;
            let known = indices.iter().position(|index| index.name == name);
            Some(known.ok_or_else(|| format!("`{name}` is not an index"))?)
        } else {
            None
        };
        let affine = |text: &str| {
            Affine::parse(text, |name| indices.iter().position(|index| index.name == name))
        };
        let output = output.into_iter().map(affine).collect::<Parsed<_>>()?;
        let mut constraints = Vec::new();
        if self.eat("where") {
            loop {
                constraints.push(affine(self.affine_text())?);
                self.expect(">=")?;
                self.expect("0")?;
                if !self.eat(",") {
                    break;
                }
            }
        }
        let default = if self.eat("default") { Some(self.node(numbers)?) } else { None };
        let mut body =
            Body { numbers, graph, accesses: vec![], so_far: vec![], program: Program::default() };
        self.expect("{")?;
        self.body(&mut body, &affine)?;
        let Body { accesses, so_far, program, .. } = body;
        let count = so_far.iter().map(|(_, operand)| operand + 1).max().unwrap_or(0);
        let mut operands = Vec::with_capacity(count);
        for position in 0..count {
            match so_far.iter().find(|(_, operand)| *operand == position) {
                Some((node, _)) => operands.push(*node),
                None => return Err(format!("no access reads operand {position}")),
            }
        }
        operands.extend(default);
        let default = default.is_some();
        Ok((
            Contraction {
                aggregation,
                rank,
                indices,
                output,
                accesses,
                constraints,
                body: program,
                default,
            },
            operands,
        ))
    }

    /// Returns the text up to the end of an affine expression.
    fn affine_text(&mut self) -> &'a str {
        self.take(|c| !matches!(c, ',' | ']' | ';' | '>' | '}'))
    }

    /// Reads statements up to and including the closing brace.
    fn body(
        &mut self,
        body: &mut Body<'_>,
        affine: &impl Fn(&str) -> Parsed<Affine>,
    ) -> Parsed<()> {
        loop {
            if self.eat("yield") {
                while self.rest.trim_start().starts_with('v') {
                    let result = self.value(body)?;
                    body.program.results.push(result);
                }
                return self.expect("}");
            } else if self.eat("@") {
                let number: usize = self.number()?;
                if number != body.accesses.len() {
                    return Err(format!("expected `@{}`, not `@{number}`", body.accesses.len()));
                }
                self.expect("=")?;
                self.access(body, affine)?;
            } else {
                self.expect(&format!("v{}", body.program.insts.next_id()))?;
                self.expect("=")?;
                let inst = self.inst(body, affine)?;
                body.program.insts.push(inst);
            }
            self.expect(";")?;
        }
    }

    /// Reads the number of a value, which must be computed already.
    fn value(&mut self, body: &Body<'_>) -> Parsed<Value> {
        self.expect("v")?;
        let value = self.number()?;
        if value < body.program.insts.next_id() {
            Ok(value)
        } else {
            Err(format!("v{value} is not computed before"))
        }
    }

    /// Reads `%0[i, k]` and returns the number of the access and the type that it reads.
    fn access(
        &mut self,
        body: &mut Body<'_>,
        affine: &impl Fn(&str) -> Parsed<Affine>,
    ) -> Parsed<(usize, DType)> {
        let node = self.node(body.numbers)?;
        let operand =
            if self.eat(":") { self.number()? } else { usual_operand(&node, &body.so_far) };
        self.expect("[")?;
        let index = self.list("]", |cursor| {
            let text = cursor.affine_text();
            Ok(match text.split_once('@') {
                None => Index { affine: affine(text)?, access: None },
                Some((before, number)) => {
                    let before = before.trim_end().trim_end_matches('+');
                    let number =
                        number.trim().parse().map_err(|_| format!("`{text}` is not an index"))?;
                    let affine =
                        if before.is_empty() { Affine::constant(0) } else { affine(before)? };
                    Index { affine, access: Some(number) }
                }
            })
        })?;
        body.so_far.push((node, operand));
        body.accesses.push(Access { operand, index });
        Ok((body.accesses.len() - 1, body.graph.dtype(node)))
    }

    fn inst(
        &mut self,
        body: &mut Body<'_>,
        affine: &impl Fn(&str) -> Parsed<Affine>,
    ) -> Parsed<(Inst<ContractionLeaf>, DType)> {
        if self.rest.trim_start().starts_with('%') {
            let (access, dtype) = self.access(body, affine)?;
            return Ok((Inst::Leaf(ContractionLeaf::Access(access)), dtype));
        }
        if self.eat("@") {
            let access: usize = self.number()?;
            let (node, _) =
                body.so_far.get(access).ok_or_else(|| format!("@{access} is not read before"))?;
            return Ok((Inst::Leaf(ContractionLeaf::Access(access)), body.graph.dtype(*node)));
        }
        let text = self.scalar()?;
        // Names of operations may have `_`, but scalars do not.
        let word = format!("{text}{}", if self.rest.starts_with('_') { self.word() } else { "" });
        if word == "index" {
            return Ok((
                Inst::Leaf(ContractionLeaf::Index(affine(self.affine_text())?)),
                DType::I32,
            ));
        }
        if word == "cast" {
            let a = self.value(body)?;
            self.expect(":")?;
            return Ok((Inst::Cast(a), self.dtype()?));
        }
        if word == "select" {
            let (c, a, b) = (self.value(body)?, self.value(body)?, self.value(body)?);
            return Ok((Inst::Select(c, a, b), body.program.dtype(a)));
        }
        if let Some(op) = UnaryOp::parse(&word) {
            let a = self.value(body)?;
            return Ok((Inst::Unary(op, a), body.program.dtype(a)));
        }
        if let Some(op) = BinaryOp::parse(&word) {
            let (a, b) = (self.value(body)?, self.value(body)?);
            let dtype = if op.is_comparison() { DType::Bool } else { body.program.dtype(a) };
            return Ok((Inst::Binary(op, a, b), dtype));
        }
        if !self.eat(":") {
            return Err(format!("`{word}` is not an operation or a typed constant"));
        }
        let dtype = self.dtype()?;
        let scalar = Scalar::parse(dtype, &word)
            .ok_or_else(|| format!("`{word}` is not a value of type {dtype}"))?;
        Ok((Inst::Const(scalar), dtype))
    }
}

/// A contraction's body while it is read.
struct Body<'a> {
    numbers: &'a Numbers,
    graph: &'a Graph,
    accesses: Vec<Access>,
    /// The node that each access reads, and its operand position.
    so_far: Vec<(NodeId, usize)>,
    program: Program<ContractionLeaf>,
}
