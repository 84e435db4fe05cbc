//! Fields of events as 64-bit words and as text.

use crate::virtual_cpu::VirtualCpu;
use arch::address::{Device, Linear, SystemPhysical};
use arch::apic::{DeliveryMode, DestinationMode, Scope};
use arch::identity::{ApicId, RequesterId, Vector};
use arch::svm::consistency::Illegal;
use arch::svm::exit::ExitCode;
use arch::vmx::AbortCode;
use arch::vmx::consistency::Broken;
use core::fmt::{Display, Formatter, Result};

/// A field of an event.
pub(crate) trait Word {
    fn word(&self) -> u64;
    /// The value that a word stands for.
    fn from_word(word: u64) -> Option<Self>
    where
        Self: Sized;
    /// Whether values come in neighbourhoods, so that files hold the change since the last one.
    fn is_address(&self) -> bool;
    fn is_address_of() -> bool
    where
        Self: Sized;
    /// Whether values are told by names, of which the words are our own numbers.
    fn is_named(&self) -> bool;
    fn is_named_of() -> bool
    where
        Self: Sized;
    fn show(&self, f: &mut Formatter<'_>) -> Result;
}

/// A field's text.
pub(crate) struct Shown<'a>(pub &'a dyn Word);

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        self.0.show(f)
    }
}

macro_rules! words {
    ($($type:ty, $is_address:literal, $is_named:literal, $format:literal:
        |$value:ident| $word:expr, |$from:ident| $back:expr;)*) => {
        $(impl Word for $type {
            fn word(&self) -> u64 {
                let $value = *self;
                $word
            }

            fn from_word($from: u64) -> Option<Self> {
                $back
            }

            fn is_address(&self) -> bool {
                $is_address
            }

            fn is_address_of() -> bool {
                $is_address
            }

            fn is_named(&self) -> bool {
                $is_named
            }

            fn is_named_of() -> bool {
                $is_named
            }

            fn show(&self, f: &mut Formatter<'_>) -> Result {
                write!(f, $format, self)
            }
        })*
    };
}

words! {
    u8, false, false, "{:#x}": |value| value.into(), |word| word.try_into().ok();
    u16, false, false, "{:#x}": |value| value.into(), |word| word.try_into().ok();
    u32, false, false, "{:#x}": |value| value.into(), |word| word.try_into().ok();
    u64, false, false, "{:#x}": |value| value, |word| Some(word);
    bool, false, false, "{}": |value| value.into(), |word| (word < 2).then_some(word == 1);
    Linear, true, false, "{}": |value| value.0, |word| Some(Self(word));
    SystemPhysical, true, false, "{}": |value| value.0, |word| Some(Self(word));
    Device, true, false, "{}": |value| value.0, |word| Some(Self(word));
    VirtualCpu, true, false, "{}": |value| value.0.0, |word| Some(Self(SystemPhysical(word)));
    ApicId, false, false, "{}": |value| value.0.into(), |word| word.try_into().ok().map(Self);
    Vector, false, false, "{}": |value| value.0.into(), |word| word.try_into().ok().map(Self);
    RequesterId, false, false, "{}": |value| value.0.into(), |word| word.try_into().ok().map(Self);
    DeliveryMode, false, true, "{:?}": |value| value.into_bits().into(),
        |word| (word < 8).then(|| Self::from_bits(word as u8));
    DestinationMode, false, true, "{:?}": |value| value.into_bits().into(),
        |word| (word < 2).then(|| Self::from_bits(word as u8));
    Scope, false, true, "{:?}": |value| value.into_bits().into(),
        |word| (word < 4).then(|| Self::from_bits(word as u8));
    Illegal, false, true, "{:?}": |value| value.number().into(),
        |word| word.try_into().ok().and_then(Self::from_number);
    Broken, false, true, "\"{}\"": |value| value.number().into(),
        |word| word.try_into().ok().and_then(Self::from_number);
    AbortCode, false, true, "{:?}": |value| value.into_bits().into(),
        |word| word.try_into().ok().map(Self::from_bits);
    ExitCode, false, true, "{:?}": |value| value.into_bits(), |word| Some(Self::from_bits(word));
}
