//! Lines of a trace's text.

/// A line that long is none of the kernel's.
const LONGEST_LINE: usize = 1000;

/// ` qemu-system-x86-141     [000] .....     4.286000: kvm_inj_virq: IRQ 0x30`
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line<'a> {
    /// Number of the thread that the event happened in.
    pub thread: u32,
    /// Of the trace's clock.
    pub seconds: f64,
    /// Its name without the subsystem.
    pub event: &'a str,
    /// What the event says.
    pub text: &'a str,
}

impl<'a> Line<'a> {
    /// `None` for a comment and for what is not a line of an event.
    pub fn parse(line: &'a str) -> Option<Self> {
        if line.starts_with('#') || line.len() > LONGEST_LINE {
            return None;
        }
        // Names may hold any character: the processor's bracket comes after the thread's number.
        let (before, after) = line.split_once(" [")?;
        let before = before.trim_end();
        // With `record-tgid` the process stands between the two.
        let before = before.split_once(" (").map_or(before, |(name, _)| name.trim_end());
        let thread = before.rsplit('-').next()?.parse().ok()?;
        let (_, after) = after.split_once(']')?;
        let (stamp, rest) = after.split_once(": ")?;
        let seconds = stamp.split_whitespace().last()?.parse().ok()?;
        let (event, text) = rest.split_once(':')?;
        Some(Self { thread, seconds, event: event.trim(), text: text.trim() })
    }
}

/// What `kvm_apicv_inhibit_changed` says: `set reason=8, inhibits=0x100 PIT_REINJ`, with names or
/// without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InhibitChange {
    /// The reason's bit, below 64.
    pub bit: u32,
    /// Set, or cleared.
    pub is_set: bool,
    /// All reasons afterwards.
    pub mask: u64,
}

impl InhibitChange {
    /// The name of the event.
    pub const EVENT: &str = "kvm_apicv_inhibit_changed";

    /// What stands behind the event's name; `None` if it is another event's.
    pub fn parse(text: &str) -> Option<Self> {
        let (verb, rest) = text.split_once(" reason=")?;
        let (bit, rest) = rest.split_once(',')?;
        let mask = rest.trim().strip_prefix("inhibits=0x")?.split_whitespace().next()?;
        Some(Self {
            bit: bit.trim().parse().ok().filter(|bit| *bit < 64)?,
            is_set: match verb {
                "set" => true,
                "cleared" => false,
                _ => return None,
            },
            mask: u64::from_str_radix(mask, 16).ok()?,
        })
    }
}

/// What `kvm_pi_irte_update` says: an interrupt of a function was given another way to the guest.
///
/// `PI is enabled and being updated for irq 34, vcpu 0, gsi: 0x18, gvec: 0xe1, pi_desc_addr: 0x…`;
/// before 6.3 with `VT-d` in front, from 6.17 on without the address and with -1 for no virtual
/// processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteChange {
    /// The IOMMU posts it from now on.
    pub is_posted: bool,
    /// The host's number of the interrupt.
    pub host_irq: u32,
    /// Of the virtual machine.
    pub vcpu: Option<u32>,
    /// The guest's vector.
    pub vector: u32,
}

impl RouteChange {
    /// The name of the event.
    pub const EVENT: &str = "kvm_pi_irte_update";

    /// What stands behind the event's name; `None` if it is another event's.
    pub fn parse(text: &str) -> Option<Self> {
        let (_, text) = text.split_once("PI is ")?;
        let (state, rest) = text.split_once(" for irq ")?;
        let mut parts = rest.split(", ");
        let host_irq = parts.next()?.parse().ok()?;
        let vcpu = parts.next()?.strip_prefix("vcpu ")?.parse().ok();
        let vector = parts.find_map(|part| part.strip_prefix("gvec: 0x"))?;
        Some(Self {
            is_posted: state.starts_with("enabled"),
            host_irq,
            vcpu,
            vector: u32::from_str_radix(vector, 16).ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_as_the_kernel_prints_them() {
        let inhibit = "set reason=2, inhibits=0x4";
        for (line, expected) in [
            (
                " qemu-x86-141     [000] .....     4.25: kvm_apicv_inhibit_changed: set reason=2, \
                 inhibits=0x4",
                Some((141, 4.25, InhibitChange::EVENT, inhibit)),
            ),
            (
                " CPU 0/KVM-142 (    141) [001] d..1. 6.5: kvm_inj_virq: IRQ 0x30",
                Some((142, 6.5, "kvm_inj_virq", "IRQ 0x30")),
            ),
            (" odd - [x]-143  [001] d..1. 6.5: kvm_inj_virq: x", None),
            ("# tracer: nop", None),
            ("damaged", None),
        ] {
            let found = Line::parse(line).map(|at| (at.thread, at.seconds, at.event, at.text));
            assert_eq!(found, expected, "{line}");
        }
    }

    #[test]
    fn inhibits_with_names_and_without() {
        let change = |bit, is_set, mask| Some(InhibitChange { bit, is_set, mask });
        for (text, expected) in [
            ("set reason=8, inhibits=0x100 PIT_REINJ", change(8, true, 0x100)),
            ("cleared reason=2, inhibits=0x0", change(2, false, 0)),
            ("set reason=99, inhibits=0x4", None),
            ("set reason=9", None),
            ("forgot reason=1, inhibits=0x2", None),
        ] {
            assert_eq!(InhibitChange::parse(text), expected, "{text}");
        }
    }

    #[test]
    fn routes_as_the_kernels_since_6_1_print_them() {
        let change =
            |is_posted, vcpu, vector| Some(RouteChange { is_posted, host_irq: 34, vcpu, vector });
        let enabled = "enabled and being updated for irq 34";
        for (text, expected) in [
            (
                format!(
                    "VT-d PI is {enabled}, vcpu 3, gsi: 0x18, gvec: 0xe1, pi_desc_addr: 0x1040"
                ),
                change(true, Some(3), 0xE1),
            ),
            (
                format!("PI is {enabled}, vcpu 0, gsi: 0x18, gvec: 0x41, pi_desc_addr: 0x0"),
                change(true, Some(0), 0x41),
            ),
            (
                "PI is disabled for irq 34, vcpu -1, gsi: 0x18, gvec: 0x0".to_owned(),
                change(false, None, 0),
            ),
            ("PI is enabled".to_owned(), None),
            ("vmid=1, vcpuid=0".to_owned(), None),
        ] {
            assert_eq!(RouteChange::parse(&text), expected, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in "\\PC{0,300}") {
            Line::parse(&text);
            InhibitChange::parse(&text);
            RouteChange::parse(&text);
        }
    }
}
