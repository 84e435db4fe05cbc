use super::*;
use reading::{Vendor, cpu::Register};

const RAW: &str = "\
CPU 0:
   0x00000000 0x00: eax=0x00000010 ebx=0x68747541 ecx=0x444d4163 edx=0x69746e65
   0x00000001 0x00: eax=0x00a10f11 ebx=0x00200800 ecx=0x7ef8320b edx=0x178bfbff
   0x80000000 0x00: eax=0x80000028 ebx=0x68747541 ecx=0x444d4163 edx=0x69746e65
   0x8000000a 0x00: eax=0x00000001 ebx=0x00008000 ecx=0x00000000 edx=0x1ebfbdff
CPU 1:
   0x00000000 0x00: eax=0x00000010 ebx=0x68747541 ecx=0x444d4163 edx=0x69746e65
";

const DASHED: &str = "\
------[ Versions ]------
Program Version : AIDA64 v5.20
------[ Logical CPU #0 ]------
CPUID 00000000: 00000016-756E6547-6C65746E-49656E69 [GenuineIntel]
CPUID 00000001: 000506E3-00100800-7FFAFBFF-BFEBFBFF
CPUID 0000000D: 0000001F-00000340-00000440-00000000 [SL 00]
CPUID 0000000D: 0000000F-00000340-00000100-00000000 [SL 01]
------[ Logical CPU #1 ]------
CPUID 00000000: 00000016-756E6547-6C65746E-49656E69 [GenuineIntel]
------[ All CPUs ]------
CPU   0: APICID   0 / Package 0 / Core  0 / Thread 0: Valid
------[ MSR Registers ]------
MSR 00000481: 0000-007F-0000-0016
MSR 0000048B: 001F-FCFF-0000-0000 [S200]
MSR 00000492: < FAILED >
";

#[test]
fn raw_listing_gives_each_processor_its_leaves() {
    let processors = parse(RAW);
    assert_eq!(processors.len(), 2);
    assert_eq!(processors[1].number, Some(1));
    let cpuid = &processors[0].cpuid;
    assert_eq!(cpuid.vendor(), Some(Vendor::Amd));
    let signature = cpuid.signature().unwrap();
    assert_eq!((signature.family, signature.model, signature.stepping), (0x19, 0x11, 1));
    assert_eq!(cpuid.bit(0x8000_000A, Register::Edx, 13), Some(true));
    assert_eq!(cpuid.bit(0x8000_000A, Register::Edx, 18), Some(true));
}

#[test]
fn leaf_above_the_maximum_is_zero_and_one_below_it_is_unknown_unless_listed() {
    let cpuid = &parse(RAW)[0].cpuid;
    assert_eq!(cpuid.register(0x8000_0029, Register::Eax), Some(0));
    assert_eq!(cpuid.register(0x8000_001F, Register::Eax), None);
    assert_eq!(cpuid.register(0x4000_0000, Register::Eax), None);
}

#[test]
fn dashed_listing_shares_registers_and_knows_failed_reads() {
    let processors = parse(DASHED);
    assert_eq!(processors.len(), 2);
    for processor in &processors {
        assert_eq!(processor.cpuid.vendor(), Some(Vendor::Intel));
        assert_eq!(processor.msrs.get(&0x48B), Some(&Some(0x001F_FCFF_0000_0000)));
        assert_eq!(processor.msrs.get(&0x492), Some(&None));
        assert_eq!(processor.msrs.get(&0x480), None);
    }
    assert_eq!(processors[0].cpuid.leaf(0xD), Some([0x1F, 0x340, 0x440, 0]));
}

#[test]
fn registers_with_a_processor_stay_with_it() {
    let text = "------[ CPUID Registers / Logical CPU #0 ]------\n\
                CPUID 00000000: 00000002-756E6547-6C65746E-49656E69\n\
                ------[ CPUID Registers / Logical CPU #4 ]------\n\
                CPUID 00000000: 00000002-756E6547-6C65746E-49656E69\n\
                ------[ MSR Registers / Logical CPU #0 ]------\nMSR 00000481: 0000-00FF-0000-0016\n\
                ------[ MSR Registers / Logical CPU #4 ]------\nMSR 00000481: 0000-007F-0000-0016\n";
    let values: Vec<_> = parse(text).iter().map(|one| (one.number, one.msrs[&0x481])).collect();
    assert_eq!(values, [(Some(0), Some(0xFF_0000_0016)), (Some(4), Some(0x7F_0000_0016))]);
}

#[test]
fn xml_listing_gives_leaves_and_registers() {
    let text = "<cpudata arch='x86'>\
        <cpuid eax_in='0x8000000a' ecx_in='0x00' eax='0x1' ebx='0x8000' ecx='0x0' edx='0x0001bcff'/>\
        <cpuid eax_in='nonsense' eax='0x1' ebx='0x1' ecx='0x1' edx='0x1'/>\
        <msr index='0x48b' edx='0x00007fff' eax='0x00000000'/></cpudata>";
    let processors = parse(text);
    assert_eq!(processors[0].cpuid.leaf(0x8000_000A), Some([1, 0x8000, 0, 0x1BCFF]));
    assert_eq!(processors[0].msrs[&0x48B], Some(0x7FFF_0000_0000));
}

#[test]
fn printed_listing_reads_back_the_same() {
    let cpuid = &parse(RAW)[0].cpuid;
    let again = parse(&print(7, cpuid));
    assert_eq!((again[0].number, &again[0].cpuid), (Some(7), cpuid));
}

#[test]
fn what_is_no_listing_gives_no_processor() {
    for text in ["", "hello", "<domain/>", "<broken", "CPU 0:", "0x: eax=", "CPUID : -", "MSR 1: 2"]
    {
        assert_eq!(parse(text), [], "{text}");
    }
}
