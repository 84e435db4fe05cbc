//! The local APIC, the I/O APIC and the 8259 pair.

use super::is_amd;
use super::sheet::{Sheet, parts};
use arch::apic::{
    ApicBase, ApicVersion, Dfr, Esr, ExtendedControl, ExtendedFeature, Icr, Ldr, LocalVector, Lvt,
    Register, Svr, TimerMode, X2Ldr,
};
use arch::identity::Vector;
use cpu::Cpu;
use interrupt::io_apic::IoApic;
use interrupt::legacy::PicPair;

/// Bytes from one register of an APIC page to the next.
const STRIDE: usize = 16;
/// Bytes of an APIC page that have registers.
const REGISTERS: u16 = 0x540;

const APM: &str = "APM2 \"APIC Registers\"";
const SDM: &str = "SDM3 \"Local APIC Register Address Map\"";

/// A processor's own.
pub(super) fn local_apic(cpu: &Cpu) -> Sheet {
    let section = if is_amd(cpu) { APM } else { SDM };
    let title = format!("local APIC, {:?}, {}", cpu.apic.mode(), deliverable(cpu));
    let mut sheet = Sheet::new(&title, section).of(cpu.index);
    let base = ApicBase::from_bits(cpu.apic.base());
    sheet.add("MSR 1B", "APIC_BASE", cpu.apic.base(), 64, parts(&base));
    let now = cpu.clock.now();
    add_page(&mut sheet, cpu.apic.is_x2apic(), |register| cpu.apic.peek(register, now));
    sheet
}

fn deliverable(cpu: &Cpu) -> String {
    match cpu.apic.pending() {
        Some(Vector(vector)) => format!("vector {vector:#x} is deliverable"),
        None => "nothing is deliverable".into(),
    }
}

/// A guest's page, as hardware virtualizes it.
pub(super) fn add_virtual_page(sheet: &mut Sheet, page: &[u8], is_x2apic: bool) {
    add_page(sheet, is_x2apic, |register| {
        // SELF IPI is not on the page.
        let offset = usize::from(register.offset());
        let bytes = page.get(offset..offset + 4).filter(|_| register != Register::SelfIpi)?;
        Some(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    });
}

/// Registers that read as something else than zero, with the three banks of vectors as sets.
fn add_page(sheet: &mut Sheet, is_x2apic: bool, read: impl Fn(Register) -> Option<u32>) {
    for offset in (0..REGISTERS).step_by(STRIDE) {
        let Some(register) = Register::at(offset) else { continue };
        if bank(register).is_some_and(|index| index > 0) || register == Register::SelfIpi {
            continue;
        }
        let place = format!("{offset:03X}h");
        if bank(register).is_some() {
            let read = |index: u16| Register::at(offset + index * 16).and_then(&read);
            let words: Vec<u32> = (0..8).map_while(read).collect();
            if let ([first, ..], 8) = (words.as_slice(), words.len()) {
                let section = sheet.section;
                sheet.add(place, register.name(), *first, 32, vectors(&words));
                let row = sheet.rows.pop();
                sheet.rows.extend(row.map(|row| super::Row { value: None, section, ..row }));
            }
            continue;
        }
        if let Some(value) = read(register) {
            sheet.add(place, register.name(), value, 32, meaning(register, value, is_x2apic));
        }
    }
}

/// Which of the eight dwords of a bank, if it is of one.
fn bank(register: Register) -> Option<u8> {
    match register {
        Register::InService(index)
        | Register::TriggerMode(index)
        | Register::Request(index)
        | Register::InterruptEnable(index) => Some(index),
        _ => None,
    }
}

/// The vectors whose bits are set, ranges as such.
pub(super) fn vectors(words: &[u32]) -> String {
    let is_set = |vector: usize| words[vector / 32] >> (vector % 32) & 1 != 0;
    let last = words.len() * 32;
    let mut shown = Vec::new();
    let mut vector = 0;
    while vector < last {
        let end = (vector..last).find(|vector| !is_set(*vector)).unwrap_or(last);
        match end - vector {
            0 => vector += 1,
            1 => shown.push(format!("{vector:#04x}")),
            _ => shown.push(format!("{vector:#04x}-{:#04x}", end - 1)),
        }
        vector = vector.max(end);
    }
    if shown.is_empty() { "none".into() } else { shown.join(" ") }
}

fn meaning(register: Register, value: u32, is_x2apic: bool) -> String {
    match register {
        Register::Id if !is_x2apic => format!("ID {:#x}", value >> 24),
        Register::Version => parts(&ApicVersion::from_bits(value)),
        Register::LogicalDestination if is_x2apic => parts(&X2Ldr::from_bits(value)),
        Register::LogicalDestination => parts(&Ldr::from_bits(value)),
        Register::DestinationFormat => parts(&Dfr::from_bits(value)),
        Register::SpuriousVector => parts(&Svr::from_bits(value)),
        Register::ErrorStatus => parts(&Esr::from_bits_retain(value)),
        Register::Command => parts(&Icr::from_bits(value.into())),
        Register::LocalVector(LocalVector::Timer) => parts(&Lvt::from_bits(value)),
        Register::LocalVector(_) | Register::ExtendedLocalVector(_) => {
            // The timer alone has a mode.
            let entry = Lvt::from_bits(value).with_timer_mode(TimerMode::OneShot);
            parts(&entry).trim_end_matches(", timer_mode OneShot").to_owned()
        }
        Register::ExtendedFeature => parts(&ExtendedFeature::from_bits(value)),
        Register::ExtendedControl => parts(&ExtendedControl::from_bits(value)),
        _ => String::new(),
    }
}

/// Every pin with its level.
pub(super) fn io_apic(io_apic: &IoApic) -> Sheet {
    let section = "IOAPIC \"I/O Redirection Table Registers\"";
    let mut sheet = Sheet::new("I/O APIC", section);
    for pin in 0..io_apic.pin_count() {
        let Some(entry) = io_apic.entry(pin) else { continue };
        let mut meaning = parts(&entry);
        if io_apic.is_asserted(pin) == Some(true) {
            meaning += "; the line is asserted";
        }
        let place = format!("{:02X}h", 0x10 + 2 * u16::from(pin));
        sheet.add(place, format!("IOREDTBL{pin}"), entry.into_bits(), 64, meaning);
    }
    sheet
}

/// Master and slave.
pub(super) fn legacy(pair: &PicPair) -> Vec<Sheet> {
    let section = "8259A \"Functional Description\"";
    let titles = ["master 8259A, lines 0-7", "slave 8259A, lines 8-15"];
    let sheets = titles.into_iter().zip(pair.registers()).map(|(title, registers)| {
        let mut sheet = Sheet::new(title, section);
        for (name, value, meaning) in [
            ("IRR", registers.requests, "requested"),
            ("ISR", registers.in_service, "in service"),
            ("IMR", registers.masked, "masked"),
            ("lines", registers.lines, "asserted"),
            ("ELCR", registers.level_triggered, "level-triggered"),
            ("ICW2", registers.vector_base, "vector of the first input"),
        ] {
            sheet.add("", name, value, 8, meaning.into());
        }
        sheet
    });
    sheets.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_listed_with_ranges() {
        let mut words = [0; 8];
        assert_eq!(vectors(&words), "none");
        words[1] = 1;
        words[7] = 0xE000_0000;
        assert_eq!(vectors(&words), "0x20 0xfd-0xff");
        assert_eq!(vectors(&[u32::MAX; 8]), "0x00-0xff");
    }
}
