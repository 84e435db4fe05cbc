//! Messages to a guest's processors from a thread of the host, as a device that the process
//! emulates sends them. [KVM-API "KVM_SIGNAL_MSI"]

use crate::error::BenchError;
use arch::identity::{CpuIndex, Vector};
use arch::msi::{MessageAddress, MessageData, WINDOW_START};
use board::topology::Topology;
use kvm_bindings::kvm_msi;
use kvm_ioctls::VmFd;
use std::sync::Arc;

/// The destination that is every processor.
const EVERYONE: u8 = 0xFF;
const WINDOW: u16 = (WINDOW_START >> 20) as u16;

/// Who sends them.
pub struct Messenger {
    vm: Arc<VmFd>,
    /// By processor: the identifier of its APIC, as far as a message reaches them.
    ids: Vec<u8>,
}

impl Messenger {
    pub(crate) fn new(vm: Arc<VmFd>, processors: u16, topology: &Topology) -> Self {
        let ids = (0..processors).map(|index| topology.apic_id(CpuIndex(index)).0);
        let ids = ids.map_while(|id| u8::try_from(id).ok().filter(|id| *id != EVERYONE)).collect();
        Self { vm, ids }
    }

    /// So many processors can be sent to.
    pub fn targets(&self) -> usize {
        self.ids.len()
    }

    /// The identifier of a processor's APIC.
    pub fn id(&self, target: usize) -> Option<u8> {
        self.ids.get(target).copied()
    }

    /// Sends a vector to a processor by its number, of those below [`Self::targets`]; one whose
    /// APIC is switched off does not take it. Fails as [`BenchError`] says.
    pub fn send(&self, target: usize, vector: Vector) -> Result<(), BenchError> {
        let Some(id) = self.id(target) else { return Ok(()) };
        let address = MessageAddress::new().with_window(WINDOW).with_destination_low(id);
        let data = MessageData::new().with_vector(vector.0).with_is_asserted(true);
        let message = kvm_msi {
            address_lo: address.into_bits(),
            data: data.into_bits(),
            ..Default::default()
        };
        let sent = self.vm.signal_msi(message);
        sent.map(drop).map_err(|error| BenchError::kvm("KVM_SIGNAL_MSI", error))
    }
}
