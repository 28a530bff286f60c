//! The header of a `.npy` file: a Python dictionary literal of three entries.

use tile_compiler::dtype::DType;

use super::{Header, MOST_AXES, NpyError};

/// Returns NumPy's name of a type, as it is written.
pub fn descr(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "|b1",
        DType::I8 => "|i1",
        DType::I16 => "<i2",
        DType::I32 => "<i4",
        DType::I64 => "<i8",
        DType::U8 => "|u1",
        DType::U16 => "<u2",
        DType::U32 => "<u4",
        DType::U64 => "<u8",
        DType::F16 => "<f2",
        DType::BF16 => "<V2",
        DType::F32 => "<f4",
        DType::F64 => "<f8",
    }
}

/// Returns the type that `text` names, and whether it is big-endian.
fn dtype(text: &str) -> Result<(DType, bool), NpyError> {
    let (order, name) = match text.chars().next() {
        Some(c @ ('<' | '>' | '|' | '=')) => (c, &text[1..]),
        _ => ('=', text),
    };
    let found = DType::ALL.into_iter().find(|&d| &descr(d)[1..] == name);
    let Some(dtype) = found else {
        let why = match name.chars().next() {
            Some('O') => {
                "Python objects (dtype object) are not numbers; save an array of a number type"
                    .into()
            }
            Some('c') => format!("complex numbers (dtype '{text}')"),
            Some('U' | 'S') => format!("text (dtype '{text}')"),
            Some('M' | 'm') => format!("dates (dtype '{text}')"),
            _ => format!("dtype '{text}'"),
        };
        return Err(NpyError::Unsupported(why));
    };
    let big_endian = order == '>' || order == '=' && cfg!(target_endian = "big");
    Ok((dtype, big_endian && dtype.size() > 1))
}

/// Parses the text of a header.
pub fn parse(text: &[u8]) -> Result<Header, NpyError> {
    let mut reader = Reader { text, at: 0 };
    let (mut descr, mut fortran_order, mut shape) = (None, None, None);
    reader.expect(b'{')?;
    while !reader.skip(b'}') {
        let key = reader.string()?;
        reader.expect(b':')?;
        let fresh = match key.as_str() {
            "descr" => descr.replace(reader.descr()?).is_none(),
            "fortran_order" => fortran_order.replace(reader.boolean()?).is_none(),
            "shape" => shape.replace(reader.shape()?).is_none(),
            _ => {
                return Err(NpyError::Malformed(format!(
                    "its header has an unknown entry '{key}'"
                )));
            }
        };
        if !fresh {
            return Err(NpyError::Malformed(format!("its header has the entry '{key}' twice")));
        }
        if !reader.skip(b',') {
            reader.expect(b'}')?;
            break;
        }
    }
    if reader.peek().is_some() {
        return Err(reader.error("the end of the header"));
    }
    if let Some(axes) = shape.as_ref().map(Vec::len).filter(|axes| *axes > MOST_AXES) {
        return Err(NpyError::Unsupported(format!(
            "{axes} axes, and a tensor may have {MOST_AXES}"
        )));
    }
    let missing = |name: &str| NpyError::Malformed(format!("its header lacks the entry '{name}'"));
    let (dtype, big_endian) = dtype(&descr.ok_or_else(|| missing("descr"))?)?;
    Ok(Header {
        dtype,
        big_endian,
        fortran_order: fortran_order.ok_or_else(|| missing("fortran_order"))?,
        shape: shape.ok_or_else(|| missing("shape"))?,
    })
}

/// A position in the text.
struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    /// Returns the next byte that is not white space.
    fn peek(&mut self) -> Option<u8> {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    /// Skips `byte` if it is next. Returns whether it was.
    fn skip(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += is_next as usize;
        is_next
    }

    fn expect(&mut self, byte: u8) -> Result<(), NpyError> {
        if self.skip(byte) { Ok(()) } else { Err(self.error(&format!("'{}'", byte as char))) }
    }

    fn error(&self, expected: &str) -> NpyError {
        NpyError::Malformed(format!("byte {} of its header is not {expected}", self.at))
    }

    /// Takes the following bytes for which `holds` is true.
    fn run(&mut self, holds: impl Fn(u8) -> bool) -> &[u8] {
        let rest = &self.text[self.at..];
        let length = rest.iter().position(|&b| !holds(b)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    /// Parses a string in either kind of quotes, without escapes.
    fn string(&mut self) -> Result<String, NpyError> {
        let quote = match self.peek() {
            Some(quote @ (b'\'' | b'"')) => quote,
            _ => return Err(self.error("a string")),
        };
        self.at += 1;
        let text = String::from_utf8_lossy(self.run(|b| b != quote && b != b'\\')).into_owned();
        self.expect(quote)?;
        Ok(text)
    }

    fn descr(&mut self) -> Result<String, NpyError> {
        match self.peek() {
            Some(b'[' | b'(') => Err(NpyError::Unsupported(
                "a structured array, with several fields an element".into(),
            )),
            _ => self.string(),
        }
    }

    fn boolean(&mut self) -> Result<bool, NpyError> {
        self.peek();
        match self.run(|b| b.is_ascii_alphabetic()) {
            b"True" => Ok(true),
            b"False" => Ok(false),
            _ => Err(self.error("True or False")),
        }
    }

    /// Parses a tuple of sizes.
    fn shape(&mut self) -> Result<Vec<usize>, NpyError> {
        let mut sizes = Vec::new();
        self.expect(b'(')?;
        while !self.skip(b')') {
            self.peek();
            let digits = String::from_utf8_lossy(self.run(|b| b.is_ascii_digit())).into_owned();
            sizes.push(digits.parse().map_err(|_| self.error("a size"))?);
            // Python 2 wrote long integers as `3L`.
            self.skip(b'L');
            if !self.skip(b',') {
                self.expect(b')')?;
                break;
            }
        }
        Ok(sizes)
    }
}
