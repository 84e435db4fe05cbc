//! Memory by lanes: loads and stores under a mask, and gathers, an element at a time.

use super::operand::{Halves, halves};
use crate::execute::binding::{Binding, Handler};
use crate::memory::Access;
use crate::operation::Op;
use crate::operation::decode::{Cost, is_memory};
use crate::width::Width;
use crate::{Bus, Cpu, Stop};
use iced_x86::{Instruction, Mnemonic};

/// Lanes of `W` in the instruction's length.
fn count<W: Width>(op: &Op) -> usize {
    (if op.has(Op::WIDE) { 32 } else { 16 }) / W::BYTES
}

/// A lane of a vector.
fn lane<W: Width>(value: &Halves, at: usize) -> W {
    let per_half = 16 / W::BYTES;
    W::truncate((value[at / per_half] >> (W::BITS as usize * (at % per_half))) as u64)
}

fn set_lane<W: Width>(value: &mut Halves, at: usize, to: W) {
    let per_half = 16 / W::BYTES;
    let shift = W::BITS as usize * (at % per_half);
    let half = &mut value[at / per_half];
    *half = *half & !(u128::from(W::MASK) << shift) | u128::from(to.zero_extend()) << shift;
}

fn is_chosen<W: Width>(mask: &Halves, at: usize) -> bool {
    lane::<W>(mask, at).zero_extend() & W::SIGN != 0
}

impl Cpu {
    /// The linear address of the element `at` of the memory operand.
    fn element<W: Width>(&self, op: &Op, at: usize, access: Access) -> Result<u64, Stop> {
        let offset = self.registers.effective_address(op).wrapping_add((at * W::BYTES) as u64);
        self.operand_at(op, offset & op.address_mask(), W::BYTES, access)
    }
}

/// VMASKMOVPS, VPMASKMOVD and their kin from memory. Lanes that are not chosen are zeros, and are
/// not accessed.
fn load<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    let mask = cpu.registers.ymm(op.b);
    let mut value = [0; 2];
    for at in (0..count::<W>(op)).filter(|at| is_chosen::<W>(&mask, *at)) {
        let linear = cpu.element::<W>(op, at, Access::Read)?;
        let mut bytes = [0; 8];
        cpu.read_area(bus, linear, &mut bytes[..W::BYTES], op.segment)?;
        set_lane(&mut value, at, W::from_bytes(&bytes));
    }
    cpu.registers.set_ymm(op.a, value);
    Ok(())
}

/// To memory: all lanes that are chosen are checked before the first is written.
fn store<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    let (mask, value) = (cpu.registers.ymm(op.b), cpu.registers.ymm(op.c));
    let chosen = |at: &usize| is_chosen::<W>(&mask, *at);
    for at in (0..count::<W>(op)).filter(chosen) {
        let linear = cpu.element::<W>(op, at, Access::Write)?;
        cpu.probe_area(bus, linear, W::BYTES, Access::Write, op.segment)?;
    }
    for at in (0..count::<W>(op)).filter(chosen) {
        let linear = cpu.element::<W>(op, at, Access::Write)?;
        let mut bytes = [0; 8];
        lane::<W>(&value, at).to_bytes(&mut bytes);
        cpu.write_area(bus, linear, &bytes[..W::BYTES], op.segment)?;
    }
    cpu.pending.after_store()
}

/// VGATHER and VPGATHER: elements of `W` at indices of `I`, which are signed. What was loaded
/// before a fault stays, with its part of the mask cleared. #UD if two of the three registers are
/// one.
fn gather<W: Width, I: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op) -> Result<(), Stop> {
    cpu.check_avx(op)?;
    if op.a == op.c || op.a == op.index || op.c == op.index {
        return Err(Stop::INVALID_OPCODE);
    }
    let indices = cpu.registers.ymm(op.index);
    let (mut value, mut mask) = (cpu.registers.ymm(op.a), cpu.registers.ymm(op.c));
    let elements = count::<W>(op).min(count::<I>(op));
    // The mask is a sign for each element from here on.
    for at in 0..count::<W>(op) {
        let is_live = at < elements && is_chosen::<W>(&mask, at);
        set_lane(&mut mask, at, W::truncate(if is_live { u64::MAX } else { 0 }));
    }
    for at in 0..elements {
        if !is_chosen::<W>(&mask, at) {
            continue;
        }
        match gathered::<W>(cpu, bus, op, lane::<I>(&indices, at).sign_extend()) {
            Ok(element) => {
                set_lane(&mut value, at, element);
                set_lane(&mut mask, at, W::truncate(0));
            }
            Err(stop) => {
                cpu.registers.set_ymm(op.a, halves(op, |half| value[half]));
                cpu.registers.set_ymm(op.c, halves(op, |half| mask[half]));
                return Err(stop);
            }
        }
    }
    for at in elements..count::<W>(op) {
        set_lane(&mut value, at, W::truncate(0));
    }
    cpu.registers.set_ymm(op.a, halves(op, |half| value[half]));
    cpu.registers.set_ymm(op.c, [0; 2]);
    Ok(())
}

fn gathered<W: Width>(cpu: &mut Cpu, bus: &mut Bus<'_>, op: &Op, index: u64) -> Result<W, Stop> {
    let base = cpu.registers.gpr[usize::from(op.base)];
    let offset = base
        .wrapping_add(index.wrapping_shl(op.scale.into()))
        .wrapping_add(op.displacement as i64 as u64);
    let linear = cpu.operand_at(op, offset & op.address_mask(), W::BYTES, Access::Read)?;
    let mut bytes = [0; 8];
    cpu.read_area(bus, linear, &mut bytes[..W::BYTES], op.segment)?;
    Ok(W::from_bytes(&bytes))
}

pub(super) fn bind(i: &Instruction) -> Option<Binding> {
    let is_store = is_memory(i, 0);
    let handler: Handler = match i.mnemonic() {
        Mnemonic::Vmaskmovps | Mnemonic::Vpmaskmovd if is_store => store::<u32>,
        Mnemonic::Vmaskmovpd | Mnemonic::Vpmaskmovq if is_store => store::<u64>,
        Mnemonic::Vmaskmovps | Mnemonic::Vpmaskmovd => load::<u32>,
        Mnemonic::Vmaskmovpd | Mnemonic::Vpmaskmovq => load::<u64>,
        Mnemonic::Vgatherdps | Mnemonic::Vpgatherdd => gather::<u32, u32>,
        Mnemonic::Vgatherdpd | Mnemonic::Vpgatherdq => gather::<u64, u32>,
        Mnemonic::Vgatherqps | Mnemonic::Vpgatherqd => gather::<u32, u64>,
        Mnemonic::Vgatherqpd | Mnemonic::Vpgatherqq => gather::<u64, u64>,
        _ => return None,
    };
    Binding::costing(handler, if is_store { Cost::Store } else { Cost::Load })
}
