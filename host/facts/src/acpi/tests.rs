use super::*;
use proptest::prelude::*;

/// A table with its length and checksum in place.
fn table(signature: &str, header: usize, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; header];
    bytes[..4].copy_from_slice(signature.as_bytes());
    bytes.extend_from_slice(body);
    let length = bytes.len() as u32;
    bytes[4..8].copy_from_slice(&length.to_le_bytes());
    bytes[8] = 2;
    let sum = bytes.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
    bytes[9] = sum.wrapping_neg();
    bytes
}

fn ivhd_block(kind: u8, attributes: u32, efr: u64, entries: &[u8]) -> Vec<u8> {
    let length = if kind == 0x10 { 24 } else { 40 } + entries.len();
    let mut block = vec![kind, 0xB0];
    block.extend_from_slice(&(length as u16).to_le_bytes());
    block.extend_from_slice(&2u16.to_le_bytes());
    block.extend_from_slice(&0x40u16.to_le_bytes());
    block.extend_from_slice(&0xFEB8_0000u64.to_le_bytes());
    block.extend_from_slice(&0u16.to_le_bytes());
    block.extend_from_slice(&0u16.to_le_bytes());
    block.extend_from_slice(&attributes.to_le_bytes());
    if kind != 0x10 {
        block.extend_from_slice(&efr.to_le_bytes());
        block.extend_from_slice(&0x1Du64.to_le_bytes());
    }
    block.extend_from_slice(entries);
    block
}

#[test]
fn ivrs_gives_each_block_and_linux_takes_the_last_type_of_the_first_unit() {
    let special = [0x48, 0, 0, 0, 0x21, 0xA0, 0, 1];
    let hid = [0xF0, 0, 0, 0]
        .iter()
        .copied()
        .chain([0; 16])
        .chain([1, 2, 0xAA, 0xBB])
        .collect::<Vec<u8>>();
    let body = [
        ivhd_block(0x10, 1 << 6, 0, &[2, 0, 0, 0]),
        ivhd_block(0x11, 0, 0x25bf_732f_a229_5afe, &special),
        ivhd_block(0x40, 0, 0x25bf_732f_a229_5afe, &[&hid[..], &special[..]].concat()),
    ]
    .concat();
    let parsed = ivrs(&table("IVRS", 48, &body)).unwrap();
    assert!(parsed.checksum_is_right);
    assert_eq!(
        parsed.blocks.iter().map(|block| block.kind).collect::<Vec<_>>(),
        [0x10, 0x11, 0x40]
    );
    let used: Vec<_> = parsed.blocks_in_use().collect();
    assert_eq!((used.len(), used[0].kind, used[0].io_apics.as_slice()), (1, 0x40, &[0x21][..]));
    assert_eq!(parsed.blocks[0].has_guest_apic_mode(), None);
    assert!(parsed.blocks[0].has_guest_apic() && !parsed.blocks[0].has_x2apic());
    assert_eq!(used[0].has_guest_apic_mode(), Some(true));
    assert_eq!(used[0].efr2, Some(0x1D));
}

#[test]
fn dmar_gives_flags_and_the_io_apics_of_each_unit() {
    let mut body = vec![0, 0, 24, 0, 1, 0, 0, 0];
    body.extend_from_slice(&0xFED9_0000u64.to_le_bytes());
    body.extend_from_slice(&[3, 8, 0, 0, 0x02, 0xF0, 0x1F, 0]);
    body.extend_from_slice(&[1, 0, 4, 0]);
    let mut bytes = table("DMAR", 48, &body);
    bytes[36] = 38;
    bytes[37] = 0b11;
    let parsed = dmar(&bytes).unwrap();
    assert!(!parsed.checksum_is_right, "two bytes were changed after the sum");
    assert!(parsed.has_interrupt_remapping() && parsed.opts_out_of_x2apic());
    assert_eq!((parsed.host_address_width, parsed.units.len()), (39, 1));
    assert_eq!(
        (parsed.units[0].base, parsed.units[0].io_apics.as_slice()),
        (0xFED9_0000, &[2][..])
    );
}

#[test]
fn madt_counts_enabled_processors_and_io_apics() {
    let body = [
        &[0u8, 8, 0, 0, 1, 0, 0, 0][..],
        &[0, 8, 1, 2, 0, 0, 0, 0],
        &[9, 16, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0],
        &[1, 12, 0x21, 0, 0, 0, 0xC0, 0xFE, 0, 0, 0, 0],
    ]
    .concat();
    let parsed = madt(&table("APIC", 44, &body)).unwrap();
    assert_eq!((parsed.processors, parsed.highest_apic_id, parsed.io_apics), (2, 256, vec![0x21]));
}

#[test]
fn damaged_tables_name_the_place() {
    let good = table("IVRS", 48, &ivhd_block(0x11, 0, 1, &[]));
    let mut zero_length = good.clone();
    zero_length[50] = 0;
    let mut beyond = good.clone();
    beyond[50] = 0xFF;
    let mut claims_more = good.clone();
    claims_more[4] = 0xFF;
    let rows: &[(&str, &[u8], usize)] = &[
        ("no signature", b"XXXX", 0),
        ("empty", b"", 0),
        ("cut", &good[..60], 4),
        ("zero length", &zero_length, 48),
        ("beyond", &beyond, 48),
        ("claims more", &claims_more, 4),
    ];
    for (name, bytes, offset) in rows {
        assert_eq!(ivrs(bytes).unwrap_err().offset, *offset, "{name}");
    }
    assert!(dmar(&good).is_err() && madt(&good).is_err());
}

proptest! {
    #[test]
    fn any_bytes_after_a_valid_header_are_read_without_a_panic(
        body in proptest::collection::vec(any::<u8>(), 0..300),
        length in any::<Option<u16>>(),
    ) {
        for (signature, header) in [("IVRS", 48), ("DMAR", 48), ("APIC", 44)] {
            let mut bytes = table(signature, header, &body);
            if let Some(length) = length {
                bytes[4..6].copy_from_slice(&length.to_le_bytes());
            }
            let _ = (ivrs(&bytes), dmar(&bytes), madt(&bytes));
        }
    }
}
