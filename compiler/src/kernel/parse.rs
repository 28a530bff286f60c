//! Reads the text form that `text.rs` describes and prints.

use std::collections::HashMap;

use super::text::{LANES, MULTIPLICATIVE, infix};
use super::{
    Access, Buffer, Builtin, Expr, Kernel, Matrix, MatrixAddress, Role, Shared, Stmt, Type,
    Variable, VariableId,
};
use crate::cursor::ParseError;
use crate::dense::Dense;
use crate::dtype::{DType, Scalar};
use crate::scalar::{BinaryOp, UnaryOp};

impl Kernel {
    /// Reads a kernel's text form. Expressions are typed; [`Kernel::verify`] checks all other
    /// invariants.
    pub fn parse(text: &str) -> Result<Kernel, ParseError> {
        let kernel = Kernel {
            name: String::new(),
            workgroup: [1; 3],
            grid: [1; 3],
            buffers: Vec::new(),
            shared: Vec::new(),
            matrices: Vec::new(),
            steps: Vec::new(),
            variables: Dense::default(),
            body: Vec::new(),
        };
        let mut parser = Parser { rest: text, names: HashMap::new(), depth: 0, kernel };
        match parser.kernel() {
            Ok(()) => Ok(parser.kernel),
            Err(message) => {
                let read = &text[..text.len() - parser.rest.len()];
                Err(ParseError { line: 1 + read.matches('\n').count(), message })
            }
        }
    }
}

/// The number of a named item, by kind.
#[derive(Clone, Copy)]
enum Named {
    Buffer(usize),
    Shared(usize),
    Matrix(usize),
    Step(usize),
    Variable(VariableId),
}

struct Parser<'a> {
    /// The unread text.
    rest: &'a str,
    names: HashMap<&'a str, Named>,
    /// The number of expressions and blocks around the current one.
    depth: usize,
    kernel: Kernel,
}

/// The maximum depth of an expression, or of nested blocks. Passes recurse on both.
const MOST_DEPTH: usize = 500;

type Parsed<T> = Result<T, String>;

impl<'a> Parser<'a> {
    /// Returns the next token without consuming it, or an empty string at the end.
    fn peek(&self) -> &'a str {
        let rest = self.rest.trim_start();
        let word = |s: &str| {
            s.len() - s.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_').len()
        };
        let length = match rest.as_bytes() {
            [b'0'..=b'9', ..] => {
                // `1.5e-7_f16`: a fraction requires a digit after the point, since `0..4` is a
                // range.
                let mut length = word(rest);
                if rest[length..].starts_with('.')
                    && rest[length + 1..].starts_with(|c: char| c.is_ascii_digit())
                {
                    length += 1 + word(&rest[length + 1..]);
                }
                if rest[..length].ends_with('e') && rest[length..].starts_with('-') {
                    length += 1 + word(&rest[length + 1..]);
                }
                length
            }
            [c, ..] if c.is_ascii_alphabetic() => word(rest),
            _ => match ["//", "<<", ">>", "<=", ">=", "==", "!=", "..", "+="]
                .iter()
                .find(|sign| rest.starts_with(**sign))
            {
                Some(sign) => sign.len(),
                None => rest.chars().next().map_or(0, char::len_utf8),
            },
        };
        &rest[..length]
    }

    fn next(&mut self) -> &'a str {
        let token = self.peek();
        self.rest = &self.rest.trim_start()[token.len()..];
        token
    }

    /// Consumes `token` if it is next.
    fn eat(&mut self, token: &str) -> bool {
        let found = self.peek() == token;
        if found {
            self.next();
        }
        found
    }

    fn expect(&mut self, token: &str) -> Parsed<()> {
        if self.eat(token) {
            Ok(())
        } else {
            Err(format!("`{token}` expected, not `{}`", self.peek()))
        }
    }

    fn integer<T: std::str::FromStr>(&mut self) -> Parsed<T> {
        let token = self.next();
        token.parse().map_err(|_| format!("a number expected, not `{token}`"))
    }

    /// Reads `word(1, 2, 3)`.
    fn triple(&mut self, word: &str) -> Parsed<[u32; 3]> {
        self.expect(word)?;
        self.expect("(")?;
        let x = self.integer()?;
        self.expect(",")?;
        let y = self.integer()?;
        self.expect(",")?;
        let z = self.integer()?;
        self.expect(")")?;
        Ok([x, y, z])
    }

    fn kernel(&mut self) -> Parsed<()> {
        self.expect("kernel")?;
        self.kernel.name = self.next().to_string();
        self.kernel.workgroup = self.triple("workgroup")?;
        self.kernel.grid = self.triple("grid")?;
        self.expect("{")?;
        loop {
            let access = match self.peek() {
                "read" => Some(Access::Read),
                "write" => Some(Access::Write),
                "update" => Some(Access::Update),
                "shared" => None,
                "matrix" => {
                    self.next();
                    self.matrix()?;
                    continue;
                }
                "step" => {
                    self.next();
                    let name = self.next();
                    self.expect(";")?;
                    self.names.insert(name, Named::Step(self.kernel.steps.len()));
                    self.kernel.steps.push(name.to_string());
                    continue;
                }
                _ => break,
            };
            self.next();
            let name = self.next();
            self.expect(":")?;
            let word = self.next();
            let ty = Type::parse(word).ok_or_else(|| format!("a type expected, not `{word}`"))?;
            self.expect("[")?;
            let length = self.integer()?;
            self.expect("]")?;
            self.expect(";")?;
            let named = match access {
                Some(access) => {
                    self.kernel.buffers.push(Buffer { name: name.to_string(), ty, length, access });
                    Named::Buffer(self.kernel.buffers.len() - 1)
                }
                None => {
                    self.kernel.shared.push(Shared { name: name.to_string(), ty, length });
                    Named::Shared(self.kernel.shared.len() - 1)
                }
            };
            self.names.insert(name, named);
        }
        self.kernel.body = self.block()?;
        if self.rest.trim().is_empty() { Ok(()) } else { Err("text after the kernel".into()) }
    }

    /// Reads `left a: f16[8];`.
    fn matrix(&mut self) -> Parsed<()> {
        let word = self.next();
        let role = Role::ALL.into_iter().find(|role| role.name() == word);
        let role = role.ok_or_else(|| format!("one of left, right, sum expected, not `{word}`"))?;
        let name = self.next();
        self.expect(":")?;
        let word = self.next();
        let dtype = DType::parse(word).ok_or_else(|| format!("a type expected, not `{word}`"))?;
        self.expect("[")?;
        let size = self.integer()?;
        self.expect("]")?;
        self.expect(";")?;
        self.names.insert(name, Named::Matrix(self.kernel.matrices.len()));
        self.kernel.matrices.push(Matrix { name: name.to_string(), role, dtype, size });
        Ok(())
    }

    /// Reads statements up to and including `}`.
    fn block(&mut self) -> Parsed<Vec<Stmt>> {
        self.enter(1)?;
        let mut block = Vec::new();
        while !self.eat("}") {
            block.push(self.stmt()?);
        }
        self.depth -= 1;
        Ok(block)
    }

    /// Counts levels of nesting.
    fn enter(&mut self, levels: usize) -> Parsed<()> {
        self.depth += levels;
        match self.depth <= MOST_DEPTH {
            true => Ok(()),
            false => Err(format!("expressions and blocks are nested deeper than {MOST_DEPTH}")),
        }
    }

    fn declare(&mut self, name: &'a str, ty: Type) -> VariableId {
        let id = self.kernel.variables.push(Variable { name: name.to_string(), ty });
        self.names.insert(name, Named::Variable(id));
        id
    }

    fn stmt(&mut self) -> Parsed<Stmt> {
        let word = self.next();
        let stmt = match word {
            "for" => {
                let name = self.next();
                self.expect("in")?;
                let from = self.expr(0)?;
                self.expect("..")?;
                let to = self.expr(0)?;
                let step = if self.eat("step") { self.integer()? } else { 1 };
                self.expect("{")?;
                let counter = self.declare(name, Type::I32);
                return Ok(Stmt::For { counter, from, to, step, body: self.block()? });
            }
            "if" => {
                let condition = self.expr(0)?;
                self.expect("{")?;
                let then = self.block()?;
                let otherwise = if self.eat("else") {
                    self.expect("{").and_then(|()| self.block())?
                } else {
                    Vec::new()
                };
                return Ok(Stmt::If { condition, then, otherwise });
            }
            "barrier" => Stmt::Barrier,
            "subgroup" => {
                let name = self.next();
                self.expect("=")?;
                let word = self.next();
                let op = BinaryOp::parse(word)
                    .ok_or_else(|| format!("an operation expected, not `{word}`"))?;
                self.expect("(")?;
                let value = self.expr(0)?;
                self.expect(")")?;
                let id = self.declare(name, self.kernel.type_of(&value)?);
                Stmt::Collect(id, op, value)
            }
            "let" | "var" => {
                let name = self.next();
                self.expect("=")?;
                let value = self.expr(0)?;
                let id = self.declare(name, self.kernel.type_of(&value)?);
                if word == "let" { Stmt::Let(id, value) } else { Stmt::Var(id, value) }
            }
            name => self.assignment(name)?,
        };
        self.expect(";")?;
        Ok(stmt)
    }

    /// Parses an assignment to what has the name `name`, from behind the name.
    fn assignment(&mut self, name: &'a str) -> Parsed<Stmt> {
        Ok(match self.named(name)? {
            Named::Variable(id) => Stmt::Assign(id, self.assigned()?),
            Named::Buffer(buffer) => {
                Stmt::Store { buffer, index: self.index()?, value: self.assigned()? }
            }
            Named::Shared(shared) => {
                let index = self.index()?;
                if self.eat("by") {
                    let to = MatrixAddress { shared, first: index, pitch: self.integer()? };
                    self.expect("=")?;
                    Stmt::StoreMatrix { matrix: self.matrix_name()?, to }
                } else {
                    Stmt::StoreShared { shared, index, value: self.assigned()? }
                }
            }
            Named::Matrix(sum) if self.eat("+=") => {
                let left = self.matrix_name()?;
                self.expect("*")?;
                Stmt::MultiplyAdd { sum, left, right: self.matrix_name()? }
            }
            Named::Matrix(matrix) => {
                self.expect("=")?;
                let name = self.next();
                let Named::Shared(shared) = self.named(name)? else {
                    return Err(format!("`{name}` is not in workgroup memory"));
                };
                let first = self.index()?;
                self.expect("by")?;
                Stmt::LoadMatrix {
                    matrix,
                    from: MatrixAddress { shared, first, pitch: self.integer()? },
                }
            }
            Named::Step(_) => return Err(format!("`{name}` can't be assigned")),
        })
    }

    fn named(&self, name: &str) -> Parsed<Named> {
        self.names.get(name).copied().ok_or_else(|| format!("`{name}` is not declared"))
    }

    fn matrix_name(&mut self) -> Parsed<usize> {
        let name = self.next();
        match self.named(name)? {
            Named::Matrix(number) => Ok(number),
            _ => Err(format!("`{name}` is no matrix")),
        }
    }

    fn assigned(&mut self) -> Parsed<Expr> {
        self.expect("=")?;
        self.expr(0)
    }

    fn index(&mut self) -> Parsed<Expr> {
        self.expect("[")?;
        let index = self.expr(0)?;
        self.expect("]")?;
        Ok(index)
    }

    /// Reads an expression whose infix signs have at least the binding power `least`.
    fn expr(&mut self, least: u8) -> Parsed<Expr> {
        let depth = self.depth;
        self.enter(1)?;
        let mut left = self.postfix()?;
        loop {
            // Each sign makes the tree deeper.
            self.enter(1)?;
            let sign = self.peek();
            if matches!(sign, "//" | "%") && least <= MULTIPLICATIVE {
                self.next();
                let divisor = self.integer()?;
                left = match sign {
                    "//" => Expr::Quotient(Box::new(left), divisor),
                    _ => Expr::Remainder(Box::new(left), divisor),
                };
                continue;
            }
            let mut signs =
                BinaryOp::ALL.iter().filter_map(|op| infix(*op).map(|(s, binds)| (*op, s, binds)));
            let Some((op, _, binds)) = signs.find(|(_, s, binds)| *s == sign && *binds >= least)
            else {
                self.depth = depth;
                return Ok(left);
            };
            self.next();
            left = Expr::Binary(op, Box::new(left), Box::new(self.expr(binds + 1)?));
        }
    }

    fn postfix(&mut self) -> Parsed<Expr> {
        let mut expr = self.operand()?;
        while self.eat(".") {
            self.enter(1)?;
            expr = Expr::Lane(Box::new(expr), self.axis()?);
        }
        Ok(expr)
    }

    fn axis(&mut self) -> Parsed<u8> {
        let name = self.next();
        let at = LANES.iter().position(|lane| *lane == name);
        at.map(|at| at as u8).ok_or_else(|| format!("one of x, y, z, w expected, not `{name}`"))
    }

    fn operand(&mut self) -> Parsed<Expr> {
        let start = self.rest;
        match self.next() {
            "(" => {
                let expr = self.expr(0)?;
                self.expect(")")?;
                Ok(expr)
            }
            "[" => Ok(Expr::Vector(self.list("]")?)),
            "workgroup" => {
                self.expect(".")?;
                Ok(Expr::Builtin(Builtin::WorkgroupId(self.axis()?)))
            }
            "local" => {
                self.expect(".")?;
                Ok(Expr::Builtin(Builtin::LocalId(self.axis()?)))
            }
            "subgroup" => {
                self.expect(".")?;
                match self.next() {
                    "id" => Ok(Expr::Builtin(Builtin::Subgroup)),
                    "lane" => Ok(Expr::Builtin(Builtin::SubgroupLane)),
                    "count" => Ok(Expr::Builtin(Builtin::Subgroups)),
                    name => Err(format!("one of id, lane, count expected, not `{name}`")),
                }
            }
            "-" => {
                let number = self.next();
                literal(&format!("-{number}"))
                    .ok_or_else(|| format!("a literal expected, not `-{number}`"))
            }
            word if self.peek() == "(" => {
                self.next();
                let operands = self.list(")")?;
                call(word, operands)
                    .ok_or_else(|| format!("`{word}` with these operands means nothing"))
            }
            word => {
                if let Some(literal) = literal(word) {
                    return Ok(literal);
                }
                let named = self.named(word).inspect_err(|_| self.rest = start)?;
                Ok(match named {
                    Named::Variable(id) => Expr::Variable(id),
                    Named::Step(number) => Expr::step(number),
                    Named::Matrix(_) => {
                        return Err(format!(
                            "`{word}` is a matrix, whose elements no invocation sees"
                        ));
                    }
                    Named::Buffer(buffer) => Expr::Load { buffer, index: Box::new(self.index()?) },
                    Named::Shared(shared) => {
                        Expr::LoadShared { shared, index: Box::new(self.index()?) }
                    }
                })
            }
        }
    }

    /// Reads expressions separated by commas, up to and including `end`.
    fn list(&mut self, end: &str) -> Parsed<Vec<Expr>> {
        let mut items = vec![self.expr(0)?];
        while !self.eat(end) {
            self.expect(",")?;
            items.push(self.expr(0)?);
        }
        Ok(items)
    }
}

fn call(word: &str, operands: Vec<Expr>) -> Option<Expr> {
    let mut operands = operands.into_iter().map(Box::new);
    let (a, b, c, rest) = (operands.next()?, operands.next(), operands.next(), operands.next());
    Some(match (b, c, rest) {
        (None, None, None) => {
            if let Some(op) = UnaryOp::parse(word) {
                Expr::Unary(op, a)
            } else if let Some(dtype) = DType::parse(word) {
                Expr::Cast(dtype, a)
            } else if let Some(dtype) = word.strip_prefix("bitcast_") {
                Expr::Bitcast(DType::parse(dtype)?, a)
            } else {
                Expr::Splat(word.strip_prefix("splat")?.parse().ok()?, a)
            }
        }
        (Some(b), None, None) => Expr::Binary(BinaryOp::parse(word)?, a, b),
        (Some(b), Some(c), None) if word == "fma" => Expr::Fma(a, b, c),
        (Some(b), Some(c), None) if word == "select" => Expr::Select(a, b, c),
        _ => return None,
    })
}

/// Reads a literal: `3`, `-1.5`, `true`, `inf`, `7_u32`.
fn literal(text: &str) -> Option<Expr> {
    let (value, dtype) = match text.split_once('_') {
        Some((value, dtype)) => (value, DType::parse(dtype)?),
        None if matches!(text, "true" | "false") => return Some((text == "true").into()),
        None if text.trim_start_matches('-').parse::<u64>().is_ok() => (text, DType::I32),
        None => (text, DType::F32),
    };
    let magnitude = value.trim_start_matches('-');
    let is_number =
        magnitude.starts_with(|c: char| c.is_ascii_digit()) || matches!(magnitude, "inf" | "NaN");
    if is_number { Scalar::parse(dtype, value).map(Expr::Literal) } else { None }
}
