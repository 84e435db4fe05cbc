use super::*;
use crate::key::PackedDetail;

#[test]
fn rows_carry_the_names_of_the_peer() {
    let none = ExtraNames::new();
    let extra = ExtraNames::from([(0xf000_0000, "apic_read".to_owned())]);
    let exit = |reason| Key::exit(reason, PackedDetail::UNKNOWN);
    let rows = [
        (exit(0x7c), Some(Isa::Svm), &none, "msr"),
        (exit(1), Some(Isa::Vmx), &none, "EXTERNAL_INTERRUPT"),
        (exit(0x20000), Some(Isa::Svm), &none, "UNKNOWN 0x20000"),
        (exit(0xf000_0000), None, &extra, "apic_read"),
        (Key::access(View::Msr, 0x830, true), None, &none, "0x830:W"),
        (Key::access(View::Ioport, 0x3f8, true), None, &none, "0x3f8:POUT"),
        (Key::access(View::Mmio, 0xfee0_0300, false), None, &none, "0xfee00300:R"),
    ];
    for (key, isa, extra, name) in rows {
        assert_eq!(row_name(key, isa, extra), name);
    }
}

#[test]
fn details_name_the_register_and_the_command() {
    let rows = [
        (PackedDetail::icr(0x8fb, true), "APIC ICR write: fixed to logical"),
        (PackedDetail::icr(0xc4400, false), "APIC ICR write: NMI to all excluding self"),
        (PackedDetail::register(0xb0, true), "APIC EOI write"),
        (PackedDetail::msr(0x6e0, true), "MSR 0x6e0 TSC deadline write"),
        (PackedDetail::hypercall(5, false), "hypercall 0x5 KICK_CPU"),
        (PackedDetail::hypercall(0xb, true), "Hyper-V call 0xb send IPI"),
        (PackedDetail::hypercall(0x99, false), "hypercall 0x99"),
        (PackedDetail::vector(0xec), "vector 236 local timer"),
        (PackedDetail::UNKNOWN, ""),
    ];
    for (detail, name) in rows {
        assert_eq!(detail_name(detail.unpack()), name);
    }
    assert_eq!(msr_register(0x80b), Some("EOI"));
    assert_eq!(msr_register(0x7ff), None);
}
