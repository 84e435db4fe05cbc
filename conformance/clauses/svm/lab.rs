//! A host in long mode that executes VMRUN and halts, and a flat 32-bit guest in nested paging.

use arch::address::SystemPhysical;
use arch::control::{Cr0, Cr4, Efer};
use arch::identity::{ApicId, CpuIndex};
use arch::segment::{Attributes, Segment};
use arch::svm::exit::ExitCode;
use arch::svm::intercept::{Intercepts, Vector3, Vector4};
use arch::svm::segment::{Segment as Saved, SegmentAttributes};
use arch::svm::vmcb::{Field, InterruptControl, NestedControl, SIZE, Value, Vmcb, control, save};
use arch::time::Picoseconds;
use bus::{Effect, GuestMemory, Happening, Platform, Visit};
use cpu::decode::{Cost, Dialect};
use cpu::operation::InstructionCosts;
use cpu::{Activity, Bus, CodeCache, Cpu, CpuModel, RunEnd};
use iced_x86::code_asm::CodeAssembler;
use interrupt::LocalApic;
use interrupt::local_apic::LocalApicModel;

pub const HOST_TABLES: u64 = 0x1000;
pub const NESTED_TABLES: u64 = 0x5000;
pub const HOST_CODE: u64 = 0x1_0000;
pub const VMCB: u64 = 0x2_0000;
pub const IO_MAP: u64 = 0x2_2000;
pub const MSR_MAP: u64 = 0x2_6000;
pub const BACKING_PAGE: u64 = 0x3_0000;
pub const LOGICAL_TABLE: u64 = 0x3_1000;
pub const PHYSICAL_TABLE: u64 = 0x3_2000;
/// Where guest physical address 0 lies.
pub const GUEST: u64 = 0x40_0000;
/// Guest physical addresses.
pub const GUEST_CODE: u64 = 0x8000;
pub const GUEST_HANDLER: u64 = 0x9000;
pub const GUEST_IDT: u64 = 0xA000;
pub const GUEST_GDT: u64 = 0xB000;
pub const GUEST_STACK: u64 = 0x7000;
pub const GUEST_DATA: u64 = 0xC000;
/// Where the guest sees its APIC.
pub const APIC: u64 = 0xFEE0_0000;

const PRESENT_WRITABLE_USER: u64 = 7;
const LARGE: u64 = 0x80;

/// Records what the processor causes.
#[derive(Default)]
pub struct Recorder {
    pub effects: Vec<Effect>,
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
    fn effect(&mut self, _: Visit, effect: Effect) {
        self.effects.push(effect);
    }
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

fn saved(selector: u16, attributes: u16) -> Saved {
    let attributes = SegmentAttributes::from_bits(attributes);
    Saved { selector, attributes, limit: 0xFFFF_FFFF, base: 0 }
}

impl Lab {
    /// A host about to execute VMRUN of a guest whose code `guest` assembles.
    pub fn new(guest: impl FnOnce(&mut CodeAssembler)) -> Self {
        Self::with_model("zen4", guest)
    }

    pub fn with_model(model: &str, guest: impl FnOnce(&mut CodeAssembler)) -> Self {
        let model = CpuModel::named(model).expect("model");
        let apic = LocalApic::new(LocalApicModel::amd(ApicId(0), true));
        let mut lab = Self {
            cpu: Cpu::new(CpuIndex(0), model, apic, 1),
            memory: GuestMemory::new(16 << 20),
            platform: Recorder::default(),
            cache: CodeCache::new(InstructionCosts([1000; Cost::COUNT]), Dialect::Amd),
        };
        lab.cache.translate_as_wanted();
        lab.make_host();
        lab.make_guest();
        lab.guest_code(32, guest);
        lab
    }

    /// Replaces the guest's code, of `bits`.
    pub fn guest_code(&mut self, bits: u32, code: impl FnOnce(&mut CodeAssembler)) {
        self.assemble(bits, GUEST + GUEST_CODE, GUEST_CODE, code);
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

    fn make_host(&mut self) {
        self.write(HOST_TABLES, HOST_TABLES + 0x1000 | 3);
        self.write(HOST_TABLES + 0x1000, HOST_TABLES + 0x2000 | 3);
        for page in 0..512 {
            self.write(HOST_TABLES + 0x2000 + 8 * page, page << 21 | 3 | LARGE);
        }
        self.assemble(64, HOST_CODE, HOST_CODE, |a| {
            let mut again = a.create_label();
            a.set_label(&mut again).unwrap();
            a.vmrun().unwrap();
            a.hlt().unwrap();
            a.jmp(again).unwrap();
        });
        let cpu = &mut self.cpu;
        cpu.control.set_cr0(Cr0::PROTECTION_ENABLE | Cr0::PAGING | Cr0::WRITE_PROTECT);
        cpu.control.set_cr4(Cr4::PAE);
        cpu.control.cr3 = HOST_TABLES;
        cpu.control.set_efer(
            Efer::LONG_MODE_ENABLE | Efer::LONG_MODE_ACTIVE | Efer::SVM | Efer::NO_EXECUTE,
        );
        let data = flat(0x10, 0xC93);
        cpu.registers.set_segments([data, flat(0x08, 0xA9B), data, data, data, data]);
        cpu.registers.gpr[0] = VMCB;
        cpu.registers.ip = HOST_CODE;
        cpu.translation.tlb.flush_all();
        cpu.update_access_mode();
    }

    /// Nested tables that map guest physical addresses to `GUEST` and up, in pages of 4 KiB below
    /// 2 MiB, and the APIC's page to one of RAM.
    fn make_guest(&mut self) {
        let table = |n: u64| NESTED_TABLES + 0x1000 * n;
        self.write(table(0), table(1) | PRESENT_WRITABLE_USER);
        self.write(table(1), table(2) | PRESENT_WRITABLE_USER);
        self.write(table(2), table(3) | PRESENT_WRITABLE_USER);
        for page in 0..512 {
            self.write(table(3) + 8 * page, GUEST + (page << 12) | PRESENT_WRITABLE_USER);
        }
        self.write(table(1) + 8 * (APIC >> 30), table(4) | PRESENT_WRITABLE_USER);
        self.write(table(4) + 8 * (APIC >> 21 & 511), table(5) | PRESENT_WRITABLE_USER);
        self.write(table(5), 0x3_4000 | PRESENT_WRITABLE_USER);

        let gates = GUEST + GUEST_IDT;
        for vector in 0..256 {
            let gate = GUEST_HANDLER & 0xFFFF | 0x08 << 16 | 0x8E00 << 32;
            self.write(gates + 8 * vector, gate);
        }
        self.write(GUEST + GUEST_GDT + 8, 0x00CF_9B00_0000_FFFF);
        self.write(GUEST + GUEST_GDT + 16, 0x00CF_9300_0000_FFFF);
        self.guest_handler(|a| a.hlt().unwrap());

        let vector3 = Vector3::HLT | Vector3::INTR | Vector3::NMI | Vector3::SHUTDOWN;
        let vector4 = Vector4::VMRUN;
        self.set(control::INTERCEPTS, Intercepts { vector3, vector4, ..Default::default() });
        self.set(control::IOPM_BASE_PA, IO_MAP);
        self.set(control::MSRPM_BASE_PA, MSR_MAP);
        self.set(control::GUEST_ASID, 1);
        self.set(control::INTERRUPT_CONTROL, InterruptControl::new().with_masks_interrupts(true));
        self.set(control::NESTED_CONTROL, NestedControl::new().with_nested_paging(true));
        self.set(control::N_CR3, NESTED_TABLES);
        self.set(save::EFER, Efer::SVM.bits());
        self.set(save::CR0, Cr0::PROTECTION_ENABLE.bits());
        self.set(save::CS, saved(0x08, 0xC9B));
        for field in [save::SS, save::DS, save::ES] {
            self.set(field, saved(0x10, 0xC93));
        }
        let table = |base, limit| Saved { base, limit, ..Saved::default() };
        self.set(save::GDTR, table(GUEST_GDT, 0x17));
        self.set(save::IDTR, table(GUEST_IDT, 0x7FF));
        self.set(save::RIP, GUEST_CODE);
        self.set(save::RSP, GUEST_STACK);
        self.set(save::RFLAGS, 2);
        self.set(save::DR6, 0xFFFF_0FF0);
        self.set(save::DR7, 0x400);
        self.set(save::G_PAT, 0x0007_0406_0007_0406);
    }

    /// Paging of the guest's own, with 4 MiB pages: identity for the first one, nothing above.
    pub fn use_guest_paging(&mut self) {
        let directory = 0x10_0000;
        self.write(GUEST + directory, 7 | LARGE);
        self.set(save::CR3, directory);
        self.set(save::CR4, Cr4::PSE.bits());
        self.set(save::CR0, (Cr0::PROTECTION_ENABLE | Cr0::PAGING).bits());
    }

    /// A 64-bit guest, identity-mapped.
    pub fn make_guest_long(&mut self) {
        let root = 0x10_0000;
        self.write(GUEST + root, root + 0x1000 | 7);
        self.write(GUEST + root + 0x1000, root + 0x2000 | 7);
        self.write(GUEST + root + 0x2000, 7 | LARGE);
        self.set(save::CR3, root);
        self.set(save::CR4, Cr4::PAE.bits());
        self.set(save::CR0, (Cr0::PROTECTION_ENABLE | Cr0::PAGING).bits());
        let efer = Efer::SVM | Efer::LONG_MODE_ENABLE | Efer::LONG_MODE_ACTIVE;
        self.set(save::EFER, efer.bits());
        self.set(save::CS, saved(0x08, 0xA9B));
    }

    pub fn write(&mut self, at: u64, value: u64) {
        self.memory.write(SystemPhysical(at), &value.to_le_bytes()).expect("RAM");
    }

    pub fn read(&self, at: u64) -> u64 {
        self.memory.read_u64(SystemPhysical(at)).expect("RAM")
    }

    pub fn set<T: Value>(&mut self, field: Field<T>, value: T) {
        let at = VMCB as usize;
        let bytes = &mut self.memory.ram[at..at + SIZE];
        Vmcb::new(bytes).expect("4 KiB").set(field, value);
    }

    pub fn get<T: Value>(&self, field: Field<T>) -> T {
        let at = VMCB as usize;
        Vmcb::new(&self.memory.ram[at..at + SIZE]).expect("4 KiB").get(field)
    }

    /// Adds intercepts to those there are.
    pub fn intercept(&mut self, change: impl FnOnce(&mut Intercepts)) {
        let mut intercepts = self.get(control::INTERCEPTS);
        change(&mut intercepts);
        self.set(control::INTERCEPTS, intercepts);
    }

    /// Runs until the host halts; the exit.
    pub fn run(&mut self) -> ExitCode {
        let end = self.run_until_stop();
        assert_eq!(end, RunEnd::Idle, "the host halts");
        assert!(!self.cpu.is_guest(), "out of the guest");
        ExitCode::from_bits(self.get(control::EXITCODE))
    }

    /// VMRUN again, after an exit.
    pub fn resume(&mut self) -> ExitCode {
        self.cpu.registers.ip = HOST_CODE;
        self.cpu.registers.gpr[0] = VMCB;
        self.cpu.pending.set_activity(Activity::Running);
        self.run()
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

    /// One turn of the processor, as a board gives it.
    pub fn run_turn(&mut self) -> RunEnd {
        self.run_for(10_000)
    }

    pub fn run_for(&mut self, instructions: u64) -> RunEnd {
        let mut bus = Bus { memory: &mut self.memory, platform: &mut self.platform };
        let until = Picoseconds(self.cpu.clock.now().0 + 1_000_000_000);
        self.cpu.run(&mut self.cache, &mut bus, until, instructions)
    }

    pub fn exit_info(&self) -> [u64; 2] {
        [self.get(control::EXITINFO1), self.get(control::EXITINFO2)]
    }
}
