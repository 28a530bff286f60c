//! Expressions whose types depend on a `DType`.

/// Evaluates an expression with `$t` as the Rust type of a `DType`.
macro_rules! typed {
    ($dtype:expr, $t:ident => $e:expr) => {{
        use tile_compiler::dtype::DType;
        match $dtype {
            DType::Bool => {
                type $t = $crate::cpu::vector::number::Bool;
                $e
            }
            DType::I8 => {
                type $t = i8;
                $e
            }
            DType::I16 => {
                type $t = i16;
                $e
            }
            DType::I32 => {
                type $t = i32;
                $e
            }
            DType::I64 => {
                type $t = i64;
                $e
            }
            DType::U8 => {
                type $t = u8;
                $e
            }
            DType::U16 => {
                type $t = u16;
                $e
            }
            DType::U32 => {
                type $t = u32;
                $e
            }
            DType::U64 => {
                type $t = u64;
                $e
            }
            DType::F16 => {
                type $t = half::f16;
                $e
            }
            DType::BF16 => {
                type $t = half::bf16;
                $e
            }
            DType::F32 => {
                type $t = f32;
                $e
            }
            DType::F64 => {
                type $t = f64;
                $e
            }
        }
    }};
}
pub(in crate::cpu) use typed;

/// Evaluates an expression with `$t` as an integer of the size of a `DType`, for elements that are
/// only moved: four sizes compile to a third of the code of all types.
macro_rules! sized {
    ($dtype:expr, $t:ident => $e:expr) => {{
        match $dtype.size() {
            1 => {
                type $t = u8;
                $e
            }
            2 => {
                type $t = u16;
                $e
            }
            4 => {
                type $t = u32;
                $e
            }
            _ => {
                type $t = u64;
                $e
            }
        }
    }};
}
pub(in crate::cpu) use sized;
