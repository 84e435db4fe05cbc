//! Why a virtual machine cannot be had.

#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    #[error("cannot open /dev/kvm: {0}; load kvm_amd or kvm_intel, and see to access rights")]
    NoKvm(kvm_ioctls::Error),
    #[error("KVM refuses {request}: {error}")]
    Kvm { request: &'static str, error: kvm_ioctls::Error },
    #[error("{asked} virtual processors; this host's KVM runs 1 to {most}")]
    Processors { asked: u16, most: usize },
    #[error("{asked} bytes of memory; a virtual machine here has at most {most}")]
    TooMuchMemory { asked: u64, most: u64 },
    #[error("{size} bytes of guest memory: {error}")]
    Memory { size: u64, error: String },
    #[error("KVM's timer needs KVM's interrupt chip: ask for the full one")]
    TimerWithoutChip,
    #[error(transparent)]
    Board(#[from] board::MachineError),
    #[error("cannot install a signal handler: {0}")]
    Signal(String),
}

impl BenchError {
    pub(crate) fn kvm(request: &'static str, error: kvm_ioctls::Error) -> Self {
        Self::Kvm { request, error }
    }
}
