//! The I/O and MSR permission maps. [APM2 "IOIO Intercepts"] [APM2 "MSR Intercepts"]

use arch::address::SystemPhysical;
use arch::svm::msr::permission_bit;
use bus::GuestMemory;

/// Whether the map at `map` intercepts an access of `size` bytes at `port`: any of its bytes' bits.
pub fn intercepts_port(memory: &GuestMemory, map: SystemPhysical, port: u16, size: u8) -> bool {
    (0..u32::from(size)).any(|byte| bit(memory, map, u32::from(port) + byte))
}

/// Whether the map at `map` intercepts RDMSR or WRMSR of `msr`. Beyond the map all are.
pub fn intercepts_msr(memory: &GuestMemory, map: SystemPhysical, msr: u32, is_write: bool) -> bool {
    permission_bit(msr).is_none_or(|read| bit(memory, map, read + u32::from(is_write)))
}

/// What is not memory reads as ones and so intercepts.
fn bit(memory: &GuestMemory, map: SystemPhysical, number: u32) -> bool {
    let at = map.offset(u64::from(number / 8));
    memory.slice(at, 1).map_or(true, |byte| byte[0] >> (number % 8) & 1 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: SystemPhysical = SystemPhysical(0x4000);

    fn memory_with(byte: u64, bits: u8) -> GuestMemory {
        let mut memory = GuestMemory::new(1 << 20);
        memory.write(MAP.offset(byte), &[bits]).expect("RAM");
        memory
    }

    #[test]
    fn an_access_exits_if_any_of_its_ports_is_marked() {
        let memory = memory_with(0x3FA / 8, 1 << (0x3FA % 8));
        let rows = [(0x3FA, 1, true), (0x3F9, 1, false), (0x3F9, 2, true), (0x3F7, 4, true)];
        for (port, size, expected) in rows {
            assert_eq!(intercepts_port(&memory, MAP, port, size), expected, "{port:#x}");
        }
        let third_page = memory_with(0x2000, 1);
        assert!(intercepts_port(&third_page, MAP, 0xFFFF, 2), "wraps into the third page");
        assert!(!intercepts_port(&third_page, MAP, 0xFFFF, 1));
    }

    #[test]
    fn even_bits_are_reads_and_odd_ones_writes() {
        let memory = memory_with(0x200 + 2, 0b10);
        assert!(intercepts_msr(&memory, MAP, 0x808, true));
        assert!(!intercepts_msr(&memory, MAP, 0x808, false));
        assert!(!intercepts_msr(&memory, MAP, 0x809, true));
        assert!(intercepts_msr(&memory, MAP, 0x4000_0000, false), "beyond the map");
    }

    #[test]
    fn a_map_outside_memory_intercepts_everything() {
        let memory = GuestMemory::new(1 << 20);
        assert!(intercepts_port(&memory, SystemPhysical(1 << 40), 0x80, 1));
    }
}
