//! The guest's RAM: loaded by the board's loaders, then KVM's.

use crate::error::BenchError;
use crate::vfio::Function;
use arch::address::{Device, PAGE_SIZE};
use arch::identity::RequesterId;
use bus::{DirectMemoryAccess, DmaFault, GuestMemory, MemoryLayout};
use kvm_bindings::kvm_userspace_memory_region;
use kvm_ioctls::VmFd;
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion};

/// Memory slots of KVM's that RAM may take: one for each of its regions.
pub(crate) const RAM_SLOTS: u32 = 8;

/// RAM that KVM maps into the guest.
#[derive(Clone, Debug)]
pub(crate) struct Ram(GuestMemoryMmap);

/// Prepares an image so that the pages written to it can be told from the others.
pub(crate) fn empty_image(size: u64) -> Result<GuestMemory, BenchError> {
    let mut image =
        GuestMemory::allocate(MemoryLayout::new(size)).map_err(|_| BenchError::NoRoom { size })?;
    image.watch(0, image.ram.len());
    Ok(image)
}

impl Ram {
    /// Fresh memory that holds what `image`, from [`empty_image`], was filled with.
    pub(crate) fn of_image(image: &GuestMemory) -> Result<Self, BenchError> {
        let size = image.layout().low as usize;
        let ram = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), size)])
            .map_err(|error| BenchError::Memory { size: size as u64, error: error.to_string() })?;
        let page = PAGE_SIZE as usize;
        let written = image.generations.iter().zip(image.ram.chunks(page)).enumerate();
        for (number, (_, bytes)) in written.filter(|(_, (generation, _))| **generation != 0) {
            ram.write_slice(bytes, GuestAddress((number * page) as u64)).map_err(|error| {
                BenchError::Memory { size: size as u64, error: error.to_string() }
            })?;
        }
        Ok(Self(ram))
    }

    /// As `vm-memory` has it.
    pub(crate) fn memory(&self) -> &GuestMemoryMmap {
        &self.0
    }

    /// Makes this the memory of a virtual machine, which must not outlive it.
    pub(crate) fn give_to(&self, vm: &VmFd) -> Result<(), BenchError> {
        for (slot, region) in self.0.iter().enumerate() {
            let address = region.start_addr();
            let host = self.0.get_host_address(address).map_err(|error| BenchError::Memory {
                size: region.len(),
                error: error.to_string(),
            })?;
            let description = kvm_userspace_memory_region {
                slot: slot as u32,
                flags: 0,
                guest_phys_addr: address.0,
                memory_size: region.len(),
                userspace_addr: host as u64,
            };
            // SAFETY: the region is mapped for as long as `self` or a copy of it lives, and the
            // virtual machine keeps a copy next to the descriptor. Everything in this process
            // reaches the bytes through volatile accesses of `vm-memory`.
            unsafe { vm.set_user_memory_region(description) }
                .map_err(|error| BenchError::kvm("KVM_SET_USER_MEMORY_REGION", error))?;
        }
        Ok(())
    }

    /// Lets a function of the host reach this memory where the guest has it. The function must not
    /// outlive it.
    pub(crate) fn lend_to(&self, function: &Function) -> std::io::Result<()> {
        self.0.iter().try_for_each(|region| {
            let address = region.start_addr();
            let host = self.0.get_host_address(address).map_err(std::io::Error::other)?;
            // SAFETY: the region is mapped for as long as a copy of `self` lives, and an owner that
            // has the function keeps one. Everything in this process reaches the bytes through
            // volatile accesses of `vm-memory`.
            unsafe { function.map(host as u64, address.0, region.len()) }
        })
    }
}

impl DirectMemoryAccess for Ram {
    fn read(&mut self, _: RequesterId, at: Device, into: &mut [u8]) -> Result<(), DmaFault> {
        self.0.read_slice(into, GuestAddress(at.0)).map_err(|_| DmaFault(at))
    }

    fn write(&mut self, _: RequesterId, at: Device, from: &[u8]) -> Result<(), DmaFault> {
        self.0.write_slice(from, GuestAddress(at.0)).map_err(|_| DmaFault(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_for_which_there_is_no_room_is_refused_by_its_size() {
        let size = 1 << 46;
        let error = empty_image(size).map(drop).unwrap_err();
        assert!(matches!(error, BenchError::NoRoom { size: named } if named == size), "{error}");
    }
}
