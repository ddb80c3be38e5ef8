//! Which instructions the processor has, and the macro that compiles one kernel for each.
//!
//! An [`Isa`] is proof: it can only be had from [`Isa::detect`] or [`Isa::available`], which ask
//! the processor. That proof is what makes the `unsafe` calls in [`per_isa`] sound.

use std::fmt;

/// An instruction set that this processor has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Isa(Kind);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Plain,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    AvxVnni,
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "aarch64")]
    Neon,
}

impl Isa {
    /// What every build of this program may use: the baseline of the target.
    pub const PLAIN: Self = Self(Kind::Plain);

    /// The widest instruction set that this processor has.
    #[must_use]
    pub fn detect() -> Self {
        *Self::available().last().unwrap_or(&Self::PLAIN)
    }

    /// Every instruction set that this processor has, narrowest first.
    #[must_use]
    pub fn available() -> Vec<Self> {
        let mut all = vec![Self::PLAIN];
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("f16c") {
            all.push(Self(Kind::Avx2));
            if is_x86_feature_detected!("avxvnni") {
                all.push(Self(Kind::AvxVnni));
            }
            if is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512vnni")
            {
                all.push(Self(Kind::Avx512));
            }
        }
        #[cfg(target_arch = "aarch64")]
        all.push(Self(Kind::Neon));
        all
    }

    /// Whether there are 32 vector registers of 512 bits: tiles may be larger then.
    #[must_use]
    pub(crate) fn is_wide(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        return self.0 == Kind::Avx512;
        #[cfg(not(target_arch = "x86_64"))]
        false
    }

    /// The name shown by diagnostics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.0 {
            Kind::Plain => "plain",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => "AVX2",
            #[cfg(target_arch = "x86_64")]
            Kind::AvxVnni => "AVX-VNNI",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => "AVX-512",
            #[cfg(target_arch = "aarch64")]
            Kind::Neon => "NEON",
        }
    }

    pub(crate) fn kind(self) -> Kind {
        self.0
    }
}

impl fmt::Debug for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Compiles `$inner` (which must be `#[inline(always)]`, so that the caller's instruction set
/// applies to it) for every instruction set, and chooses by an [`Isa`] at run time. `$inner` is
/// told by a constant whether it has 32 wide vector registers: it may choose the shape of its tiles
/// by that, never the order in which one result is computed.
macro_rules! per_isa {
    (
        $(#[$meta:meta])*
        $vis:vis fn $name:ident $(<$block:ident: $bound:path>)? ($($arg:ident: $ty:ty),* $(,)?)
        = $inner:ident;
    ) => {
        $(#[$meta])*
        #[allow(unsafe_code, reason = "calls a function compiled for a detected instruction set")]
        $vis fn $name $(<$block: $bound>)? (isa: $crate::isa::Isa, $($arg: $ty),*) {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,f16c")]
                fn avx2 $(<$block: $bound>)? ($($arg: $ty),*) {
                    $inner::<$($block,)? false>($($arg),*);
                }
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,f16c")]
                fn avx512 $(<$block: $bound>)? ($($arg: $ty),*) {
                    $inner::<$($block,)? true>($($arg),*);
                }
                match isa.kind() {
                    $crate::isa::Kind::Plain => {}
                    // SAFETY: an `Isa` of this kind is only made after the processor was seen to
                    // have the features (`Isa::available`).
                    $crate::isa::Kind::Avx2 | $crate::isa::Kind::AvxVnni => return unsafe { avx2 $(::<$block>)? ($($arg),*) },
                    // SAFETY: as above.
                    $crate::isa::Kind::Avx512 => return unsafe { avx512 $(::<$block>)? ($($arg),*) },
                }
            }
            let _ = isa;
            $inner::<$($block,)? { cfg!(target_arch = "aarch64") }>($($arg),*);
        }
    };
}
pub(crate) use per_isa;
