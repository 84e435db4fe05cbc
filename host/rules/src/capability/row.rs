//! The rows of `check`: what each is called, and which other rows it rests on.

use std::fmt;

macro_rules! rows {
    ($($row:ident $name:literal <- [$($cause:ident),*])*) => {
        /// One question that is answered about a host.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
        pub enum Row {
            $(#[doc = concat!("Published as `", $name, "`.")] $row),*
        }

        impl Row {
            /// In the order in which they are declared.
            pub const ALL: &'static [Row] = &[$(Row::$row),*];

            /// The row of an identifier.
            pub fn named(name: &str) -> Option<Row> {
                Row::ALL.iter().copied().find(|row| row.name() == name)
            }

            /// Its stable identifier in every output.
            pub const fn name(self) -> &'static str {
                match self { $(Row::$row => $name),* }
            }

            /// Rows that this one cannot be better than: where one of them is not answered with
            /// yes, this one follows.
            pub const fn rests_on(self) -> &'static [Row] {
                match self { $(Row::$row => &[$(Row::$cause),*]),* }
            }
        }
    };
}

rows! {
    AnswerActive "answer-active" <- []
    AnswerIpi "answer-ipi" <- []
    AnswerDevice "answer-device" <- []

    CpuPhysical "cpu-physical" <- []
    CpuSvm "cpu-svm" <- []
    CpuSvmEnabled "cpu-svm-enabled" <- [CpuSvm]
    CpuNpt "cpu-npt" <- [CpuSvm]
    CpuAvic "cpu-avic" <- [CpuSvm]
    CpuX2avic "cpu-x2avic" <- [CpuAvic]
    CpuAvicConsistent "cpu-avic-consistent" <- [CpuSvm]
    CpuVcpuLimit "cpu-vcpu-limit" <- [CpuAvic, CpuX2avic]
    CpuErratum1235 "cpu-erratum-1235" <- [CpuAvic]
    CpuVmx "cpu-vmx" <- []
    CpuVmxEnabled "cpu-vmx-enabled" <- [CpuVmx]
    CpuTprShadow "cpu-tpr-shadow" <- [CpuVmx]
    CpuApicRegister "cpu-apic-register" <- [CpuVmx, CpuTprShadow]
    CpuInterruptDelivery "cpu-interrupt-delivery" <- [CpuVmx, CpuTprShadow]
    CpuPostedInterrupts "cpu-posted-interrupts" <- [CpuVmx, CpuInterruptDelivery]
    CpuX2apicMode "cpu-x2apic-mode" <- [CpuVmx, CpuTprShadow, CpuPostedInterrupts]
    CpuIpi "cpu-ipi" <- [CpuVmx, CpuPostedInterrupts]
    CpuClientPart "cpu-client-part" <- [CpuVmx, CpuPostedInterrupts]

    KvmDriver "kvm-driver" <- [CpuSvm, CpuVmx, CpuSvmEnabled, CpuVmxEnabled]
    KvmAvic "kvm-avic" <- [CpuAvic, CpuNpt, KvmDriver]
    KvmX2apic "kvm-x2apic" <- [CpuAvic, CpuX2avic, KvmAvic]
    KvmX2apicCluster "kvm-x2apic-cluster" <- [CpuAvic, CpuX2avic, KvmAvic]
    KvmNested "kvm-nested" <- [CpuAvic, KvmDriver, KvmAvic]
    KvmSnp "kvm-snp" <- [CpuAvic, KvmDriver]
    KvmApicv "kvm-apicv" <- [
        CpuTprShadow, CpuApicRegister, CpuInterruptDelivery, CpuPostedInterrupts, KvmDriver
    ]
    KvmIpi "kvm-ipi" <- [CpuErratum1235, CpuIpi, KvmAvic, KvmApicv]
    KvmDevicePosting "kvm-device-posting" <- [
        IommuGuestApicOn, IommuPostingOn, KvmAvic, KvmApicv
    ]

    IommuPresent "iommu-present" <- []
    IommuGuestApic "iommu-guest-apic" <- [IommuPresent]
    IommuGuestApicMode "iommu-guest-apic-mode" <- [IommuPresent]
    IommuX2apic "iommu-x2apic" <- [IommuPresent]
    IommuGuestApicOn "iommu-guest-apic-on" <- [IommuPresent, IommuGuestApic, IommuGuestApicMode]
    IommuTableRemapping "iommu-table-remapping" <- [IommuPresent]
    IommuX2apicOptOut "iommu-x2apic-opt-out" <- [IommuPresent]
    IommuRemapping "iommu-remapping" <- [IommuPresent]
    IommuExtendedMode "iommu-extended-mode" <- [IommuPresent]
    IommuPosting "iommu-posting" <- [IommuPresent]
    IommuRemappingOn "iommu-remapping-on" <- [IommuPresent, IommuTableRemapping, IommuRemapping]
    IommuPostingOn "iommu-posting-on" <- [IommuPresent, IommuRemappingOn, IommuPosting]
    IommuIoApicScope "iommu-io-apic-scope" <- [IommuPresent]
    IommuEntryCache "iommu-entry-cache" <- [IommuPresent]
    IommuEntryFlush "iommu-entry-flush" <- [IommuPresent]

    GuestWrmsrFence "guest-wrmsr-fence" <- []
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl From<Row> for String {
    fn from(row: Row) -> String {
        row.name().to_owned()
    }
}

/// The rows from which the three answers are drawn.
const DECISIVE: [Row; 6] = [
    Row::KvmAvic,
    Row::KvmApicv,
    Row::KvmIpi,
    Row::KvmDevicePosting,
    Row::IommuGuestApicOn,
    Row::IommuPostingOn,
];

impl Row {
    /// Whether one of the three answers is drawn from this row, directly or by way of others.
    pub fn decides(self) -> bool {
        DECISIVE.contains(&self)
            || Row::ALL.iter().any(|row| row.rests_on().contains(&self) && row.decides())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_row_rests_on_itself_however_far() {
        for &row in Row::ALL {
            let mut seen = vec![];
            let mut open = row.rests_on().to_vec();
            while let Some(next) = open.pop() {
                assert_ne!(next, row, "{row}");
                if !seen.contains(&next) {
                    seen.push(next);
                    open.extend(next.rests_on());
                }
            }
        }
    }
}
