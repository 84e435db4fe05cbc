//! Whatever a VMCS and memory hold, nothing panics and every sequence of steps ends.

use crate::machine::apicv;
use arch::address::SystemPhysical;
use arch::identity::Vector;
use arch::vmx::apicv::{GuestInterruptStatus, NotificationControl};
use arch::vmx::qualification::ApicAccessKind;
use interrupt::page::VectorSet;
use std::cell::Cell;
use virtual_apic::SharedMemory;
use virtual_apic::apicv::{
    Apicv, ApicvBehaviour, ApicvControls, CommandHalves, Completion, HoleRead, IpiOutcome, IpiSend,
    IpiStep, MsrWrite, PidPointerTable, PostedInterruptProcessing, PostedRequest, ProcessingStep,
    VirtualApicPage, post_from_device,
};

/// Knuth's generator, its upper half.
struct Random(Cell<u64>);

impl Random {
    fn next(&self) -> u32 {
        let next = self.0.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        self.0.set(next);
        (next >> 32) as u32
    }

    fn wide(&self) -> u64 {
        u64::from(self.next()) << 32 | u64::from(self.next())
    }

    fn is(&self) -> bool {
        self.next() & 1 != 0
    }

    /// As VM entry lets through: within the widest physical addresses, aligned to `1 << low` bytes.
    fn address(&self, low: u32) -> SystemPhysical {
        SystemPhysical(self.wide() >> 12 >> low << low)
    }
}

/// Memory that others change between any two accesses.
impl SharedMemory for Random {
    fn read_u32(&self, at: SystemPhysical) -> u32 {
        assert_eq!(at.0 % 4, 0, "aligned");
        self.next()
    }

    fn read_u64(&self, at: SystemPhysical) -> u64 {
        assert_eq!(at.0 % 8, 0, "aligned");
        self.wide()
    }

    fn write_u32(&mut self, at: SystemPhysical, _: u32) {
        assert_eq!(at.0 % 4, 0, "aligned");
    }

    fn write_u64(&mut self, at: SystemPhysical, _: u64) {
        assert_eq!(at.0 % 8, 0, "aligned");
    }
}

fn any_guest(random: &Random) -> Apicv {
    let controls = ApicvControls {
        uses_tpr_shadow: random.is(),
        virtualizes_accesses: random.is(),
        virtualizes_x2apic: random.is(),
        virtualizes_registers: random.is(),
        delivers_interrupts: random.is(),
        processes_posted_interrupts: random.is(),
        virtualizes_ipis: random.is(),
        exits_at_interrupt_window: random.is(),
    };
    Apicv {
        page: VirtualApicPage(random.address(12)),
        access_page: random.address(12),
        tpr_threshold: random.next() as u8,
        eoi_exits: VectorSet(std::array::from_fn(|_| random.next())),
        posted_descriptor: random.address(6),
        notification_vector: Vector(random.next() as u8),
        pid_pointers: PidPointerTable { base: random.address(3), last_index: random.next() as u16 },
        physical_address_bits: 32 + random.next() as u8 % 21,
        status: GuestInterruptStatus::from_bits(random.next() as u16),
        is_recognized: random.is(),
        unfinished_write: random.is().then(|| random.next() as u16 & 0xFFF),
        behaviour: ApicvBehaviour {
            ipi_virtualization_alone: [
                CommandHalves::Both,
                CommandHalves::Low,
                CommandHalves::Neither,
            ][random.next() as usize % 3],
            ignores_reserved_command_bits: random.is(),
            leaves_busy_set: random.is(),
            stores_self_ipi: random.is(),
            hole_read: if random.is() { HoleRead::Page } else { HoleRead::GeneralProtection },
            posted_request: if random.is() {
                PostedRequest::Maximum
            } else {
                PostedRequest::HighestInPage
            },
            physical_access_exits: random.is(),
        },
        ..apicv(controls)
    }
}

/// Takes all steps and counts them.
fn finish(mut ipi: IpiSend, apicv: &Apicv, random: &mut Random) -> u32 {
    for count in 1..100 {
        if let IpiStep::Complete(IpiOutcome::Posted | IpiOutcome::Exit(_)) = ipi.step(apicv, random)
        {
            return count;
        }
    }
    panic!("{ipi:?} does not end")
}

fn do_anything(apicv: &mut Apicv, random: &mut Random) {
    let size = [1, 2, 4, 8][random.next() as usize % 4];
    let offset = random.next() as u16 % (0x1001 - u16::from(size));
    let completion = match random.next() % 9 {
        0 => apicv.enter(random).into(),
        1 => {
            let _ = apicv.read_page(random, offset, size);
            Completion::Done
        }
        2 => {
            let value = random.next();
            let _ = apicv.write_page(random, offset, size, value);
            apicv.complete_operation(random)
        }
        3 => {
            let kind = ApicAccessKind::from_bits(random.next() as u8);
            let _ = apicv.refusal(kind, offset, size);
            apicv.write_cr8(random, offset as u8 & 15).into()
        }
        4 => {
            let msr = 0x800 + random.next() % 0x100;
            let _ = apicv.read_msr(random, msr);
            let value = random.wide();
            match apicv.write_msr(random, msr, value & 0xFFFF_FFFF_000C_CFFF) {
                MsrWrite::Virtualized(completion) => completion,
                MsrWrite::Ordinary | MsrWrite::GeneralProtection => Completion::Done,
            }
        }
        5 => {
            let (descriptor, vector) = (random.address(6), Vector(random.next() as u8));
            let is_urgent = random.is();
            let _ = post_from_device(random, descriptor, vector, is_urgent);
            Completion::Done
        }
        6 => {
            let mut processing = PostedInterruptProcessing::new();
            let steps = (1..100)
                .find(|_| processing.step(apicv, random) == ProcessingStep::Complete)
                .expect("processing ends");
            assert_eq!(steps, 7);
            Completion::Done
        }
        7 => {
            let receiver = NotificationControl::from_bits(random.wide());
            Completion::Send(IpiSend::of_user_interrupt(receiver, random.is()))
        }
        _ => {
            apicv.deliver(random);
            Completion::Done
        }
    };
    if let Completion::Send(ipi) = completion {
        assert!(finish(ipi, apicv, random) <= 5);
    }
}

#[test]
fn nothing_panics_and_every_sequence_of_steps_ends() {
    for seed in 0..2_000 {
        let mut random = Random(Cell::new(seed));
        let mut apicv = any_guest(&random);
        for _ in 0..100 {
            do_anything(&mut apicv, &mut random);
        }
    }
}
