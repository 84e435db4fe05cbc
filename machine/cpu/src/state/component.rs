//! The state components that XSAVE manages, and where they lie in an area.
//! [SDM1 "XSAVE-Supported Features and State-Component Bitmaps", "XSAVE Area"]

use arch::uintr;

/// The bits of XCR0, IA32_XSS and the vectors of an area's header.
pub(crate) const X87: u64 = 1 << 0;
/// XMM registers and MXCSR.
pub(crate) const SSE: u64 = 1 << 1;
/// The high halves of the YMM registers.
pub(crate) const AVX: u64 = 1 << 2;
/// PKRU.
pub(crate) const PKRU: u64 = 1 << 9;
/// The registers of user interrupts, a supervisor's component.
pub(crate) const UINTR: u64 = 1 << uintr::component::NUMBER;

/// Bytes of the legacy region and the header, behind which the extended components lie.
pub(crate) const EXTENDED_REGION: usize = 576;

/// Those that lie there: the bit, the bytes, and the place in the standard format, which a
/// supervisor's has not.
const EXTENDED: [(u64, usize, Option<usize>); 3] = [
    (AVX, 256, Some(EXTENDED_REGION)),
    (PKRU, 8, Some(EXTENDED_REGION + 256)),
    (UINTR, uintr::component::SIZE, None),
];

/// Bytes of a component behind the header, and its place in the standard format.
pub(crate) fn standard(component: u64) -> Option<(usize, Option<usize>)> {
    let row = EXTENDED.iter().find(|(bit, ..)| *bit == component)?;
    Some((row.1, row.2))
}

/// Where a component lies: in the standard format, or compacted behind those of `layout` that have
/// lower numbers.
pub(crate) fn offset(component: u64, compacted: Option<u64>) -> usize {
    let Some(layout) = compacted else {
        return standard(component).and_then(|(_, place)| place).unwrap_or(EXTENDED_REGION);
    };
    let before = EXTENDED.iter().filter(|(bit, ..)| *bit < component && layout & bit != 0);
    EXTENDED_REGION + before.map(|(_, size, _)| size).sum::<usize>()
}

/// Bytes of an area that holds `components`.
pub(crate) fn area_size(components: u64, is_compacted: bool) -> usize {
    let compacted = is_compacted.then_some(components);
    let held = EXTENDED.iter().filter(|(bit, ..)| components & bit != 0);
    let ends = held.map(|(bit, size, _)| offset(*bit, compacted) + size);
    ends.max().unwrap_or(EXTENDED_REGION)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_lie_where_the_manual_puts_them() {
        let rows = [
            (X87 | SSE, false, 576),
            (X87 | SSE | AVX, false, 832),
            (X87 | SSE | PKRU, false, 840),
            (X87 | SSE | AVX | PKRU, true, 840),
            (X87 | SSE | PKRU, true, 584),
            (X87 | AVX | PKRU | UINTR, true, 888),
            (X87 | UINTR, true, 624),
        ];
        for (components, is_compacted, size) in rows {
            assert_eq!(area_size(components, is_compacted), size, "{components:#x}");
        }
        assert_eq!(offset(PKRU, Some(AVX | PKRU)), 832);
        assert_eq!(offset(UINTR, Some(PKRU | UINTR)), 584);
    }
}
