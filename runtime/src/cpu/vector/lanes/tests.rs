use super::*;

/// Tests words of all magnitudes, and shift counts within a word and beyond.
fn words_equal_their_definition<L: Lanes>(proof: L::Proof) {
    let words: Vec<u32> =
        (0..64).map(|i| (i as u32).wrapping_mul(0x9e37_79b9) >> (i % 32)).collect();
    let others = words.iter().copied().rev().chain(0..35);
    let by_lanes = |f: &dyn Fn() -> L| {
        let mut out = [0.0; MOST_LANES];
        // SAFETY: the array has room for the lanes of any register.
        unsafe { f().store(out.as_mut_ptr()) };
        out[L::LANES - 1]
    };
    for other in others {
        for &word in &words {
            let [a, b] = [word, other].map(|x| L::splat(proof, f32::from_bits(x)));
            for op in WordOp::ALL.into_iter().filter(|op| *op != WordOp::RotateLeft || other < 32) {
                let got = by_lanes(&|| a.word(op, b)).to_bits();
                assert_eq!(got, op.apply(word, other), "{op:?} of {word:#x} and {other:#x}");
            }
            let relations = |to: *mut u8| {
                // SAFETY: the array has room for the lanes of any register, four times.
                unsafe {
                    a.compare_words::<EQUAL>(b, to);
                    a.compare_words::<NOT_EQUAL>(b, to.add(MOST_LANES));
                    a.compare_words::<LESS>(b, to.add(2 * MOST_LANES));
                    a.compare_words::<LESS_OR_EQUAL>(b, to.add(3 * MOST_LANES));
                }
            };
            let mut holds = [[0u8; MOST_LANES]; 4];
            relations(holds.as_mut_ptr().cast());
            let (x, y) = (word as i32, other as i32);
            let want = [x == y, x != y, x < y, x <= y].map(u8::from);
            assert_eq!(holds.map(|lanes| lanes[L::LANES - 1]), want, "{x} and {y}");
            let floats = [true, false].map(|signed| by_lanes(&|| a.words_as_floats(signed)));
            assert_eq!(floats, [word as i32 as f32, word as f32], "{word:#x}");
        }
    }
}

/// Tests conversions to integers, at their limits and beyond.
fn integers_equal_their_definition<L: Lanes>(proof: L::Proof) {
    let near =
        [0.0, 0.5, 0.999, 1.0, 126.5, 127.0, 127.5, 128.0, 129.0, 254.9, 255.0, 255.5, 256.0];
    let far = [1e9, 2147483520.0, 2147483648.0, 1e10, f32::MAX, f32::INFINITY, f32::NAN, 1e-40];
    for x in near.into_iter().chain(far).flat_map(|x| [x, -x]) {
        let word = |f: &dyn Fn(L) -> L| {
            let mut out = [0.0; MOST_LANES];
            // SAFETY: the array has room for the lanes of any register.
            unsafe { f(L::splat(proof, x)).store(out.as_mut_ptr()) };
            out[L::LANES - 1].to_bits() as i32
        };
        assert_eq!(word(&|x| x.floats_as_words()), x as i32, "{x}");
        assert_eq!(word(&|x| x.floats_as_bytes(true)), i32::from(x as i8), "{x}");
        assert_eq!(word(&|x| x.floats_as_bytes(false)), i32::from(x as u8), "{x}");
        for offset in [-128.0, -3.0, 0.0, 127.0] {
            let near = x.round_ties_even() + offset;
            let got = word(&|x| x.floats_as_near_bytes(L::splat(proof, offset), true));
            assert_eq!(got, i32::from(near as i8), "{x} and {offset}");
            let (offset, near) = (offset + 128.0, near + 128.0);
            let got = word(&|x| x.floats_as_near_bytes(L::splat(proof, offset), false));
            assert_eq!(got, i32::from(near as u8), "{x} and {offset}");
        }
    }
}

/// Tests all bytes: loaded, extended, and stored.
fn bytes_equal_their_definition<L: Lanes>(proof: L::Proof) {
    let all: Vec<u8> = (0..=255).chain(0..MOST_LANES as u8).collect();
    for first in 0..=255 {
        for signed in [true, false] {
            let (mut words, mut bytes) = ([0.0; MOST_LANES], [0; MOST_LANES]);
            // SAFETY: there are `LANES` bytes after the first one, and the arrays have room for the
            // lanes of any register.
            unsafe {
                let x = L::load_bytes(proof, all[first..].as_ptr(), signed);
                x.store(words.as_mut_ptr());
                let high = L::splat(proof, f32::from_bits(0x1234_5600));
                let x = x.last_bytes(false).word(WordOp::Or, high);
                x.store_bytes(bytes.as_mut_ptr());
                let mut again = [0.0; MOST_LANES];
                x.last_bytes(signed).store(again.as_mut_ptr());
                assert_eq!(again.map(f32::to_bits), words.map(f32::to_bits));
            }
            for (lane, byte) in all[first..][..L::LANES].iter().enumerate() {
                let word = if signed { i32::from(*byte as i8) } else { i32::from(*byte) };
                assert_eq!(words[lane].to_bits() as i32, word);
                assert_eq!(bytes[lane], *byte);
            }
        }
    }
}

/// Tests groups of all sizes, from the first lane on and shifted.
fn picks_are_in_range<L: Lanes>(proof: L::Proof) {
    for (group, first) in (1..9).flat_map(|group| [(group, 0), (group, group / 2)]) {
        let index: [i32; MOST_LANES] = std::array::from_fn(|i| ((i + first) / group) as i32);
        let span = index[L::LANES - 1] as usize + 1;
        let numbers: Box<[f32]> = (0..span).map(|i| i as f32 + 0.5).collect();
        let mut out = [0.0; MOST_LANES];
        // SAFETY: there are `span` numbers, and the array has room for the lanes of any register.
        unsafe { L::pick(proof, numbers.as_ptr(), &index, span).store(out.as_mut_ptr()) };
        for (out, index) in out[..L::LANES].iter().zip(index) {
            assert_eq!(*out, index as f32 + 0.5, "groups of {group}");
        }
    }
}

/// Tests that every second number is loaded, and none after the last of them.
fn numbers_apart_are_loaded<L: Lanes>(proof: L::Proof) {
    let numbers: Box<[f32]> = (0..2 * L::LANES - 1).map(|i| i as f32).collect();
    let mut out = [0.0; MOST_LANES];
    // SAFETY: there are as many numbers as are read, and the array has room for any register.
    unsafe { L::load_apart(proof, numbers.as_ptr()).store(out.as_mut_ptr()) };
    for (number, out) in out[..L::LANES].iter().enumerate() {
        assert_eq!(*out, 2.0 * number as f32);
    }
}

/// A strip gives what [`elementary::exp`] gives, whichever way far arguments make the other ones
/// go.
fn exp_of_a_strip_is_that_of_each<L: Lanes>(proof: L::Proof) {
    let near: Vec<f32> = (0..4 * L::LANES)
        .map(|i| (i as f32 - 20.0) * 4.1)
        .map(|x| x.clamp(-elementary::NEAR, elementary::NEAR))
        .collect();
    let bits = |all: [L; 4]| {
        all.map(|x| {
            let mut out = [0.0; MOST_LANES];
            // SAFETY: the array has room for the lanes of any register.
            unsafe { x.store(out.as_mut_ptr()) };
            out.map(f32::to_bits)
        })
    };
    for far in [0.0, 88.0, 89.5, -88.0, -103.5, f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
        for at in [0, L::LANES, 4 * L::LANES - 1] {
            let mut x = near.clone();
            x[at] = far;
            // SAFETY: `x` has the lanes of four registers.
            let registers: [L; 4] =
                std::array::from_fn(|k| unsafe { L::load(proof, x[k * L::LANES..].as_ptr()) });
            let mut all = registers;
            L::exp_each(&mut all);
            let each = registers.map(|x| elementary::exp([x])[0]);
            assert_eq!(bits(all), bits(each), "{far} at {at}");
        }
    }
}

#[test]
fn exp_of_every_vector_unit() {
    exp_of_a_strip_is_that_of_each::<Portable<f32, 4>>(());
    exp_of_a_strip_is_that_of_each::<Portable<f32, 8>>(());
    exp_of_a_strip_is_that_of_each::<Portable<f32, 16>>(());
    #[cfg(target_arch = "x86_64")]
    {
        use crate::cpu::vector::register::{F32x8, F32x16};
        use crate::cpu::vector::{Level, level};
        if let Some(proof) = level().avx2() {
            exp_of_a_strip_is_that_of_each::<F32x8>(proof);
        }
        if let Level::Avx512(proof) = level() {
            exp_of_a_strip_is_that_of_each::<F32x16>(proof);
        }
    }
    #[cfg(target_arch = "aarch64")]
    if let crate::cpu::vector::Level::Neon(proof) = crate::cpu::vector::level() {
        exp_of_a_strip_is_that_of_each::<crate::cpu::vector::register::F32x4>(proof);
    }
}

#[test]
fn words_of_every_vector_unit() {
    words_equal_their_definition::<Portable<f32, 4>>(());
    integers_equal_their_definition::<Portable<f32, 4>>(());
    bytes_equal_their_definition::<Portable<f32, 4>>(());
    words_equal_their_definition::<Portable<f32, 8>>(());
    integers_equal_their_definition::<Portable<f32, 8>>(());
    bytes_equal_their_definition::<Portable<f32, 8>>(());
    words_equal_their_definition::<Portable<f32, 16>>(());
    integers_equal_their_definition::<Portable<f32, 16>>(());
    bytes_equal_their_definition::<Portable<f32, 16>>(());
    #[cfg(target_arch = "x86_64")]
    {
        use crate::cpu::vector::register::{F32x8, F32x16};
        use crate::cpu::vector::{Level, level};
        if let Some(proof) = level().avx2() {
            words_equal_their_definition::<F32x8>(proof);
            integers_equal_their_definition::<F32x8>(proof);
            bytes_equal_their_definition::<F32x8>(proof);
        }
        if let Level::Avx512(proof) = level() {
            words_equal_their_definition::<F32x16>(proof);
            integers_equal_their_definition::<F32x16>(proof);
            bytes_equal_their_definition::<F32x16>(proof);
        }
    }
    #[cfg(target_arch = "aarch64")]
    if let crate::cpu::vector::Level::Neon(proof) = crate::cpu::vector::level() {
        words_equal_their_definition::<crate::cpu::vector::register::F32x4>(proof);
        integers_equal_their_definition::<crate::cpu::vector::register::F32x4>(proof);
        bytes_equal_their_definition::<crate::cpu::vector::register::F32x4>(proof);
    }
}

#[test]
fn loads_of_every_vector_unit() {
    picks_are_in_range::<Portable<f32, 4>>(());
    numbers_apart_are_loaded::<Portable<f32, 4>>(());
    picks_are_in_range::<Portable<f32, 8>>(());
    numbers_apart_are_loaded::<Portable<f32, 8>>(());
    picks_are_in_range::<Portable<f32, 16>>(());
    numbers_apart_are_loaded::<Portable<f32, 16>>(());
    #[cfg(target_arch = "x86_64")]
    {
        use crate::cpu::vector::register::{F32x8, F32x16};
        use crate::cpu::vector::{Level, level};
        if let Some(proof) = level().avx2() {
            picks_are_in_range::<F32x8>(proof);
            numbers_apart_are_loaded::<F32x8>(proof);
        }
        if let Level::Avx512(proof) = level() {
            picks_are_in_range::<F32x16>(proof);
            numbers_apart_are_loaded::<F32x16>(proof);
        }
    }
    #[cfg(target_arch = "aarch64")]
    if let crate::cpu::vector::Level::Neon(proof) = crate::cpu::vector::level() {
        picks_are_in_range::<crate::cpu::vector::register::F32x4>(proof);
        numbers_apart_are_loaded::<crate::cpu::vector::register::F32x4>(proof);
    }
}
