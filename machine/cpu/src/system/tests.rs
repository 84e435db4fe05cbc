//! What software can learn of each model: all leaves of CPUID, and for all numbers of MSRs what
//! they read and what a write leaves. A model whose dump is known must not change by accident.

mod governor;
mod msr;

use super::cpuid::cpuid;
use super::msr::{read_msr, write_msr};
use crate::{Bus, Cpu, CpuModel};
use arch::address::SystemPhysical;
use arch::identity::{ApicId, CpuIndex};
use bus::{Effect, GuestMemory, Happening, Platform, Visit};
use interrupt::LocalApic;
use interrupt::local_apic::LocalApicModel;
use std::fmt::Write;

/// A row for each model: its name, and hashes of its leaves and of its MSRs.
const KNOWN: &str = include_str!("dump.tsv");

const LEAVES: [std::ops::RangeInclusive<u32>; 3] =
    [0..=0x24, 0x4000_0000..=0x4000_0001, 0x8000_0000..=0x8000_0028];
const MSRS: [std::ops::RangeInclusive<u32>; 3] =
    [0..=0x1FFF, 0xC000_0000..=0xC000_27FF, 0xC001_0000..=0xC001_1FFF];
/// Values that rules of writing tell apart: none, all, memory types, not canonical, and others.
const WRITTEN: [u64; 8] =
    [0, 1, u64::MAX, 0x0606_0606_0606_0606, 1 << 47, 0xFFFF_FFFF, 0x0000_1234_5678_9ABC, 0x0D01];

/// There are no devices.
pub(crate) struct Nothing;

impl Platform for Nothing {
    fn read(&mut self, _: &mut GuestMemory, _: Visit, _: SystemPhysical, _: u8) -> u64 {
        0
    }
    fn write(&mut self, _: &mut GuestMemory, _: Visit, _: SystemPhysical, _: u8, _: u64) {}
    fn port_in(&mut self, _: &mut GuestMemory, _: Visit, _: u16, _: u8) -> u32 {
        0
    }
    fn port_out(&mut self, _: &mut GuestMemory, _: Visit, _: u16, _: u8, _: u32) {}
    fn acknowledge_legacy(&mut self, _: Visit) -> u8 {
        0
    }
    fn effect(&mut self, _: Visit, _: Effect) {}
    fn record(&mut self, _: Visit, _: Happening) {}
}

pub(crate) fn cpu(name: &str) -> Cpu {
    let model = CpuModel::named(name).expect("a model that comes with the machine");
    let apic = LocalApic::new(LocalApicModel::amd(ApicId(0), true));
    Cpu::new(CpuIndex(0), model, apic, 1)
}

fn leaves(cpu: &Cpu) -> String {
    let mut text = String::new();
    for leaf in LEAVES.into_iter().flatten() {
        for subleaf in [0, 1, 2, 3, 4, 9, 0xFF] {
            let _ = writeln!(text, "{leaf:08x} {subleaf:x} {:x?}", cpuid(cpu, leaf, subleaf));
        }
    }
    text
}

fn msrs(fresh: &Cpu) -> String {
    let mut memory = GuestMemory::new(0x1000);
    let mut bus = Bus { memory: &mut memory, platform: &mut Nothing };
    let (mut cpu, mut text) = (fresh.clone(), String::new());
    for number in MSRS.into_iter().flatten() {
        let Ok(value) = read_msr(&mut cpu, &mut bus, number) else {
            for value in WRITTEN {
                if write_msr(&mut cpu, &mut bus, number, value).is_ok() {
                    let _ = writeln!(text, "{number:08x} takes {value:x}");
                    cpu = fresh.clone();
                }
            }
            continue;
        };
        let _ = writeln!(text, "{number:08x} reads {value:x}");
        for value in WRITTEN {
            if write_msr(&mut cpu, &mut bus, number, value).is_ok() {
                let kept = read_msr(&mut cpu, &mut bus, number).ok();
                let _ = writeln!(text, "{number:08x} {value:x} leaves {kept:x?}");
                cpu = fresh.clone();
            }
        }
    }
    text
}

/// FNV-1a.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
    })
}

#[test]
fn what_software_learns_of_a_model_is_what_it_was() {
    let (rows, mut found): (Vec<&str>, Vec<String>) =
        (KNOWN.lines().filter(|row| !row.starts_with('#')).collect(), Vec::new());
    for row in &rows {
        let name = row.split('\t').next().unwrap_or_default();
        let cpu = cpu(name);
        let (leaves, msrs) = (leaves(&cpu), msrs(&cpu));
        if let Ok(folder) = std::env::var("AVICENNA_DUMP") {
            let written = std::fs::write(format!("{folder}/{name}"), format!("{leaves}{msrs}"));
            written.expect("the folder takes files");
        }
        found.push(format!("{name}\t{:016x}\t{:016x}", hash(&leaves), hash(&msrs)));
    }
    assert_eq!(rows, found, "AVICENNA_DUMP=FOLDER writes what differs");
}
