use super::row::lone;
use super::*;
use crate::cpu::memory::Register;
use crate::cpu::vector::emulated::Emulated;
use tile_compiler::native::WordOp;

/// [`strips`] with some registers.
type Strips<P> = unsafe fn(P, ChunkPointer, &mut [Op], usize, usize);

/// Computes `a` times a factor for each row, minus a number, with each row's sum and maximum.
/// Compares [`run`] with plain loops.
fn rows_equal_their_definition<P: Copy>(proof: P, strips: Strips<P>) {
    for (length, rows) in
        [(1, 7), (5, 4), (16, 3), (31, 2), (32, 3), (47, 3), (64, 2), (100, 3), (128, 2), (333, 4)]
    {
        let mut a: Vec<f32> = (0..length * rows).map(|i| ((i * 37) % 101) as f32 - 50.0).collect();
        let mut factors: Vec<f32> =
            (0..rows * MOST_LANES).map(|i| (1 + i / MOST_LANES) as f32).collect();
        let (mut numbers, mut registers) = (vec![0.5f32; MOST_LANES], vec![[0f32; MOST_LANES]; 2]);
        let (mut out, mut wholes) = (vec![0f32; length * rows], vec![vec![0f32; rows]; 2]);
        let place = |x: &mut [f32]| x.as_mut_ptr().cast::<u8>();
        let op = Op::new;
        let row = MOST_LANES * size_of::<f32>();
        let mut past = Register::zeroed(length * rows * size_of::<f32>());
        let past_or_not = match length.is_multiple_of(MOST_LANES) {
            true => op(Code::KeepPast, ChunkPointer::elements(past.start()), ChunkPointer::NONE),
            false => Op {
                keep: ChunkPointer::elements(past.start()),
                ..op(Code::Nothing, ChunkPointer::NONE, ChunkPointer::NONE)
            },
        };
        let mut aggregate = |code, number: usize| {
            let to = ChunkPointer::rows(place(&mut wholes[number]), size_of::<f32>());
            op(code, ChunkPointer::rows(place(&mut registers[number]), 0), to)
        };
        let mut ops = [
            op(Code::Mul, ChunkPointer::rows(place(&mut factors), row), ChunkPointer::NONE),
            Op {
                keep: ChunkPointer::elements(place(&mut out)),
                ..op(Code::Sub, ChunkPointer::rows(place(&mut numbers), 0), ChunkPointer::NONE)
            },
            past_or_not,
            aggregate(Code::Sum, 0),
            aggregate(Code::Greatest, 1),
        ];
        // SAFETY: every place has room for this many rows, and nothing overlaps.
        unsafe { strips(proof, ChunkPointer::elements(place(&mut a)), &mut ops, length, rows) };
        fence();
        assert_eq!(
            &past.elements::<f32>()[..out.len()],
            out,
            "past the caches, {rows} rows of {length}"
        );
        for (row, (out, a)) in out.chunks(length).zip(a.chunks(length)).enumerate() {
            let expected: Vec<f32> = a.iter().map(|a| a * (row + 1) as f32 - 0.5).collect();
            assert_eq!(out, expected, "{rows} rows of {length}");
            // The numbers are halves, few enough that every sum is exact.
            assert_eq!(wholes[0][row], expected.iter().sum::<f32>(), "{rows} rows of {length}");
            assert_eq!(
                wholes[1][row],
                expected.iter().copied().fold(f32::MIN, f32::max),
                "{rows} rows of {length}"
            );
        }
    }
}

/// Runs chains of one operation, with and without an aggregate, and compares them with plain loops.
fn loops_equal_their_definition<P: Copy>(proof: P, strips: Strips<P>) {
    for (length, rows) in [(64, 1), (128, 3), (300, 2), (1024, 4)] {
        let mut x: Vec<f32> = (0..length * rows).map(|i| ((i * 37) % 101) as f32 - 50.0).collect();
        let (mut parts, mut registers) =
            (vec![[0f32; MOST_LANES]; 2 * rows], vec![0f32; MOST_LANES]);
        for (row, parts) in parts.chunks_mut(2).enumerate() {
            let [high, low] = crate::cpu::vector::reciprocal((row + 1) as f32).unwrap();
            (parts[0], parts[1]) = ([high; MOST_LANES], [low; MOST_LANES]);
        }
        let part = |at: usize| {
            ChunkPointer::rows(
                parts[at].as_ptr().cast_mut().cast(),
                2 * size_of::<[f32; MOST_LANES]>(),
            )
        };
        for code in [Code::DivEvenly, Code::Nothing] {
            for aggregate in [None, Some(Code::Sum), Some(Code::Greatest), Some(Code::Least)] {
                let (mut out, mut wholes) = (vec![0f32; length * rows], vec![0f32; rows]);
                let keep = ChunkPointer::elements(out.as_mut_ptr().cast());
                let mut ops = vec![Op { keep, ..Op::new(code, part(0), part(1)) }];
                let whole = ChunkPointer::rows(wholes.as_mut_ptr().cast(), size_of::<f32>());
                let sums = ChunkPointer::rows(registers.as_mut_ptr().cast(), 0);
                ops.extend(aggregate.map(|code| Op::new(code, sums, whole)));
                assert!(lone(&ops).is_some());
                // SAFETY: every place has room for this many rows, and nothing overlaps.
                unsafe {
                    strips(
                        proof,
                        ChunkPointer::elements(x.as_mut_ptr().cast()),
                        &mut ops,
                        length,
                        rows,
                    )
                };
                for (row, (out, x)) in out.chunks(length).zip(x.chunks(length)).enumerate() {
                    let by = if code == Code::Nothing { 1.0 } else { (row + 1) as f32 };
                    let expected: Vec<f32> = x.iter().map(|x| x / by).collect();
                    let far = |a: f32, b: f32| (a - b).abs() > 1e-5 * (1.0 + b.abs());
                    let differ = out.iter().zip(&expected).any(|(a, b)| far(*a, *b));
                    assert!(!differ, "{code:?} of {rows} rows of {length}");
                    let whole = match aggregate {
                        Some(Code::Sum) => expected.iter().sum(),
                        Some(Code::Greatest) => expected.iter().copied().fold(f32::MIN, f32::max),
                        Some(_) => expected.iter().copied().fold(f32::MAX, f32::min),
                        None => 0.0,
                    };
                    let size: f32 = expected.iter().map(|x| x.abs()).sum();
                    assert!(
                        (wholes[row] - whole).abs() <= 1e-6 * size,
                        "{aggregate:?} after {code:?}, {rows} rows of {length}"
                    );
                }
            }
        }
    }
}

/// Adds a number to bytes, and stores the sums as bytes.
fn bytes_equal_their_definition<P: Copy>(proof: P, strips: Strips<P>) {
    for (length, rows) in [(1, 3), (15, 2), (16, 1), (33, 2), (64, 2), (300, 1)] {
        let mut x: Vec<u8> = (0..length * rows).map(|i| (i * 37 % 256) as u8).collect();
        let mut number = [f32::from_bits(100); MOST_LANES];
        for take in [Code::TakeSignedBytes, Code::TakeUnsignedBytes] {
            // A byte after the last one must stay.
            let mut out = vec![7u8; length * rows + 1];
            let number = ChunkPointer::rows(number.as_mut_ptr().cast(), 0);
            let [from, to] =
                [&mut x, &mut out].map(|bytes| ChunkPointer::elements(bytes.as_mut_ptr()));
            let mut ops = [
                Op::new(take, from, ChunkPointer::NONE),
                Op::new(Code::Word(WordOp::Add), number, ChunkPointer::NONE),
                Op::new(Code::FromSigned, ChunkPointer::NONE, ChunkPointer::NONE),
                Op::new(Code::ToUnsignedByte, ChunkPointer::NONE, ChunkPointer::NONE),
                Op::new(Code::KeepBytes, to, ChunkPointer::NONE),
            ];
            // SAFETY: every place has room for this many rows, and nothing overlaps.
            unsafe { strips(proof, ChunkPointer::NONE, &mut ops, length, rows) };
            let is_signed = take == Code::TakeSignedBytes;
            let word = |x: u8| if is_signed { i32::from(x as i8) } else { i32::from(x) };
            let sums = x.iter().map(|x| (word(*x) + 100).clamp(0, 255) as u8);
            assert_eq!(out, sums.chain([7]).collect::<Vec<_>>(), "{rows} rows of {length}");
        }
    }
}

/// Returns [`strips`] with the emulated vectors of an instruction set.
pub fn emulated(set: Emulated) -> Strips<()> {
    match set {
        Emulated::Avx512 => strips::<Portable<f32, 16>>,
        Emulated::Avx2 => strips::<Portable<f32, 8>>,
        Emulated::Neon | Emulated::Portable => strips::<Portable<f32, 4>>,
    }
}

#[test]
fn every_vector_unit() {
    for set in Emulated::ALL {
        loops_equal_their_definition((), emulated(set));
        rows_equal_their_definition((), emulated(set));
        bytes_equal_their_definition((), emulated(set));
    }
    #[cfg(target_arch = "x86_64")]
    {
        if let Some(proof) = level().avx2() {
            rows_equal_their_definition(proof, avx2);
            bytes_equal_their_definition(proof, avx2);
            loops_equal_their_definition(proof, avx2);
        }
        if let Level::Avx512(proof) = level() {
            rows_equal_their_definition(proof, avx512);
            bytes_equal_their_definition(proof, avx512);
            loops_equal_their_definition(proof, avx512);
        }
    }
}
