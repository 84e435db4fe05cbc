//! A host in long mode that executes VMLAUNCH and halts where exits lead, and a flat 32-bit guest
//! with extended page tables.

use arch::address::SystemPhysical;
use arch::control::{Cr0, Cr4, Efer, rflags};
use arch::identity::{ApicId, CpuIndex};
use arch::segment::{Attributes, Segment};
use arch::time::Picoseconds;
use arch::vmx::control::{
    EntryControls, ExitControls, PinControls, PrimaryControls, SecondaryControls,
};
use arch::vmx::exit::ExitReasonField;
use arch::vmx::field::{Field, control, exit, guest, host};
use arch::vmx::{ExitReason, InstructionError};
use bus::{Effect, GuestMemory, Happening, Platform, Visit};
use cpu::decode::{Cost, Dialect};
use cpu::operation::InstructionCosts;
use cpu::vmx::{VMCS_SIZE, Vmcs};
use cpu::{Activity, Bus, CodeCache, Cpu, CpuModel, RunEnd};
use iced_x86::code_asm::CodeAssembler;
use interrupt::LocalApic;
use interrupt::local_apic::LocalApicModel;

pub const HOST_TABLES: u64 = 0x1000;
pub const EXTENDED_TABLES: u64 = 0x5000;
pub const HOST_CODE: u64 = 0x1_0000;
/// Where exits lead: HLT.
pub const HOST_EXIT: u64 = 0x1_1000;
pub const VMXON: u64 = 0x1_F000;
pub const VMCS: u64 = 0x2_0000;
pub const IO_BITMAPS: u64 = 0x2_2000;
pub const MSR_BITMAPS: u64 = 0x2_6000;
pub const MSR_AREA: u64 = 0x2_7000;
pub const LOG: u64 = 0x2_8000;
pub const HOST_STACK: u64 = 0x3_0000;
pub const HOST_DATA: u64 = 0x3_1000;
/// Where guest-physical address 0 lies.
pub const GUEST: u64 = 0x40_0000;
/// Guest-physical addresses.
pub const GUEST_CODE: u64 = 0x8000;
pub const GUEST_HANDLER: u64 = 0x9000;
pub const GUEST_IDT: u64 = 0xA000;
pub const GUEST_GDT: u64 = 0xB000;
pub const GUEST_STACK: u64 = 0x7000;
pub const GUEST_DATA: u64 = 0xC000;

pub const ALL: u64 = 7;
const WRITE_BACK: u64 = 6 << 3;
const LARGE: u64 = 0x80;

/// Takes ports and records what the processor causes.
#[derive(Default)]
pub struct Recorder {
    pub ports: Vec<(u16, u32)>,
    pub happenings: Vec<Happening>,
}

impl Platform for Recorder {
    fn read(&mut self, _: &mut GuestMemory, _: Visit, _: SystemPhysical, size: u8) -> u64 {
        u64::MAX >> (64 - 8 * u32::from(size))
    }
    fn write(&mut self, _: &mut GuestMemory, _: Visit, _: SystemPhysical, _: u8, _: u64) {}
    fn port_in(&mut self, _: &mut GuestMemory, _: Visit, _: u16, _: u8) -> u32 {
        0x5A
    }
    fn port_out(&mut self, _: &mut GuestMemory, _: Visit, port: u16, _: u8, value: u32) {
        self.ports.push((port, value));
    }
    fn acknowledge_legacy(&mut self, _: Visit) -> u8 {
        0xFF
    }
    fn effect(&mut self, _: Visit, _: Effect) {}
    fn record(&mut self, _: Visit, happening: Happening) {
        self.happenings.push(happening);
    }
}

pub struct Lab {
    pub cpu: Cpu,
    pub memory: GuestMemory,
    pub platform: Recorder,
    cache: CodeCache,
}

fn flat(selector: u16, attributes: u16) -> Segment {
    Segment { selector, attributes: Attributes(attributes), limit: 0xFFFF_FFFF, base: 0 }
}

impl Lab {
    /// A host in VMX operation about to execute VMLAUNCH of a guest whose code `code` assembles.
    pub fn new(code: impl FnOnce(&mut CodeAssembler)) -> Self {
        let mut lab = Self::on("skylake-sp");
        lab.guest_code(code);
        lab
    }

    /// As `new`, on any model; the guest's code is the caller's to write.
    pub fn on(model: &str) -> Self {
        let mut lab = Self::host_on(model);
        lab.cpu.guest.vmx.vmxon = Some(SystemPhysical(VMXON));
        lab.cpu.guest.vmx.vmcs = Some(SystemPhysical(VMCS));
        lab.host_code(|a| {
            a.vmlaunch().unwrap();
            a.hlt().unwrap();
        });
        lab.make_host_state();
        lab.make_controls();
        lab.make_guest();
        lab
    }

    /// A host that could enter VMX operation.
    pub fn host() -> Self {
        Self::host_on("skylake-sp")
    }

    fn host_on(model: &str) -> Self {
        let model = CpuModel::named(model).expect("model");
        let apic = LocalApic::new(LocalApicModel::intel(ApicId(0), true));
        let mut lab = Self {
            cpu: Cpu::new(CpuIndex(0), model, apic, 1),
            memory: GuestMemory::new(16 << 20),
            platform: Recorder::default(),
            cache: CodeCache::new(InstructionCosts([1000; Cost::COUNT]), Dialect::Intel),
        };
        lab.cache.translate_as_wanted();
        for region in [VMXON, VMCS] {
            let revision = lab.revision();
            lab.memory.write(SystemPhysical(region), &revision.to_le_bytes()).expect("RAM");
        }
        lab.make_host();
        lab
    }

    pub fn revision(&self) -> u32 {
        let capabilities = self.cpu.guest.vmx.capabilities.expect("VMX");
        capabilities.basic.revision()
    }

    fn make_host(&mut self) {
        self.write(HOST_TABLES, HOST_TABLES + 0x1000 | 3);
        self.write(HOST_TABLES + 0x1000, HOST_TABLES + 0x2000 | 3);
        for page in 0..512 {
            self.write(HOST_TABLES + 0x2000 + 8 * page, page << 21 | 3 | LARGE);
        }
        self.assemble(64, HOST_EXIT, HOST_EXIT, |a| a.hlt().unwrap());
        let cpu = &mut self.cpu;
        cpu.control.set_cr0(
            Cr0::PROTECTION_ENABLE
                | Cr0::PAGING
                | Cr0::WRITE_PROTECT
                | Cr0::NUMERIC_ERROR
                | Cr0::EXTENSION_TYPE,
        );
        cpu.control.set_cr4(Cr4::PAE | Cr4::VMXE);
        cpu.control.cr3 = HOST_TABLES;
        cpu.control.set_efer(Efer::LONG_MODE_ENABLE | Efer::LONG_MODE_ACTIVE | Efer::NO_EXECUTE);
        let data = flat(0x10, 0xC93);
        cpu.registers.set_segments([data, flat(0x08, 0xA9B), data, data, data, data]);
        cpu.registers.gpr[4] = HOST_STACK;
        cpu.registers.ip = HOST_CODE;
        cpu.translation.tlb.flush_all();
        cpu.update_access_mode();
    }

    fn make_host_state(&mut self) {
        let control = self.cpu.control.clone();
        self.set(host::CR0, control.cr0().bits());
        self.set(host::CR3, control.cr3);
        self.set(host::CR4, control.cr4().bits());
        self.set(host::EFER, control.efer().bits());
        self.set(host::CS_SELECTOR, 0x08);
        self.set(host::TR_SELECTOR, 0x18);
        for field in [host::SS_SELECTOR, host::DS_SELECTOR, host::ES_SELECTOR] {
            self.set(field, 0x10);
        }
        self.set(host::RSP, HOST_STACK);
        self.set(host::RIP, HOST_EXIT);
    }

    fn make_controls(&mut self) {
        let can = self.cpu.guest.vmx.capabilities.expect("VMX");
        self.set(control::PIN, u64::from(can.pin.required));
        let primary = PrimaryControls::HLT_EXITING | PrimaryControls::SECONDARY_CONTROLS;
        self.set(control::PRIMARY, u64::from(can.primary.required | primary.bits()));
        let secondary = SecondaryControls::EPT | SecondaryControls::UNRESTRICTED_GUEST;
        self.set(control::SECONDARY, secondary.bits().into());
        let exits = ExitControls::HOST_ADDRESS_SPACE_SIZE
            | ExitControls::ACKNOWLEDGE_INTERRUPT
            | ExitControls::LOAD_EFER
            | ExitControls::SAVE_EFER;
        self.set(control::EXIT, u64::from(can.exit.required | exits.bits()));
        let entry = EntryControls::LOAD_EFER;
        self.set(control::ENTRY, u64::from(can.entry.required | entry.bits()));
        self.set(control::EPT_POINTER, EXTENDED_TABLES | 3 << 3 | 6);
        self.set(control::IO_BITMAP_A, IO_BITMAPS);
        self.set(control::IO_BITMAP_B, IO_BITMAPS + 0x1000);
        self.set(control::MSR_BITMAPS, MSR_BITMAPS);
    }

    /// A flat 32-bit guest without paging, whose interrupts all lead to `GUEST_HANDLER`; its
    /// physical addresses below 2 MiB lie at `GUEST`, in pages of 4 KiB.
    fn make_guest(&mut self) {
        let table = |n: u64| EXTENDED_TABLES + 0x1000 * n;
        self.write(table(0), table(1) | ALL);
        self.write(table(1), table(2) | ALL);
        self.write(table(2), table(3) | ALL);
        for page in 0..512 {
            self.write(table(3) + 8 * page, GUEST + (page << 12) | ALL | WRITE_BACK);
        }
        for vector in 0..256 {
            let gate = GUEST_HANDLER & 0xFFFF | 0x08 << 16 | 0x8E00 << 32;
            self.write(GUEST + GUEST_IDT + 8 * vector, gate);
        }
        self.write(GUEST + GUEST_GDT + 8, 0x00CF_9B00_0000_FFFF);
        self.write(GUEST + GUEST_GDT + 16, 0x00CF_9300_0000_FFFF);
        self.guest_handler(|a| a.hlt().unwrap());
        self.set(guest::CR0, (Cr0::PROTECTION_ENABLE | Cr0::NUMERIC_ERROR).bits());
        self.set(guest::CR4, Cr4::VMXE.bits());
        for segment in &arch::vmx::field::SEGMENTS {
            self.set(segment.selector, 0x10);
            self.set(segment.limit, 0xFFFF_FFFF);
            self.set(segment.access_rights, 0xC093);
        }
        self.set(guest::CS_SELECTOR, 0x08);
        self.set(guest::CS_ACCESS_RIGHTS, 0xC09B);
        self.set(guest::TR_ACCESS_RIGHTS, 0x8B);
        self.set(guest::TR_LIMIT, 0x67);
        self.set(guest::LDTR_ACCESS_RIGHTS, 1 << 16);
        self.set(guest::GDTR_BASE, GUEST_GDT);
        self.set(guest::GDTR_LIMIT, 0x17);
        self.set(guest::IDTR_BASE, GUEST_IDT);
        self.set(guest::IDTR_LIMIT, 0x7FF);
        self.set(guest::RIP, GUEST_CODE);
        self.set(guest::RSP, GUEST_STACK);
        self.set(guest::RFLAGS, rflags::FIXED);
        self.set(guest::VMCS_LINK_POINTER, u64::MAX);
    }

    pub fn host_code(&mut self, code: impl FnOnce(&mut CodeAssembler)) {
        self.assemble(64, HOST_CODE, HOST_CODE, code);
    }

    pub fn guest_code(&mut self, code: impl FnOnce(&mut CodeAssembler)) {
        self.assemble(32, GUEST + GUEST_CODE, GUEST_CODE, code);
    }

    /// The guest's handler of every interrupt and exception.
    pub fn guest_handler(&mut self, code: impl FnOnce(&mut CodeAssembler)) {
        self.assemble(32, GUEST + GUEST_HANDLER, GUEST_HANDLER, code);
    }

    fn assemble(&mut self, bits: u32, at: u64, origin: u64, code: impl FnOnce(&mut CodeAssembler)) {
        let mut assembler = CodeAssembler::new(bits).expect("code size");
        code(&mut assembler);
        let bytes = assembler.assemble(origin).expect("code");
        self.memory.write(SystemPhysical(at), &bytes).expect("RAM");
    }

    /// Paging of the guest's own, with 4 MiB pages: identity for the first one, nothing above.
    pub fn use_guest_paging(&mut self) {
        let directory = 0x10_0000;
        self.write(GUEST + directory, 7 | LARGE);
        self.set(guest::CR3, directory);
        self.set(guest::CR4, (Cr4::PSE | Cr4::VMXE).bits());
        let cr0 = Cr0::PROTECTION_ENABLE | Cr0::PAGING | Cr0::NUMERIC_ERROR;
        self.set(guest::CR0, cr0.bits());
    }

    /// The entry that maps a guest-physical page.
    pub fn extended_entry(page: u64) -> u64 {
        EXTENDED_TABLES + 0x3000 + 8 * page
    }

    pub fn write(&mut self, at: u64, value: u64) {
        self.memory.write(SystemPhysical(at), &value.to_le_bytes()).expect("RAM");
    }

    pub fn read(&self, at: u64) -> u64 {
        self.memory.read_u64(SystemPhysical(at)).expect("RAM")
    }

    pub fn set(&mut self, field: Field, value: u64) {
        let at = VMCS as usize;
        Vmcs::new(&mut self.memory.ram[at..at + VMCS_SIZE]).expect("4 KiB").set(field, value);
    }

    pub fn get(&self, field: Field) -> u64 {
        let at = VMCS as usize;
        Vmcs::new(&self.memory.ram[at..at + VMCS_SIZE]).expect("4 KiB").get(field)
    }

    pub fn set_bits(&mut self, field: Field, bits: impl Into<u64>) {
        let value = self.get(field) | bits.into();
        self.set(field, value);
    }

    pub fn clear_bits(&mut self, field: Field, bits: impl Into<u64>) {
        let value = self.get(field) & !bits.into();
        self.set(field, value);
    }

    pub fn pin(&mut self, bits: PinControls) {
        self.set_bits(control::PIN, bits.bits());
    }

    pub fn primary(&mut self, bits: PrimaryControls) {
        self.set_bits(control::PRIMARY, bits.bits());
    }

    pub fn secondary(&mut self, bits: SecondaryControls) {
        self.set_bits(control::SECONDARY, bits.bits());
    }

    /// Runs until the host halts.
    pub fn run_host(&mut self) {
        let end = self.run_until_stop();
        assert_eq!(end, RunEnd::Idle, "the host halts");
        assert!(!self.cpu.is_guest(), "out of the guest");
    }

    /// Runs until the host halts after an exit; the reason.
    pub fn run(&mut self) -> ExitReason {
        self.run_host();
        assert_eq!(self.cpu.registers.ip, HOST_EXIT + 1, "after an exit: {:?}", self.failure());
        self.reason().basic()
    }

    /// The VM-instruction error if VMLAUNCH has failed.
    pub fn failure(&self) -> Option<InstructionError> {
        let flags = self.cpu.registers.flags.bits();
        let error = self.get(exit::INSTRUCTION_ERROR) as u32;
        (flags & rflags::ZF != 0).then(|| InstructionError::from_bits(error))
    }

    pub fn reason(&self) -> ExitReasonField {
        ExitReasonField::from_bits(self.get(exit::REASON) as u32)
    }

    pub fn qualification(&self) -> u64 {
        self.get(exit::QUALIFICATION)
    }

    /// VMRESUME, after an exit.
    pub fn resume(&mut self) -> ExitReason {
        self.host_code(|a| {
            a.vmresume().unwrap();
            a.hlt().unwrap();
        });
        self.cpu.registers.ip = HOST_CODE;
        self.cpu.pending.set_activity(Activity::Running);
        self.memory.note_write(HOST_CODE as usize, 16);
        self.run()
    }

    /// VMRESUME behind the instruction that has exited.
    pub fn skip_and_resume(&mut self) -> ExitReason {
        let next = self.get(guest::RIP) + self.get(exit::INSTRUCTION_LENGTH);
        self.set(guest::RIP, next);
        self.resume()
    }

    /// At most so many instructions, or 1 ms.
    pub fn run_for(&mut self, instructions: u64) -> RunEnd {
        let mut bus = Bus { memory: &mut self.memory, platform: &mut self.platform };
        let until = Picoseconds(self.cpu.clock.now().0 + 1_000_000_000);
        self.cpu.run(&mut self.cache, &mut bus, until, instructions)
    }

    pub fn run_until_stop(&mut self) -> RunEnd {
        let mut bus = Bus { memory: &mut self.memory, platform: &mut self.platform };
        for _ in 0..100 {
            let until = Picoseconds(self.cpu.clock.now().0 + 1_000_000_000);
            match self.cpu.run(&mut self.cache, &mut bus, until, 10_000) {
                RunEnd::Yield => {}
                end => return end,
            }
        }
        panic!("yields for ever");
    }
}
