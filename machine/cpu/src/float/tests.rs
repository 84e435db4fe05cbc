//! Rules that need no x86 host; conformance/differential-vector checks the rest on silicon.

use super::extended::arithmetic;
use super::extended::transcendental::{Function, arc_tangent, logarithm, trigonometric};
use super::extended::{Extended, store};
use super::{Context, Exceptions, convert, reciprocal, scalar};

const DEFAULT_MXCSR: u32 = 0x1F80;
const DEFAULT_CONTROL_WORD: u16 = 0x37F;

fn raised<T>(mxcsr: u32, operation: impl FnOnce(&mut Context) -> T) -> (T, Exceptions) {
    let mut context = Context::from_mxcsr(mxcsr);
    let value = operation(&mut context);
    (value, context.raised)
}

#[test]
fn soft_and_host_arithmetic_agree_when_rounding_to_nearest() {
    let mut bits = 0x0123_4567_89AB_CDEFu64;
    for _ in 0..20_000 {
        bits = bits.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        let (a, b) = (bits.rotate_left(17), bits.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let (x, y) = (f64::from_bits(a), f64::from_bits(b));
        if x.is_nan() || y.is_nan() {
            continue;
        }
        let mut c = Context::from_mxcsr(DEFAULT_MXCSR);
        let results = [
            (scalar::add(a, b, &mut c), x + y),
            (scalar::subtract(a, b, &mut c), x - y),
            (scalar::multiply(a, b, &mut c), x * y),
            (scalar::divide(a, b, &mut c), x / y),
            (scalar::square_root(a & i64::MAX as u64, &mut c), x.abs().sqrt()),
        ];
        for (ours, host) in results {
            assert!(ours == host.to_bits() || host.is_nan(), "{a:#x} {b:#x}: {ours:#x} {host}");
        }
        let narrow: u32 = convert::between(a, &mut c);
        assert_eq!(narrow, (x as f32).to_bits(), "{a:#x}");
    }
}

#[test]
fn flags_follow_the_operation() {
    const ONE: u32 = 0x3F80_0000;
    const THREE: u32 = 0x4040_0000;
    const SMALLEST: u32 = 1;
    const LARGEST: u32 = 0x7F7F_FFFF;
    const SIGNALING: u32 = 0x7F80_0001;
    let divide = |a, b| raised(DEFAULT_MXCSR, |c| scalar::divide(a, b, c));
    let multiply = |a, b| raised(DEFAULT_MXCSR, |c| scalar::multiply(a, b, c));
    assert_eq!(divide(ONE, THREE), (0x3EAA_AAAB, Exceptions::PRECISION));
    assert_eq!(divide(ONE, 0), (0x7F80_0000, Exceptions::ZERO_DIVIDE));
    assert_eq!(divide(0, 0), (0xFFC0_0000, Exceptions::INVALID));
    assert_eq!(divide(SIGNALING, ONE), (0x7FC0_0001, Exceptions::INVALID));
    let overflow = Exceptions::OVERFLOW | Exceptions::PRECISION;
    assert_eq!(multiply(LARGEST, LARGEST), (0x7F80_0000, overflow));
    let underflow = Exceptions::DENORMAL | Exceptions::UNDERFLOW | Exceptions::PRECISION;
    assert_eq!(multiply(SMALLEST, SMALLEST), (0, underflow));
    assert_eq!(multiply(SMALLEST, ONE), (SMALLEST, Exceptions::DENORMAL));
}

#[test]
fn denormals_are_zero_where_asked_and_tiny_results_flush() {
    const DAZ: u32 = 1 << 6;
    const FTZ: u32 = 1 << 15;
    let half = 0x3F00_0000u32;
    let smallest_normal = 0x0080_0000u32;
    let (sum, flags) = raised(DEFAULT_MXCSR | DAZ, |c| scalar::add(1u32, 1, c));
    assert_eq!((sum, flags), (0, Exceptions::empty()));
    let (product, flags) =
        raised(DEFAULT_MXCSR | FTZ, |c| scalar::multiply(smallest_normal, half, c));
    assert_eq!((product, flags), (0, Exceptions::UNDERFLOW | Exceptions::PRECISION));
}

#[test]
fn reciprocal_approximations_keep_their_bound() {
    for step in 0..40_000u32 {
        let bits = 0x3F00_0000 + step * 0x331;
        let value = f64::from(f32::from_bits(bits));
        let error = |approximation: u32, exact: f64| {
            (f64::from(f32::from_bits(approximation)) / exact - 1.0).abs()
        };
        assert!(error(reciprocal::reciprocal(bits), 1.0 / value) <= 1.5 / 4096.0);
        let root = reciprocal::reciprocal_square_root(bits);
        assert!(error(root, 1.0 / value.sqrt()) <= 1.5 / 4096.0);
    }
}

#[test]
fn precision_control_shortens_the_significand() {
    let third = |control| {
        let mut context = Context::from_control_word(control);
        let three =
            arithmetic::add(Extended::ONE.unpack(), store::operand(0x4000_0000u32), &mut context);
        arithmetic::divide(Extended::ONE.unpack(), three.unpack(), &mut context).significand
    };
    assert_eq!(third(DEFAULT_CONTROL_WORD), 0xAAAA_AAAA_AAAA_AAAB);
    assert_eq!(third(DEFAULT_CONTROL_WORD & !0x300 | 0x200), 0xAAAA_AAAA_AAAA_A800);
    assert_eq!(third(DEFAULT_CONTROL_WORD & !0x300), 0xAAAA_AB00_0000_0000);
}

#[test]
fn unnormal_operands_are_invalid() {
    let unnormal = Extended { significand: 1, sign_exponent: 0x3FFF };
    let mut context = Context::from_control_word(DEFAULT_CONTROL_WORD);
    let sum = arithmetic::add(unnormal.unpack(), Extended::ONE.unpack(), &mut context);
    assert_eq!((sum, context.raised), (Extended::INDEFINITE, Exceptions::INVALID));
}

/// References: rational partial sums of the power series, rounded to 64 bits.
#[test]
fn transcendental_functions_round_known_values_correctly() {
    let mut context = Context::from_control_word(DEFAULT_CONTROL_WORD);
    let one = Extended::ONE.unpack();
    let c = &mut context;
    let value = |x: Option<Extended>| x.map(|x| (x.sign_exponent, x.significand));
    let sine = trigonometric(Function::Sine, one, c);
    assert_eq!(value(sine), Some((0x3FFE, 0xD76A_A478_4867_7021)));
    let cosine = trigonometric(Function::Cosine, one, c);
    assert_eq!(value(cosine), Some((0x3FFE, 0x8A51_407D_A834_5C92)));
    let tangent = trigonometric(Function::Tangent, one, c);
    assert_eq!(value(tangent), Some((0x3FFF, 0xC759_22E5_F71D_2DC5)));
    assert_eq!(value(Some(arc_tangent(one, one, c))), Some((0x3FFE, 0xC90F_DAA2_2168_C235)));
    let ten = store::operand(0x4120_0000u32);
    assert_eq!(value(Some(logarithm(one, ten, c))), Some((0x4000, 0xD49A_784B_CD1B_8AFE)));
    let far = Extended { sign_exponent: 0x3FFF + 63, significand: 1 << 63 };
    assert_eq!(trigonometric(Function::Sine, far.unpack(), c), None);
}

#[test]
fn decimals_survive_a_round_trip() {
    let digits = [0x89, 0x67, 0x45, 0x23, 0x01, 0x98, 0x76, 0x54, 0x32, 0x80];
    let mut context = Context::from_control_word(DEFAULT_CONTROL_WORD);
    assert_eq!(store::store_decimal(store::load_decimal(digits), &mut context), digits);
    assert_eq!(context.raised, Exceptions::empty());
}
