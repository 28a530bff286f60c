//! The vector units that code is compiled for, proofs that this processor has them, and the macros
//! that compile a loop for each.

/// Compiles a function with the features that [`Avx512`] proves.
#[cfg(target_arch = "x86_64")]
macro_rules! avx512 {
    ($($function:tt)*) => {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
        $($function)*
    };
}

/// Compiles a function with the features that [`Avx512Vnni`] proves.
#[cfg(target_arch = "x86_64")]
macro_rules! avx512_vnni {
    ($($function:tt)*) => {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
        $($function)*
    };
}

/// Compiles a function with the features that [`AvxVnni`] proves.
#[cfg(target_arch = "x86_64")]
macro_rules! avx_vnni {
    ($($function:tt)*) => {
        #[target_feature(enable = "avxvnni,avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
        $($function)*
    };
}

/// Compiles a function with the features that [`Avx2`] proves.
#[cfg(target_arch = "x86_64")]
macro_rules! avx2 {
    ($($function:tt)*) => {
        #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
        $($function)*
    };
}

/// Compiles a function with the features that [`Neon`] proves.
#[cfg(target_arch = "aarch64")]
macro_rules! neon {
    ($($function:tt)*) => {
        #[target_feature(enable = "neon")]
        $($function)*
    };
}

/// Compiles a function for any processor.
macro_rules! baseline {
    ($($function:tt)*) => { $($function)* };
}

/// Proof that this processor has AVX2, FMA, F16C, BMI1, BMI2, LZCNT and POPCNT.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Avx2(());

/// Proof that this processor has AVX-512 F, BW, DQ and VL, and what [`Avx2`] proves.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Avx512(());

/// Proof that this processor has AVX-512 VNNI, and what [`Avx512`] proves.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Avx512Vnni(());

/// Proof that this processor has AVX-VNNI, and what [`Avx2`] proves.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AvxVnni(());

/// Proof that this processor has Neon.
#[cfg(target_arch = "aarch64")]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neon(());

// Each proof has one constructor. It is safe in functions that are compiled with the features, and
// unsafe elsewhere.

#[cfg(target_arch = "x86_64")]
impl Avx2 {
    avx2! {
        /// Creates the proof, which the caller's features are.
        #[inline]
        pub fn here() -> Self {
            Self(())
        }
    }
}

#[cfg(target_arch = "x86_64")]
impl Avx512 {
    avx512! {
        /// Creates the proof, which the caller's features are.
        #[inline]
        pub fn here() -> Self {
            Self(())
        }
    }
}

#[cfg(target_arch = "x86_64")]
impl Avx512Vnni {
    avx512_vnni! {
        /// Creates the proof, which the caller's features are.
        #[inline]
        pub fn here() -> Self {
            Self(())
        }
    }

    /// Returns the proof if this processor has the features.
    pub fn detect() -> Option<Self> {
        let is_wide = matches!(level(), Level::Avx512(_));
        // SAFETY: the level has the other features.
        (is_wide && is_x86_feature_detected!("avx512vnni")).then(|| unsafe { Self::here() })
    }
}

#[cfg(target_arch = "x86_64")]
impl AvxVnni {
    avx_vnni! {
        /// Creates the proof, which the caller's features are.
        #[inline]
        pub fn here() -> Self {
            Self(())
        }
    }

    /// Returns the proof if this processor has the features.
    pub fn detect() -> Option<Self> {
        let has_avx2 = level().avx2().is_some();
        // SAFETY: the level has the other features.
        (has_avx2 && is_x86_feature_detected!("avxvnni")).then(|| unsafe { Self::here() })
    }
}

#[cfg(target_arch = "aarch64")]
impl Neon {
    neon! {
        /// Creates the proof, which the caller's features are.
        #[inline]
        pub fn here() -> Self {
            Self(())
        }
    }
}

/// The widest vector unit of a processor, with its proof.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Level {
    /// No vector unit that is not part of the target.
    Baseline,
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
    #[cfg(target_arch = "aarch64")]
    Neon(Neon),
}

impl Level {
    /// Returns the proof of AVX2, which a processor with AVX-512 has, too.
    #[cfg(target_arch = "x86_64")]
    pub fn avx2(self) -> Option<Avx2> {
        match self {
            Level::Baseline => None,
            Level::Avx2(proof) => Some(proof),
            Level::Avx512(Avx512(())) => Some(Avx2(())),
        }
    }
}

/// Returns the level of this processor, which is detected once.
#[cfg(target_arch = "x86_64")]
pub fn level() -> Level {
    static LEVEL: std::sync::OnceLock<Level> = std::sync::OnceLock::new();
    *LEVEL.get_or_init(|| {
        macro_rules! all { ($($feature:tt)*) => { $(is_x86_feature_detected!($feature))&&* } }
        if !all!("avx2" "fma" "f16c" "bmi1" "bmi2" "lzcnt" "popcnt") {
            Level::Baseline
        } else if all!("avx512f" "avx512bw" "avx512dq" "avx512vl") {
            // SAFETY: all of the features were detected just above.
            Level::Avx512(unsafe { Avx512::here() })
        } else {
            // SAFETY: all of the features were detected just above.
            Level::Avx2(unsafe { Avx2::here() })
        }
    })
}

/// Returns the level of this processor.
#[cfg(target_arch = "aarch64")]
pub fn level() -> Level {
    // SAFETY: Neon is a part of the target, which its processors all have.
    Level::Neon(unsafe { Neon::here() })
}

/// Returns the level of this processor.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub fn level() -> Level {
    Level::Baseline
}

/// Returns whether this processor has a fused multiply-add.
pub fn is_fused() -> bool {
    level() != Level::Baseline
}

/// Defines a function whose body is also compiled with AVX2. That version runs where the processor
/// has it.
macro_rules! vectorised {
    (
        $(#[$doc:meta])*
        pub fn $name:ident<$($g:ident: $bound:ident),*>($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block
    ) => {
        $(#[$doc])*
        pub fn $name<$($g: $bound),*>($($arg: $ty),*) $(-> $ret)? {
            #[inline(always)]
            fn body<$($g: $bound),*>($($arg: $ty),*) $(-> $ret)? $body

            #[cfg(target_arch = "x86_64")]
            {
                $crate::cpu::vector::level::avx2! {
                    fn wide<$($g: $bound),*>($($arg: $ty),*) $(-> $ret)? {
                        body::<$($g),*>($($arg),*)
                    }
                }
                if let Some(_proof) = $crate::cpu::vector::level().avx2() {
                    // SAFETY: the proof says that the processor has the function's features.
                    #[allow(unsafe_code, reason = "the proof is at hand")]
                    return unsafe { wide::<$($g),*>($($arg),*) };
                }
            }
            body::<$($g),*>($($arg),*)
        }
    };
}

/// Defines a function of f32s like `vectorised`, also compiled with AVX-512. In its body, `FUSED`
/// says whether the processor has a fused multiply-add.
macro_rules! widest {
    ($(#[$doc:meta])* pub fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? $body:block) => {
        $(#[$doc])*
        pub fn $name($($arg: $ty),*) $(-> $ret)? {
            #[inline(always)]
            fn body<const FUSED: bool>($($arg: $ty),*) $(-> $ret)? $body

            #[cfg(target_arch = "x86_64")]
            {
                use $crate::cpu::vector::{Level, level};
                $crate::cpu::vector::level::avx512! {
                    fn widest($($arg: $ty),*) $(-> $ret)? {
                        body::<true>($($arg),*)
                    }
                }
                $crate::cpu::vector::level::avx2! {
                    fn wide($($arg: $ty),*) $(-> $ret)? {
                        body::<true>($($arg),*)
                    }
                }
                let level = level();
                if let Level::Avx512(_proof) = level {
                    // SAFETY: the proof says that the processor has the function's features.
                    #[allow(unsafe_code, reason = "the proof is at hand")]
                    return unsafe { widest($($arg),*) };
                }
                if let Level::Avx2(_proof) = level {
                    // SAFETY: the proof says that the processor has the function's features.
                    #[allow(unsafe_code, reason = "the proof is at hand")]
                    return unsafe { wide($($arg),*) };
                }
            }
            body::<{ cfg!(target_arch = "aarch64") }>($($arg),*)
        }
    };
}

pub(in crate::cpu) use baseline;
#[cfg(target_arch = "aarch64")]
pub(in crate::cpu) use neon;
#[cfg(target_arch = "x86_64")]
pub(in crate::cpu) use {avx_vnni, avx2, avx512, avx512_vnni};
pub(super) use {vectorised, widest};
