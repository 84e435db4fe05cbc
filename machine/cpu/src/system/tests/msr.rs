//! What is left of a value that software writes to a register.

use super::{Nothing, cpu, read_msr, write_msr};
use crate::{Bus, Stop};
use arch::msr;
use bus::GuestMemory;

#[test]
fn sysenter_s_targets_have_32_bits_on_amd_s_parts_and_64_on_intel_s() {
    const WRITTEN: u64 = 0x1234_5678_9000;
    let mut memory = GuestMemory::new(0x1000);
    for (model, left) in [("zen4", WRITTEN as u32 as u64), ("sapphire-rapids", WRITTEN)] {
        let mut bus = Bus { memory: &mut memory, platform: &mut Nothing };
        let mut cpu = cpu(model);
        for number in [msr::SYSENTER_ESP, msr::SYSENTER_EIP] {
            write_msr(&mut cpu, &mut bus, number, WRITTEN).expect("a canonical address");
            let result = write_msr(&mut cpu, &mut bus, number, 1 << 47);
            assert_eq!(result, Err(Stop::GENERAL_PROTECTION), "{model}");
            assert_eq!(read_msr(&mut cpu, &mut bus, number), Ok(left), "{model}");
        }
    }
}

#[test]
fn what_protects_smm_is_there_on_amd_s_parts_and_off() {
    let mut memory = GuestMemory::new(0x1000);
    let mut bus = Bus { memory: &mut memory, platform: &mut Nothing };
    let mut cpu = cpu("zen4");
    for (number, value) in [(msr::SMM_BASE, 0x3_0000), (msr::SMM_ADDRESS, 0), (msr::SMM_MASK, 0)] {
        assert_eq!(read_msr(&mut cpu, &mut bus, number), Ok(value), "{number:#x}");
    }
    let mut intel = super::cpu("sapphire-rapids");
    let missing = read_msr(&mut intel, &mut bus, msr::SMM_MASK);
    assert_eq!(missing, Err(Stop::GENERAL_PROTECTION));
}
