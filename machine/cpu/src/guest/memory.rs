//! What a guest takes for a physical address.
//! [APM2 "Nested Paging"] [SDM3 "The Extended Page Table Mechanism (EPT)"]

use crate::memory::{Access, Located};
use crate::{Bus, Cpu, Stop};
use arch::address::SystemPhysical;

impl Cpu {
    /// Translates the place of an operand or of code; outside a guest it is the address itself.
    #[inline(always)]
    pub(crate) fn operand_to_system(
        &mut self,
        bus: &mut Bus<'_>,
        address: SystemPhysical,
        access: Access,
    ) -> Result<Located, Stop> {
        if !self.guest.is_running() {
            return Ok(Located::Memory(address));
        }
        if self.guest.svm.current.is_some() {
            self.svm_operand_to_system(bus, address, access)
        } else {
            self.vmx_operand_to_system(bus, address, access)
        }
    }

    /// Translates the place of an entry of the running software's own page tables.
    #[inline(always)]
    pub(crate) fn table_to_system(
        &mut self,
        bus: &mut Bus<'_>,
        address: SystemPhysical,
    ) -> Result<SystemPhysical, Stop> {
        if !self.guest.is_running() {
            return Ok(address);
        }
        if self.guest.svm.current.is_some() {
            self.svm_table_to_system(bus, address)
        } else {
            self.vmx_table_to_system(bus, address)
        }
    }

    /// Whether accessed and dirty flags may be set in an entry of the running software's tables,
    /// which it has at `address`: `Err` is the exit of the guest.
    #[inline(always)]
    pub(crate) fn check_table_update(
        &mut self,
        bus: &mut Bus<'_>,
        address: SystemPhysical,
    ) -> Result<(), Stop> {
        // Nested paging of the other vendor takes every access to a table for a write.
        if self.guest.vmx.current.is_some() {
            self.vmx_check_table_update(bus, address)
        } else {
            Ok(())
        }
    }

    /// Whether writes and fetches through the translation made last need no further walk.
    pub(crate) fn nested_grants(&self) -> (bool, bool) {
        if self.guest.vmx.current.is_some() {
            self.vmx_nested_grants()
        } else {
            self.svm_nested_grants()
        }
    }

    /// The exit of an access to the virtual APIC page that is refused before anything is read or
    /// written.
    pub(crate) fn check_virtual_apic(
        &mut self,
        bus: &mut Bus<'_>,
        offset: u16,
        size: usize,
        access: Access,
    ) -> Result<(), Stop> {
        if self.guest.vmx.current.is_some() {
            return self.vmx_check_apic_page(offset, size, access);
        }
        self.svm_check_apic_page(bus, offset, size, access)
    }

    /// A read that has been checked.
    pub(crate) fn read_virtual_apic(&mut self, bus: &mut Bus<'_>, offset: u16, size: u8) -> u64 {
        if self.guest.vmx.current.is_some() {
            return self.vmx_read_apic_page(bus, offset, size);
        }
        self.svm_read_apic_page(bus, offset, size)
    }

    /// A write that has been checked. What it causes comes before the next instruction.
    pub(crate) fn write_virtual_apic(
        &mut self,
        bus: &mut Bus<'_>,
        offset: u16,
        size: u8,
        value: u64,
    ) {
        if self.guest.vmx.current.is_some() {
            return self.vmx_write_apic_page(bus, offset, size, value);
        }
        self.svm_write_apic_page(bus, offset, size, value);
    }
}
