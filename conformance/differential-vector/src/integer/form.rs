//! Encodings: an opcode of the maps with random prefixes, ModRM, displacement and immediate, kept
//! if it is an integer instruction that user code may run.

use super::coverage::{is_covered, is_on_host};
use super::host::RESERVED;
use super::{CODE, CODE_BYTES, FS_BASE, GS_BASE, WINDOW, WINDOW_BYTES};
use crate::operands::Random;
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};

/// A place in the opcode maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opcode {
    One(u8),
    Two(u8),
    /// 0F 38
    Three(u8),
    /// VEX, map 2 (0F 38)
    Vex2(u8),
    /// VEX, map 3 (0F 3A)
    Vex3(u8),
}

impl Opcode {
    pub fn all() -> impl Iterator<Item = Opcode> {
        let legacy = (0..=255).flat_map(|byte| [Opcode::One(byte), Opcode::Two(byte)]);
        let wide = (0xF0..=0xF7)
            .flat_map(|byte| [Opcode::Three(byte), Opcode::Vex2(byte), Opcode::Vex3(byte)]);
        legacy.chain(wide)
    }
}

/// One encoding.
#[derive(Clone, Debug)]
pub struct Form {
    pub bytes: Vec<u8>,
    pub at: u64,
    pub instruction: Instruction,
    /// LOCK where there may be none.
    pub is_undefined: bool,
    /// Where the explicit memory operand lies, if no base register decides it.
    pub fixed_target: Option<u64>,
    /// The index register's value that `fixed_target` assumes.
    pub fixed_index: u64,
}

impl Form {
    /// An encoding of `opcode`, or `None` if the random operands made something else of it.
    pub fn random(opcode: Opcode, random: &mut Random) -> Option<Form> {
        let mut bytes = Vec::new();
        let is_locked = match opcode {
            Opcode::Vex2(_) | Opcode::Vex3(_) => vex(&mut bytes, opcode, random),
            _ => legacy(&mut bytes, opcode, random),
        };
        operands(&mut bytes, random);
        let at = match random.below(8) {
            0 => CODE + 0x1000 - random.below(16),
            _ => CODE + 0x400 + random.below(0x800),
        };
        let mut form = Form::decode(bytes, at)?;
        if form.is_undefined && !is_locked {
            return None;
        }
        if form.has_stray_prefix() {
            return None;
        }
        let mnemonic = form.instruction.mnemonic();
        let code = form.instruction.code();
        if !is_covered(mnemonic) || Form::is_left_out(code) || !is_on_host(&form.instruction) {
            return None;
        }
        form.settle_memory(random)?;
        form.branches_safely().then_some(form)
    }

    fn decode(mut bytes: Vec<u8>, at: u64) -> Option<Form> {
        let decode = |bytes: &[u8]| Decoder::with_ip(64, bytes, at, DecoderOptions::AMD).decode();
        let mut instruction = decode(&bytes);
        let is_undefined = instruction.is_invalid();
        if is_undefined {
            // Nothing but a LOCK prefix may be the reason.
            let place = bytes.iter().position(|byte| *byte == 0xF0)?;
            let mut unlocked = bytes.clone();
            unlocked[place] = 0x3E;
            instruction = decode(&unlocked);
            if instruction.is_invalid() {
                return None;
            }
        }
        bytes.truncate(instruction.len());
        Some(Form { bytes, at, instruction, is_undefined, fixed_target: None, fixed_index: 0 })
    }

    /// Prefixes that the manuals do not foresee and to which processors give a meaning: REPNE makes
    /// LOOPE a LOOPNE, and REX.B with PAUSE is an exchange with R8.
    fn has_stray_prefix(&self) -> bool {
        let i = &self.instruction;
        let repeats = i.has_rep_prefix() || i.has_repne_prefix();
        match i.mnemonic() {
            Mnemonic::Loope | Mnemonic::Loopne => repeats,
            Mnemonic::Pause => self.bytes.iter().any(|byte| byte & 0xF1 == 0x41),
            _ => false,
        }
    }

    pub fn end(&self) -> u64 {
        self.at + self.bytes.len() as u64
    }

    pub fn has_memory_operand(&self) -> bool {
        (0..self.instruction.op_count())
            .any(|operand| self.instruction.op_kind(operand) == OpKind::Memory)
    }

    /// The instruction accesses its explicit memory operand.
    pub fn accesses_memory(&self) -> bool {
        use Mnemonic::*;
        self.has_memory_operand()
            && !matches!(
                self.instruction.mnemonic(),
                Lea | Nop
                    | Reservednop
                    | Prefetchnta
                    | Prefetcht0
                    | Prefetcht1
                    | Prefetcht2
                    | Prefetchw
                    | Prefetch
                    | Prefetchwt1
            )
    }

    pub fn segment_base(&self) -> u64 {
        match self.instruction.memory_segment() {
            Register::FS => FS_BASE,
            Register::GS => GS_BASE,
            _ => 0,
        }
    }

    /// Bits of an address: 64, or 32 with the address-size prefix.
    pub fn address_mask(&self) -> u64 {
        let instruction = &self.instruction;
        let has_32 = |register: Register| register != Register::None && register.size() == 4;
        let short = has_32(instruction.memory_base())
            || instruction.memory_index().size() == 4 && instruction.memory_index() != Register::AL
            || instruction.memory_base() == Register::None
                && instruction.memory_index() == Register::None
                && instruction.memory_displ_size() == 4;
        if short { 0xFFFF_FFFF } else { u64::MAX }
    }

    /// Without a base register the displacement decides where the operand is: into the window.
    fn settle_memory(&mut self, random: &mut Random) -> Option<()> {
        let base = self.instruction.memory_base();
        let is_relative = self.instruction.is_ip_rel_memory_operand();
        if !self.has_memory_operand() || base != Register::None && !is_relative {
            return Some(());
        }
        let decoder_options = DecoderOptions::AMD;
        let mut plain = self.bytes.clone();
        if self.is_undefined {
            let place = plain.iter().position(|byte| *byte == 0xF0)?;
            plain[place] = 0x3E;
        }
        let mut decoder = Decoder::with_ip(64, &plain, self.at, decoder_options);
        let instruction = decoder.decode();
        let offsets = decoder.get_constant_offsets(&instruction);
        let target = WINDOW + 0x1000 + random.below(0x2000);
        self.fixed_index = random.below(0x4000);
        let scaled = if instruction.memory_index() == Register::None {
            0
        } else {
            self.fixed_index.wrapping_mul(instruction.memory_index_scale().into())
        };
        let from = if is_relative { self.end() } else { 0 };
        let displacement =
            target.wrapping_sub(self.segment_base()).wrapping_sub(scaled).wrapping_sub(from);
        let place = offsets.displacement_offset();
        let size = offsets.displacement_size();
        if size < 4 {
            return None;
        }
        self.bytes[place..place + size].copy_from_slice(&displacement.to_le_bytes()[..size]);
        self.fixed_target = Some(target);
        let patched = Form::decode(self.bytes.clone(), self.at)?;
        self.instruction = patched.instruction;
        Some(())
    }

    fn branches_safely(&self) -> bool {
        let is_near = |operand| {
            matches!(
                self.instruction.op_kind(operand),
                OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64
            )
        };
        self.instruction.op_count() == 0
            || !is_near(0)
            || self.is_safe_target(self.instruction.near_branch_target())
    }

    /// A jump there ends in a trap or a fault, and not in other code of this process.
    pub fn is_safe_target(&self, target: u64) -> bool {
        let code = CODE..CODE + CODE_BYTES as u64;
        let own = self.at - 16..self.end() + 16;
        let is_low = target < 0x1_0000_0000 && !RESERVED.contains(&target);
        let is_canonical = (target as i64) << 16 >> 16 == target as i64;
        if code.contains(&target) {
            return target == self.end() || !own.contains(&target);
        }
        let near_code = (code.start - 16..code.end + 16).contains(&target);
        (is_low && !near_code) || !is_canonical
    }

    /// An access to `[linear, linear + size)` stays in the window or its unmapped surroundings.
    pub fn is_safe_access(linear: u64, size: u64) -> bool {
        let around = WINDOW - 0x1000..WINDOW + WINDOW_BYTES as u64 + 0x1000;
        let last = linear.wrapping_add(size.saturating_sub(1));
        // Not canonical, or the page below the end of user space, which Linux keeps free.
        let is_wild = |at: u64| (at as i64) << 16 >> 16 != at as i64 || at >> 12 == 0x7_FFFF_FFFF;
        (around.contains(&linear) && around.contains(&last)) || is_wild(linear) && is_wild(last)
    }
}

fn legacy(bytes: &mut Vec<u8>, opcode: Opcode, random: &mut Random) -> bool {
    let mut maybe = |one_in: u64, choices: &[u8]| {
        let taken = random.below(one_in) == 0;
        if taken {
            bytes.push(choices[random.below(choices.len() as u64) as usize]);
        }
        taken
    };
    maybe(4, &[0x66]);
    maybe(8, &[0x67]);
    maybe(8, &[0x64, 0x65]);
    maybe(24, &[0x2E, 0x36, 0x3E, 0x26]);
    maybe(4, &[0xF2, 0xF3]);
    let is_locked = maybe(8, &[0xF0]);
    maybe(48, &[0x66]);
    if random.below(3) != 0 {
        bytes.push(0x40 | random.below(16) as u8);
    }
    match opcode {
        Opcode::One(byte) => bytes.push(byte),
        Opcode::Two(byte) => bytes.extend([0x0F, byte]),
        Opcode::Three(byte) | Opcode::Vex2(byte) | Opcode::Vex3(byte) => {
            bytes.extend([0x0F, 0x38, byte]);
        }
    }
    is_locked
}

fn vex(bytes: &mut Vec<u8>, opcode: Opcode, random: &mut Random) -> bool {
    if random.below(8) == 0 {
        bytes.push([0x64, 0x65, 0x67][random.below(3) as usize]);
    }
    let (map, byte) = match opcode {
        Opcode::Vex3(byte) => (3, byte),
        Opcode::Vex2(byte) | Opcode::Three(byte) | Opcode::Two(byte) | Opcode::One(byte) => {
            (2, byte)
        }
    };
    let extensions = (random.below(8) as u8) << 5;
    let third = random.next_u64() as u8 & !4;
    bytes.extend([0xC4, extensions | map, third, byte]);
    false
}

/// ModRM with many register operands, then whatever SIB, displacement and immediate become.
fn operands(bytes: &mut Vec<u8>, random: &mut Random) {
    let modrm = random.next_u64() as u8;
    bytes.push(if random.below(2) == 0 { modrm | 0xC0 } else { modrm });
    let small = random.below(2) == 0;
    let mut tail = random.next_u128().to_le_bytes();
    if small {
        // Immediates and displacements near zero.
        tail[1..].fill(if random.below(2) == 0 { 0 } else { 0xFF });
        tail[1] = random.next_u64() as u8;
    }
    bytes.extend(tail);
}
