//! Reads the text form of native programs, which `text/program.rs` prints.

use std::str::FromStr;

use crate::affine::Affine;
use crate::cursor::{Cursor, ParseError, Parsed};
use crate::dtype::DType;
use crate::tensor::TensorType;

use super::super::address::Address;
use super::super::attention::{Attention, Block, Shorter, Stages};
use super::super::blocks::ProductBlocks;
use super::super::direct::{Direct, Form};
use super::super::pieces::Piece;
use super::super::product::{Factor, Product};
use super::super::program::{Implementation, NativeOutput, NativeProgram, Position};
use super::super::reduction::Reduction;
use super::super::running::Running;
use super::super::scatter::Scatter;
use super::super::space::{Lines, Space, Variables};
use super::super::tape::Tape;
use super::super::update::Update;
use super::super::winograd::{Side, Winograd};

impl FromStr for NativeProgram {
    type Err = ParseError;

    /// Reads the text form. The program is not verified.
    fn from_str(text: &str) -> Result<NativeProgram, ParseError> {
        Cursor::read(text, |cursor| {
            let program = cursor.native()?;
            cursor.end("the end")?;
            Ok(program)
        })
    }
}

/// Returns the lines of expressions through a space, whose axes must be those of the variables.
fn lines(space: &Space, variables: &Variables, expressions: Vec<Affine>) -> Parsed<Lines> {
    if space.axes().end > variables.axes {
        return Err("a space has more axes than there are".into());
    }
    Ok(Lines::through(space, variables.axes, &variables.derived, expressions))
}

impl Cursor<'_> {
    fn native(&mut self) -> Parsed<NativeProgram> {
        self.expect("native")?;
        let name = self.word().to_owned();
        self.expect("{")?;
        self.expect("axes")?;
        let extents = self.numbers()?;
        let variables = self.variables()?;
        let bypass = self.eat("bypass");
        let mut operands = Vec::new();
        while self.eat(&format!("in{}:", operands.len())) {
            operands.push(self.tensor_type()?);
        }
        let implementation = self.implementation(&variables)?;
        self.expect("epilogue")?;
        let epilogue = self.tape()?;
        let mut outputs = Vec::new();
        while self.eat(&format!("out{} ", outputs.len())) {
            outputs.push(self.output(&variables, &epilogue)?);
        }
        self.expect("}")?;
        Ok(NativeProgram {
            name,
            operands,
            outputs,
            variables,
            extents,
            bypass,
            epilogue,
            implementation,
        })
    }

    /// Reads `f32[3, 4]`.
    fn tensor_type(&mut self) -> Parsed<TensorType> {
        let dtype = self.dtype()?;
        Ok(TensorType { dtype, shape: self.numbers()?.into_iter().collect() })
    }

    /// Reads an expression in brackets.
    fn bracketed(&mut self, variables: &Variables) -> Parsed<Affine> {
        self.expect("[")?;
        let affine = self.affine(variables)?;
        self.expect("]")?;
        Ok(affine)
    }

    fn output(&mut self, variables: &Variables, epilogue: &Tape) -> Parsed<NativeOutput> {
        let position = if self.eat("in order from") {
            Position::InOrder(self.bracketed(variables)?)
        } else if self.eat("rows ") {
            let rows = self.space()?;
            self.expect("at")?;
            Position::Rows(lines(&rows, variables, vec![self.bracketed(variables)?])?, rows)
        } else {
            self.expect("at")?;
            Position::Lines(lines(&epilogue.space, variables, vec![self.bracketed(variables)?])?)
        };
        self.expect(":")?;
        let ty = self.tensor_type()?;
        let over = if self.eat("over in") { Some(self.number()?) } else { None };
        Ok(NativeOutput { ty, position, over })
    }

    fn space(&mut self) -> Parsed<Space> {
        let first = self.number()?;
        Ok(Space::of(first, self.numbers()?))
    }

    fn address(&mut self, variables: &Variables) -> Parsed<Address> {
        self.expect("in")?;
        let operand = self.number()?;
        let offset = self.bracketed(variables)?;
        Ok(Address { operand, offset, conditions: self.conditions(variables)? })
    }

    fn implementation(&mut self, variables: &Variables) -> Parsed<Implementation> {
        let word = self.word();
        Ok(match word {
            "pointwise" => Implementation::Pointwise,
            "update" => Implementation::Update(Box::new(self.update()?)),
            "pieces" => Implementation::Pieces(self.pieces()?),
            "winograd" => Implementation::Winograd(Box::new(self.winograd(variables)?)),
            "product" => Implementation::Product(Box::new(self.product(variables)?)),
            "direct" => Implementation::Direct(Box::new(self.direct(variables)?)),
            "scatter" => Implementation::Scatter(Box::new(self.scatter(variables)?)),
            "running" => Implementation::Running(Box::new(self.running()?)),
            "reduction" => Implementation::Reduction(Box::new(self.reduction(variables)?)),
            "attention" => Implementation::Attention(Box::new(self.attention()?)),
            _ => return Err(format!("`{word}` is not an implementation")),
        })
    }

    fn pieces(&mut self) -> Parsed<Vec<Piece>> {
        self.expect("{")?;
        let mut pieces = Vec::new();
        while self.eat("of ") {
            pieces.push(Piece { operands: self.numbers()?, program: self.native()? });
        }
        self.expect("}")?;
        Ok(pieces)
    }

    /// Reads a number after `word`.
    fn after<T: FromStr>(&mut self, word: &str) -> Parsed<T> {
        self.expect(word)?;
        self.number()
    }

    /// Reads numbers in brackets after `word`.
    fn axes_after(&mut self, word: &str) -> Parsed<Vec<usize>> {
        self.expect(word)?;
        self.numbers()
    }

    fn side(&mut self, word: &str) -> Parsed<Side> {
        let extent = self.after(word)?;
        let (stride, place) = (self.after("stride")?, self.after("place")?);
        let start = self.after("within")?;
        let within = start..self.after("..")?;
        Ok(Side { extent, stride, place, within, reversed: self.eat("reversed") })
    }

    fn winograd(&mut self, variables: &Variables) -> Parsed<Winograd> {
        let (taps, tile) = (self.after("window")?, self.after("tile")?);
        let packs = self.eat("packs");
        self.expect("{")?;
        self.expect("image")?;
        let image = self.address(variables)?;
        let (origin, images) = (self.after("from")?, self.axes_after("images")?);
        let (lines, pixels) = (self.side("lines")?, self.side("pixels")?);
        let (channels, filters, filter) =
            (self.after("channels")?, self.after("filters")?, self.after("along")?);
        self.expect("kernel")?;
        let kernel = self.address(variables)?;
        let terms = self.axes_after("terms")?;
        self.expect("}")?;
        Ok(Winograd {
            taps,
            tile,
            image,
            origin,
            images,
            lines,
            pixels,
            channels,
            filter,
            filters,
            kernel,
            terms,
            packs,
        })
    }

    fn factor(&mut self, variables: &Variables) -> Parsed<Factor> {
        if self.eat("gathered ") {
            return Ok(Factor::Gathered {
                address: self.address(variables)?,
                whole: self.eat("whole"),
            });
        }
        self.expect("computed")?;
        let guards = self.conditions(variables)?;
        self.expect("by")?;
        let tape = Box::new(self.tape()?);
        Ok(Factor::Computed { guards: lines(&tape.space, variables, guards)?, tape })
    }

    fn product(&mut self, variables: &Variables) -> Parsed<Product> {
        let dtype = self.dtype()?;
        let packs = self.eat("packs");
        self.expect("{")?;
        let blocks = self.blocks()?;
        let (batch, rows) = (self.axes_after("batch")?, self.axes_after("rows")?);
        let (columns, terms) = (self.axes_after("columns")?, self.axes_after("terms")?);
        self.expect("left")?;
        let left = self.factor(variables)?;
        self.expect("right")?;
        let right = self.factor(variables)?;
        let guards = if self.eat("counts") { self.conditions(variables)? } else { Vec::new() };
        self.expect("}")?;
        Ok(Product { dtype, batch, rows, columns, terms, left, right, guards, packs, blocks })
    }

    fn blocks(&mut self) -> Parsed<ProductBlocks> {
        let terms = self.after("blocks of")?;
        self.expect("terms")?;
        let columns = self.number()?;
        self.expect("columns")?;
        let rows = self.number()?;
        self.expect("rows")?;
        let finished_bytes = self.after("finished")?;
        let window_bytes = self.after("window")?;
        Ok(ProductBlocks { terms, columns, rows, finished_bytes, window_bytes })
    }

    fn direct(&mut self, variables: &Variables) -> Parsed<Direct> {
        let word = self.word();
        let form = Form::ALL.into_iter().find(|form| form.name() == word);
        let form = form.ok_or_else(|| format!("`{word}` is not a form of operands"))?;
        let rows = if self.eat("rows along") { Some(self.number()?) } else { None };
        self.expect("taps")?;
        let taps = self.space()?;
        self.expect("{")?;
        self.expect("x")?;
        let x = self.address(variables)?;
        let w = if self.eat("w ") { Some(self.address(variables)?) } else { None };
        let conditions = if self.eat("counts") { self.conditions(variables)? } else { Vec::new() };
        self.expect("}")?;
        Ok(Direct { form, rows, taps, x, w, conditions })
    }

    fn reduction(&mut self, variables: &Variables) -> Parsed<Reduction> {
        let (aggregation, dtype) = (self.aggregation()?, self.dtype()?);
        let across = self.eat("across");
        if !across {
            self.expect("along")?;
        }
        self.expect("{")?;
        self.expect("places")?;
        let places = self.space()?;
        self.expect("points")?;
        let points = self.space()?;
        let own = if across { &places } else { &points };
        let position =
            if self.eat("position") { vec![self.bracketed(variables)?] } else { Vec::new() };
        let position = lines(own, variables, position)?;
        let rank = if self.eat("rank") { Some(self.bracketed(variables)?) } else { None };
        let guards = lines(own, variables, self.conditions(variables)?)?;
        self.expect("body")?;
        let body = self.tape()?;
        self.expect("}")?;
        Ok(Reduction { aggregation, dtype, places, points, body, across, guards, position, rank })
    }

    fn scatter(&mut self, variables: &Variables) -> Parsed<Scatter> {
        let rows = self.number()?;
        self.expect("rows of")?;
        let row = self.number()?;
        self.expect("{")?;
        self.expect("key")?;
        let key = self.tape()?;
        self.expect("reduction")?;
        let reduction = self.reduction(variables)?;
        self.expect("}")?;
        Ok(Scatter { key, reduction, rows, row })
    }

    fn update(&mut self) -> Parsed<Update> {
        self.expect("rows of")?;
        let row = self.number()?;
        self.expect("where")?;
        Ok(Update { changes: self.tape()?, row })
    }

    fn running(&mut self) -> Parsed<Running> {
        let (aggregation, dtype) = (self.aggregation()?, self.dtype()?);
        let axis = self.after("along")?;
        let reversed = self.eat("reversed");
        self.expect("{")?;
        let start = self.after("added")?;
        let added = start..self.after("..")?;
        self.expect("terms")?;
        let terms = self.tape()?;
        self.expect("}")?;
        Ok(Running { aggregation, dtype, axis, reversed, added, terms })
    }

    fn attention(&mut self) -> Parsed<Attention> {
        self.expect("[")?;
        let of_rows = self.list("]", |cursor| match cursor.word() {
            "rows" => Ok(true),
            "places" => Ok(false),
            word => Err(format!("expected `rows` or `places`, found `{word}`")),
        })?;
        self.expect("{")?;
        let mut blocks = Vec::new();
        while self.eat("block ") {
            blocks.push(self.block()?);
        }
        self.expect("}")?;
        Ok(Attention { blocks, of_rows })
    }

    fn block(&mut self) -> Parsed<Block> {
        let (rows, statistics) = (self.after("rows")?, self.after("statistics")?);
        let turns = self.axes_after("turns")?;
        let shares_rights = self.eat("shares");
        self.expect("{")?;
        let stages = self.stages()?;
        let shorter = if self.eat("shorter") { Some(self.shorter()?) } else { None };
        self.expect("}")?;
        Ok(Block { stages, statistics, rows, turns, shares_rights, shorter })
    }

    fn stages(&mut self) -> Parsed<Stages> {
        self.expect("stages")?;
        let area = self.after("area")?;
        self.expect("{")?;
        let mut scores = Vec::new();
        while self.starts_with("native") {
            scores.push(self.native()?);
        }
        self.expect("weights")?;
        let weights = self.native()?;
        self.expect("product")?;
        let product = self.native()?;
        self.expect("}")?;
        Ok(Stages { scores, weights, product, area })
    }

    fn shorter(&mut self) -> Parsed<Shorter> {
        let choice = self.numbers()?;
        let top = self.after("top")?;
        self.expect("score")?;
        let score = self.literal(DType::F32)?;
        self.expect("{")?;
        let mut stages = Vec::new();
        while self.starts_with("stages") {
            stages.push(self.stages()?);
        }
        self.expect("}")?;
        Ok(Shorter { stages, choice, top, score })
    }
}
