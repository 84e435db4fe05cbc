//! Why a virtual machine cannot be had.

/// What keeps a virtual machine from being made or run.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The device is not there or not ours to open.
    #[error("cannot open /dev/kvm: {0}; load kvm_amd or kvm_intel, and check its permissions")]
    NoKvm(kvm_ioctls::Error),
    /// A request of KVM's interface failed.
    #[error("KVM refuses {request}: {error}")]
    Kvm {
        /// The request's name, such as `KVM_RUN`.
        request: &'static str,
        /// What the kernel says.
        error: kvm_ioctls::Error,
    },
    /// Fewer than one vCPU, or more than KVM has.
    #[error("{asked} vCPUs; this host's KVM runs 1 to {most}")]
    Processors {
        /// How many were asked for.
        asked: u16,
        /// How many KVM has at most.
        most: usize,
    },
    /// More memory than lies below the hole for devices.
    #[error("{asked} bytes of memory; a virtual machine here has at most {most}")]
    TooMuchMemory {
        /// Bytes that were asked for.
        asked: u64,
        /// Bytes that there may be.
        most: u64,
    },
    /// The image of the guest's memory does not fit.
    #[error("{size} bytes of guest memory: this host has no room for them")]
    NoRoom {
        /// Bytes that were asked for.
        size: u64,
    },
    /// The system gives no such memory.
    #[error("{size} bytes of guest memory: {error}")]
    Memory {
        /// Bytes that were asked for.
        size: u64,
        /// What the system says.
        error: String,
    },
    /// Where the guest says that tickets go there is no memory.
    #[error("no ledger of tickets is at {at:#x} in the guest's memory")]
    Ledger {
        /// As the guest has it.
        at: u64,
    },
    /// KVM's timer chip cannot be had with a split interrupt chip.
    #[error("KVM's timer needs KVM's interrupt chip: ask for the full one")]
    TimerWithoutChip,
    /// The board cannot be made, or the guest's images do not fit.
    #[error(transparent)]
    Board(#[from] board::MachineError),
    /// A function of the host cannot be given to a virtual machine.
    #[error(
        "cannot give {address} to a virtual machine: {what}: {error}; it needs an IOMMU, the driver vfio-pci, and access to /dev/vfio"
    )]
    Function {
        /// As PCI has it.
        address: String,
        /// The request or the file.
        what: String,
        /// What the system says.
        error: String,
    },
    /// What interrupts a vCPU's thread cannot be had.
    #[error("cannot install a signal handler: {0}")]
    Signal(String),
    /// The system gives no thread for a vCPU.
    #[error("no thread for a vCPU: {0}")]
    Thread(std::io::Error),
}

impl BenchError {
    pub(crate) fn kvm(request: &'static str, error: kvm_ioctls::Error) -> Self {
        Self::Kvm { request, error }
    }

    pub(crate) fn function(address: &str, what: &str, error: std::io::Error) -> Self {
        let (address, what) = (address.into(), what.into());
        Self::Function { address, what, error: error.to_string() }
    }
}
