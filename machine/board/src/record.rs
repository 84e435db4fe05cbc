//! What happened, in the trace's vocabulary: every record is made here, and every record is in the
//! run's hash, whether it is collected or not.

use crate::outcome::Abort;
use crate::perturb::Perturbation;
use arch::address::{Device, Linear, SystemPhysical};
use arch::apic::InterruptMessage;
use arch::identity::{CpuIndex, RequesterId, Vector};
use arch::msi::MessageSignalled;
use arch::svm::exit::ExitCode;
use arch::time::Picoseconds;
use bus::{ControlBlock, Effect, Happening, Initiator, Visit, VmExit};
use iommu::{PostingStep, Refusal};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trace::{Event, Record, TraceHash, VirtualCpu};

/// What belongs to no processor stands on the first one's track.
const BOARD: CpuIndex = CpuIndex(0);
/// Guests whose nested page tables are remembered for the trace; with more, they are said again.
const MOST_REMARKED: usize = 4096;

/// What remarks in a trace say of a guest's vCPU.
#[derive(Clone, Copy, Debug)]
struct Remarked {
    nested_root: Option<SystemPhysical>,
    has_virtual_apic: bool,
}

/// An exception that a processor took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LastException {
    pub vector: Vector,
    pub error_code: u32,
    pub rip: Linear,
}

/// The run's records.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Recorder {
    /// Of all records so far, whether they are collected or not.
    pub hash: TraceHash,
    /// Records for a trace file, collected while they are wanted.
    #[serde(skip)]
    pub records: Option<Vec<Record>>,
    /// What the trace file says of guests so far.
    #[serde(skip)]
    remarked: BTreeMap<VirtualCpu, Remarked>,
    /// By processor: the last exception, for readers who ask why one stopped.
    #[serde(skip)]
    last_exceptions: Vec<Option<LastException>>,
    /// The VM exit that could not be completed, until the run ends by it.
    #[serde(skip)]
    pub(crate) abort: Option<Abort>,
    /// What holds processors up by what they did last, if something does.
    #[serde(skip)]
    pub(crate) perturbation: Option<Box<Perturbation>>,
}

impl Recorder {
    /// Adds a record to the run's hash and to the trace.
    pub fn note(&mut self, cpu: CpuIndex, at: Picoseconds, event: Event) {
        let record = Record { at, cpu, event };
        self.hash.record(&record);
        if let Some(perturbation) = &mut self.perturbation {
            perturbation.note(&record);
        }
        if let Some(records) = &mut self.records {
            records.push(record);
        }
    }

    /// The moment at which a processor's turn has to end, to be held up there.
    pub(crate) fn next_hold(&self, index: usize) -> Option<Picoseconds> {
        self.perturbation.as_ref()?.next(index)
    }

    /// A processor's turn ends at `until` for that.
    pub(crate) fn bound_turn(&mut self, index: usize, until: Picoseconds) {
        if let Some(perturbation) = &mut self.perturbation {
            perturbation.bound(index, until);
        }
    }

    /// For how long a processor whose turn is over is held up, if it is.
    pub(crate) fn hold(
        &mut self,
        cpu: CpuIndex,
        now: Picoseconds,
        rip: Linear,
    ) -> Option<Picoseconds> {
        self.perturbation.as_mut()?.hold(cpu.0.into(), now, rip)
    }

    /// Says in the trace what a guest has from this entry on that it had not before.
    fn remark_entry(&mut self, visit: Visit, vcpu: VirtualCpu, now: Remarked) {
        if self.remarked.len() >= MOST_REMARKED {
            self.remarked.clear();
        }
        let before = self.remarked.insert(vcpu, now);
        if let Some(root) = now.nested_root
            && before.is_none_or(|before| before.nested_root != now.nested_root)
        {
            self.note(visit.cpu, visit.at, Event::NestedRoot { vcpu, root });
        }
        let Remarked { has_virtual_apic: is_on, .. } = now;
        if before.is_none_or(|before| before.has_virtual_apic != is_on) {
            self.note(visit.cpu, visit.at, Event::VirtualApic { vcpu, is_on });
        }
    }

    /// Something of the board's.
    pub fn note_board(&mut self, at: Picoseconds, event: Event) {
        self.note(BOARD, at, event);
    }

    pub(crate) fn last_exception(&self, cpu: CpuIndex) -> Option<LastException> {
        self.last_exceptions.get(usize::from(cpu.0)).copied().flatten()
    }

    fn keep_exception(&mut self, cpu: CpuIndex, exception: LastException) {
        let index = usize::from(cpu.0);
        if self.last_exceptions.len() <= index {
            self.last_exceptions.resize(index + 1, None);
        }
        self.last_exceptions[index] = Some(exception);
    }

    /// What a processor causes elsewhere.
    pub fn note_effect(&mut self, visit: Visit, effect: Effect) {
        let event = match effect {
            Effect::Interrupt { message, scope } => Event::InterruptSent {
                destination: message.destination,
                destination_mode: message.destination_mode,
                delivery_mode: message.delivery_mode,
                vector: message.vector,
                scope,
                is_level: message.is_level,
            },
            Effect::EndOfInterrupt { vector } => Event::EndOfInterrupt { vector },
            Effect::Doorbell { target } => Event::Doorbell { target },
            _ => return,
        };
        self.note(visit.cpu, visit.at, event);
    }

    /// What happens within a processor.
    pub fn note_happening(&mut self, visit: Visit, happening: Happening) {
        if let Happening::VmEntry { block, nested_root, has_virtual_apic, .. } = happening
            && self.records.is_some()
        {
            let now = Remarked { nested_root, has_virtual_apic };
            self.remark_entry(visit, virtual_cpu(block), now);
        }
        if let Happening::Exception { vector, error, ip } = happening {
            let exception =
                LastException { vector: Vector(vector), error_code: error, rip: Linear(ip) };
            self.keep_exception(visit.cpu, exception);
        }
        if let Happening::VmxAbort { vmcs, code, entry } = happening {
            self.abort = Some(Abort { code, vmcs, entry });
        }
        self.note(visit.cpu, visit.at, event_of(happening));
    }

    /// What a device or an I/O APIC writes into the interrupt window.
    pub fn note_message(&mut self, initiator: Initiator, at: Picoseconds, sent: MessageSignalled) {
        let Initiator::Device(requester) = initiator else { return };
        let MessageSignalled { address, data } = sent;
        self.note_board(at, Event::MessageSignalled { requester, address, data });
    }

    /// A local APIC takes an interrupt.
    pub fn note_accepted(&mut self, cpu: CpuIndex, at: Picoseconds, message: &InterruptMessage) {
        let event = Event::InterruptAccepted {
            delivery_mode: message.delivery_mode,
            vector: message.vector,
            is_level: message.is_level,
        };
        self.note(cpu, at, event);
    }

    /// What ends the run, as the guest asked.
    pub fn note_end(&mut self, at: Picoseconds, effect: Effect) {
        match effect {
            Effect::PowerOff => self.note_board(at, Event::PowerOff {}),
            Effect::Reset => self.note_board(at, Event::Reset {}),
            Effect::DebugExit { value } => self.note_board(at, Event::DebugExit { value }),
            _ => {}
        }
    }

    /// A step on an interrupt's way to a vCPU.
    pub fn note_posting(&mut self, requester: RequesterId, at: Picoseconds, step: PostingStep) {
        match step {
            PostingStep::Posted { place, vector } => {
                self.note_board(at, Event::Posted { place, vector });
            }
            PostingStep::Logged { tag } => {
                self.note_board(at, Event::GuestLogged { requester, tag });
            }
            PostingStep::Continue | PostingStep::Complete => {}
        }
    }

    /// What an IOMMU refused.
    pub fn note_refusal(&mut self, at: Picoseconds, refusal: Refusal) {
        let event = match refusal {
            Refusal::AmdVi(event) => Event::IommuEvent {
                requester: event.device,
                kind: event.kind as u8,
                flags: event.flags.bits().into(),
                address: Device(event.address),
            },
            Refusal::VtD { requester, reason, address } => {
                Event::RemappingFault { requester, reason: reason as u8, address }
            }
        };
        self.note_board(at, event);
    }
}

fn virtual_cpu(block: ControlBlock) -> VirtualCpu {
    VirtualCpu(block.address())
}

/// An exit in its vendor's words.
fn exit_event(exit: VmExit) -> Event {
    let VmExit { block, code, qualification, address, delivering, ip, .. } = exit;
    match block {
        ControlBlock::Vmcb(vmcb) => Event::SvmExit {
            vcpu: VirtualCpu(vmcb),
            code: ExitCode::from_bits(code),
            info1: qualification,
            info2: address,
            interrupt_info: delivering,
            rip: Linear(ip),
        },
        ControlBlock::Vmcs(vmcs) => Event::VmxExit {
            vcpu: VirtualCpu(vmcs),
            reason: code as u32,
            qualification,
            guest_physical: address,
            interruption: exit.event,
            vectoring: delivering,
            instruction: exit.instruction,
            rip: Linear(ip),
        },
    }
}

/// A processor's happening in the trace's vocabulary.
fn event_of(happening: Happening) -> Event {
    match happening {
        Happening::Interrupt { vector, ip } => {
            Event::InterruptDelivered { vector, rip: Linear(ip) }
        }
        Happening::Exception { vector, error, ip } => Event::Exception {
            vector: Vector(vector),
            error_code: error,
            address: Linear(0),
            rip: Linear(ip),
        },
        Happening::Halt { ip } => Event::Halt { rip: Linear(ip) },
        Happening::Wake { .. } => Event::Wake {},
        Happening::VmExit(exit) => exit_event(exit),
        Happening::MsrAccess { index, is_write: false, value } => Event::MsrRead { index, value },
        Happening::MsrAccess { index, value, .. } => Event::MsrWrite { index, value },
        Happening::VmEntry { block, injected, ip, .. } => {
            Event::Entry { vcpu: virtual_cpu(block), injected, rip: Linear(ip) }
        }
        Happening::EntryRefused { vmcb, rule } => {
            Event::EntryRefused { vcpu: VirtualCpu(vmcb), rule }
        }
        Happening::VmxEntryRefused { vmcs, rule } => {
            Event::VmxEntryRefused { vcpu: VirtualCpu(vmcs), rule }
        }
        Happening::VmxAbort { vmcs, code, entry } => {
            Event::VmxAbort { vcpu: VirtualCpu(vmcs), code, entry }
        }
        Happening::VirtualIpi { block, icr } => {
            Event::VirtualIpiSent { vcpu: virtual_cpu(block), icr }
        }
        Happening::Posted { place, vector } => Event::Posted { place, vector },
        Happening::PostedTaken { block, place, vector } => {
            Event::PostedTaken { vcpu: virtual_cpu(block), place, vector }
        }
        Happening::VirtualAccept { block, vector } => {
            Event::VirtualInterruptAccepted { vcpu: virtual_cpu(block), vector }
        }
        Happening::VirtualInterrupt { block, vector, ip } => {
            Event::VirtualInterruptDelivered { vcpu: virtual_cpu(block), vector, rip: Linear(ip) }
        }
        Happening::VirtualEndOfInterrupt { block, vector } => {
            Event::VirtualEndOfInterrupt { vcpu: virtual_cpu(block), vector }
        }
        Happening::UserPosted { descriptor, vector, notifies } => {
            Event::UserPosted { descriptor, vector, notifies }
        }
        Happening::UserNotification { descriptor, requests } => {
            Event::UserNotification { descriptor, requests }
        }
        Happening::UserInterrupt { vector, ip } => {
            Event::UserInterruptDelivered { vector, rip: Linear(ip) }
        }
    }
}
