//! The vector units that loops are compiled for, and the macros that compile a loop for each.

/// The vector units that loops are compiled for.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
pub enum Level {
    Baseline,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

/// Returns the level of this processor, which is detected once.
pub fn level() -> Level {
    #[cfg(target_arch = "x86_64")]
    {
        static LEVEL: std::sync::OnceLock<Level> = std::sync::OnceLock::new();
        *LEVEL.get_or_init(|| {
            macro_rules! all { ($($feature:tt)*) => { $(is_x86_feature_detected!($feature))&&* } }
            if !all!("avx2" "fma" "bmi1" "bmi2" "lzcnt" "popcnt") {
                Level::Baseline
            } else if all!("avx512f" "avx512bw" "avx512dq" "avx512vl") {
                Level::Avx512
            } else {
                Level::Avx2
            }
        })
    }
    #[cfg(not(target_arch = "x86_64"))]
    Level::Baseline
}

/// Returns whether this processor has a fused multiply-add.
pub fn is_fused() -> bool {
    cfg!(target_arch = "aarch64") || level() > Level::Baseline
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
                #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
                fn wide<$($g: $bound),*>($($arg: $ty),*) $(-> $ret)? {
                    body::<$($g),*>($($arg),*)
                }
                if $crate::cpu::vector::level() >= $crate::cpu::vector::Level::Avx2 {
                    // SAFETY: `level` detected these features.
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
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,bmi1,bmi2,lzcnt,popcnt")]
                fn widest($($arg: $ty),*) $(-> $ret)? {
                    body::<true>($($arg),*)
                }
                #[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt")]
                fn wide($($arg: $ty),*) $(-> $ret)? {
                    body::<true>($($arg),*)
                }
                match $crate::cpu::vector::level() {
                    // SAFETY: `level` detected these features.
                    $crate::cpu::vector::Level::Avx512 => return unsafe { widest($($arg),*) },
                    // SAFETY: `level` detected these features.
                    $crate::cpu::vector::Level::Avx2 => return unsafe { wide($($arg),*) },
                    $crate::cpu::vector::Level::Baseline => {}
                }
            }
            body::<{ cfg!(target_arch = "aarch64") }>($($arg),*)
        }
    };
}
pub(super) use {vectorised, widest};
