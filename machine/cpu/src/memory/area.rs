//! Operands of more than eight bytes: XMM and YMM registers, 80-bit reals and state areas.

use super::Access;
use crate::state::Control;
use crate::{Bus, Cpu, Op, Stop};

/// Bytes moved at a time.
const PIECE: usize = 8;

impl Cpu {
    /// A 16-byte operand at any alignment.
    #[inline(always)]
    pub(crate) fn read_128(&mut self, bus: &mut Bus<'_>, op: &Op) -> Result<u128, Stop> {
        let linear = self.operand(op, 16, Access::Read)?;
        let mut bytes = [0; 16];
        self.read_area(bus, linear, &mut bytes, op.segment)?;
        Ok(u128::from_le_bytes(bytes))
    }

    /// Writes a 16-byte operand at any alignment. On a fault nothing is written.
    #[inline(always)]
    pub(crate) fn write_128(
        &mut self,
        bus: &mut Bus<'_>,
        op: &Op,
        value: u128,
    ) -> Result<(), Stop> {
        let linear = self.operand(op, 16, Access::Write)?;
        self.write_area(bus, linear, &value.to_le_bytes(), op.segment)
    }

    /// A 32-byte operand at any alignment, its low half first.
    #[inline(always)]
    pub(crate) fn read_256(&mut self, bus: &mut Bus<'_>, op: &Op) -> Result<[u128; 2], Stop> {
        let linear = self.operand(op, 32, Access::Read)?;
        let mut bytes = [[0; 16]; 2];
        self.read_area(bus, linear, bytes.as_flattened_mut(), op.segment)?;
        Ok(bytes.map(u128::from_le_bytes))
    }

    /// Writes a 32-byte operand at any alignment. On a fault nothing is written.
    #[inline(always)]
    pub(crate) fn write_256(
        &mut self,
        bus: &mut Bus<'_>,
        op: &Op,
        value: [u128; 2],
    ) -> Result<(), Stop> {
        let linear = self.operand(op, 32, Access::Write)?;
        let bytes = value.map(u128::to_le_bytes);
        self.write_area(bus, linear, bytes.as_flattened(), op.segment)
    }

    /// Reads `bytes.len()` bytes, at most a page.
    #[inline(always)]
    pub(crate) fn read_area(
        &mut self,
        bus: &mut Bus<'_>,
        linear: u64,
        bytes: &mut [u8],
        segment: u8,
    ) -> Result<(), Stop> {
        let entry = self.translation.entry(linear);
        let in_page = linear & 0xFFF;
        if entry.read == self.translation.tlb.tag(linear)
            && in_page as usize + bytes.len() <= 0x1000
        {
            let at = (entry.offset + in_page) as usize;
            if let Some(ram) = bus.memory.ram.get(at..at + bytes.len()) {
                bytes.copy_from_slice(ram);
                return Ok(());
            }
        }
        read_pieces(self, bus, linear, bytes, segment)
    }

    /// Writes `bytes.len()` bytes, at most a page. On a fault nothing is written.
    #[inline(always)]
    pub(crate) fn write_area(
        &mut self,
        bus: &mut Bus<'_>,
        linear: u64,
        bytes: &[u8],
        segment: u8,
    ) -> Result<(), Stop> {
        let entry = self.translation.entry(linear);
        let in_page = linear & 0xFFF;
        if entry.write == self.translation.tlb.tag(linear)
            && in_page as usize + bytes.len() <= 0x1000
        {
            let at = (entry.offset + in_page) as usize;
            if let Some(ram) = bus.memory.ram_mut(at, bytes.len()) {
                ram.copy_from_slice(bytes);
                self.pending.note_ram_write(bus, at, bytes.len());
                return Ok(());
            }
        }
        write_pieces(self, bus, linear, bytes, segment)
    }

    /// Translates the first and the last piece of an area: between them lies no other page.
    pub(crate) fn probe_area(
        &mut self,
        bus: &mut Bus<'_>,
        linear: u64,
        length: usize,
        access: Access,
        segment: u8,
    ) -> Result<(), Stop> {
        let first = length.min(PIECE);
        self.locate_linear(bus, linear, first, access, segment)?;
        let last = (length - 1) / PIECE * PIECE;
        let at = self.control.area_address(linear, last);
        self.locate_linear(bus, at, length - last, access, segment)?;
        Ok(())
    }
}

#[cold]
#[inline(never)]
fn read_pieces(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    linear: u64,
    bytes: &mut [u8],
    segment: u8,
) -> Result<(), Stop> {
    for (index, piece) in bytes.chunks_mut(PIECE).enumerate() {
        let at = cpu.control.area_address(linear, index * PIECE);
        let place = cpu.locate_linear(bus, at, piece.len(), Access::Read, segment)?;
        let value = cpu.read_place(bus, place).to_le_bytes();
        piece.copy_from_slice(&value[..piece.len()]);
    }
    Ok(())
}

/// All pages are translated before the first write.
#[cold]
#[inline(never)]
fn write_pieces(
    cpu: &mut Cpu,
    bus: &mut Bus<'_>,
    linear: u64,
    bytes: &[u8],
    segment: u8,
) -> Result<(), Stop> {
    cpu.probe_area(bus, linear, bytes.len(), Access::Write, segment)?;
    for (index, piece) in bytes.chunks(PIECE).enumerate() {
        let at = cpu.control.area_address(linear, index * PIECE);
        let place = cpu.locate_linear(bus, at, piece.len(), Access::Write, segment)?;
        let mut value = [0; PIECE];
        value[..piece.len()].copy_from_slice(piece);
        cpu.write_place(bus, place, u64::from_le_bytes(value));
    }
    Ok(())
}

impl Control {
    fn area_address(&self, linear: u64, offset: usize) -> u64 {
        let address = linear.wrapping_add(offset as u64);
        if self.is_long_mode() { address } else { address & 0xFFFF_FFFF }
    }
}
