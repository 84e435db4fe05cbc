//! Registers of user interrupts. [SDM3 "User-Interrupt State"]

use arch::uintr::{DESCRIPTOR_RESERVED, UintrMisc, UintrTargets, component};
use serde::{Deserialize, Serialize};

/// Registers of user interrupts. Those that an MSR shows as they are hold what it does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserInterrupts {
    /// A request for each vector (UIRR). One is recognized while any is set.
    pub requests: u64,
    /// Requests are delivered (UIF).
    pub flag: bool,
    /// Where they are delivered (UIHANDLER).
    pub handler: u64,
    /// What is subtracted from RSP first; with bit 0 set, the new RSP (UISTACKADJUST).
    pub stack_adjustment: u64,
    /// As [`UintrMisc`]: UINV and UITTSZ.
    pub misc: u64,
    /// The linear address of the own descriptor (UPIDADDR).
    pub descriptor: u64,
    /// As [`UintrTargets`]: where SENDUIPI finds its targets, if it is enabled.
    pub targets: u64,
}

impl UserInterrupts {
    /// The vector of ordinary interrupts that are notifications (UINV).
    pub fn notification_vector(&self) -> u8 {
        UintrMisc::from_bits(self.misc).notification_vector()
    }

    /// Changes it.
    pub fn set_notification_vector(&mut self, vector: u8) {
        let misc = UintrMisc::from_bits(self.misc).with_notification_vector(vector);
        self.misc = misc.into_bits();
    }

    /// The highest index of the target table (UITTSZ).
    pub fn last_target(&self) -> u32 {
        UintrMisc::from_bits(self.misc).last_target()
    }

    /// Where SENDUIPI finds its targets, if it is enabled.
    pub fn targets(&self) -> UintrTargets {
        UintrTargets::from_bits(self.targets)
    }

    /// As XSAVES stores it, with the flag beside what IA32_UINTR_MISC has.
    pub(crate) fn lay_out(&self) -> [u8; component::SIZE] {
        let misc = UintrMisc::from_bits(self.misc).with_stored_flag(self.flag);
        let mut bytes = [0; component::SIZE];
        for (at, value) in [
            (component::HANDLER, self.handler),
            (component::STACK_ADJUSTMENT, self.stack_adjustment),
            (component::MISC, misc.into_bits()),
            (component::DESCRIPTOR, self.descriptor),
            (component::REQUESTS, self.requests),
            (component::TARGETS, self.targets),
        ] {
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        bytes
    }

    /// What XRSTORS restores; `None` for values that WRMSR of an MSR refuses.
    pub(crate) fn from_layout(bytes: &[u8; component::SIZE]) -> Option<Self> {
        let get = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        let misc = UintrMisc::from_bits(get(component::MISC));
        let state = Self {
            requests: get(component::REQUESTS),
            flag: misc.stored_flag(),
            handler: get(component::HANDLER),
            stack_adjustment: get(component::STACK_ADJUSTMENT),
            misc: misc.with_stored_flag(false).into_bits(),
            descriptor: get(component::DESCRIPTOR),
            targets: get(component::TARGETS),
        };
        let addresses = [state.handler, state.stack_adjustment, state.descriptor, state.targets];
        let is_legal = addresses.into_iter().all(|at| (at as i64) << 16 >> 16 == at as i64)
            && state.misc & UintrMisc::RESERVED == 0
            && state.descriptor & DESCRIPTOR_RESERVED == 0
            && state.targets & UintrTargets::RESERVED == 0;
        is_legal.then_some(state)
    }

    /// The vector that is delivered first: the highest that is requested (UIRRV).
    pub fn first(&self) -> Option<u8> {
        self.requests.checked_ilog2().map(|vector| vector as u8)
    }
}
