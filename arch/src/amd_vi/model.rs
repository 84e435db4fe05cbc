//! The features of AMD's parts, as kernels' logs show them. What a machine offers of them is its
//! own decision.

use super::feature::ExtendedFeatures;

/// Servers of Zen 2 and Zen 3, and most desktop parts of the two.
pub const ZEN_2: ExtendedFeatures = ExtendedFeatures::from_bits(0x058F_77EF_2229_4ADE);
/// See [`ZEN_2`].
pub const ZEN_3: ExtendedFeatures = ZEN_2;
/// Servers of Zen 4. Bit 63, secure nested paging, is set where firmware enables that.
pub const ZEN_4: ExtendedFeatures = ExtendedFeatures::from_bits(0x25BF_732F_A229_5AFE);
/// Servers of Zen 5. No log was at hand; these are the features of Zen 4.
pub const ZEN_5: ExtendedFeatures = ZEN_4;
/// Desktop parts of Zen 4 and Zen 5: no destinations of 32 bits.
pub const DESKTOP: ExtendedFeatures = ExtendedFeatures::from_bits(0x2465_77EF_A225_4AFA);
