//! From a message to the local APICs that take it. [SDM3 "Determining IPI Destination"]
//! [APM2 "Interrupt Destination"]
//!
//! Without interrupt remapping a device's write becomes a message by
//! [`arch::msi::MessageSignalled::interrupt`]; with it, the IOMMU makes the message. From there all
//! messages go the same way, through [`targets`].

use crate::LocalApic;
use arch::apic::{DeliveryMode, InterruptMessage, Scope};
use arch::identity::CpuIndex;

/// Fills `into` with the processors that take `message`, in the order of `apics`, which is that of
/// [`CpuIndex`]. A lowest-priority message has at most one: the first of those with the lowest
/// [`LocalApic::priority`]. A scope that refers to the sender reaches nobody without one.
pub fn targets<'a>(
    message: &InterruptMessage,
    scope: Scope,
    sender: Option<CpuIndex>,
    apics: impl IntoIterator<Item = &'a LocalApic>,
    into: &mut Vec<CpuIndex>,
) {
    into.clear();
    if let (Scope::SelfOnly, Some(own)) = (scope, sender) {
        // The same without a look at all the others.
        let mut apics = apics.into_iter().skip(own.0.into());
        into.extend(
            apics.next().filter(|apic| apic.listens_to(message.delivery_mode)).map(|_| own),
        );
        return;
    }
    let mut lowest = None;
    for (index, apic) in apics.into_iter().enumerate() {
        let index = CpuIndex(index as u16);
        if !is_in_scope(message, scope, sender, index, apic) {
            continue;
        }
        if message.delivery_mode == DeliveryMode::LowestPriority {
            let candidate = (apic.priority(), index);
            lowest = Some(lowest.map_or(candidate, |lowest| candidate.min(lowest)));
        } else {
            into.push(index);
        }
    }
    into.extend(lowest.map(|(_, index)| index));
}

fn is_in_scope(
    message: &InterruptMessage,
    scope: Scope,
    sender: Option<CpuIndex>,
    index: CpuIndex,
    apic: &LocalApic,
) -> bool {
    match scope {
        Scope::Destination => apic.matches(message),
        Scope::SelfOnly => sender == Some(index) && apic.listens_to(message.delivery_mode),
        Scope::All => sender.is_some() && apic.listens_to(message.delivery_mode),
        Scope::AllButSelf => {
            sender.is_some_and(|sender| sender != index) && apic.listens_to(message.delivery_mode)
        }
    }
}

#[cfg(test)]
mod tests;
