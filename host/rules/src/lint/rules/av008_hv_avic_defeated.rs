//! Nothing defeats hv-avic.

use crate::configuration::change::MachineChange;
use crate::finding::Severity;
use crate::inhibit::Reason;
use crate::lint::decision::machine::unknown;
use crate::lint::outcome::Outcome;
use crate::lint::rule::{AMD, Check, Kernels, Rule, Versions};
use crate::lint::subject::Subject;
use reading::KernelFeature;

pub const RULE: Rule = Rule {
    id: "AV008",
    name: "hv-avic-defeated",
    severity: Severity::Warning,
    vendors: AMD,
    kernels: Kernels::from(KernelFeature::Inhibits),
    qemu: Versions::ALL,
    summary: "Nothing defeats hv-avic",
    explanation: "
`hv-avic` tells Windows not to use AutoEOI, so that AVIC can stay on. It says nothing about the PIT: with an in-kernel
PIT that reinjects, AVIC is off on AMD all the same (AV001), and Windows has given up AutoEOI and the
enlightened EOI for nothing. Configurations that combine `<avic state='on'/>` with `tickpolicy='delay'` are common,
since both are found in guides.",
    bad: "<domain type='kvm'><os><type machine='q35'>hvm</type></os><features><hyperv><vpindex state='on'/>\
          <synic state='on'/><stimer state='on'/><avic state='on'/></hyperv></features>\
          <clock offset='localtime'><timer name='pit' tickpolicy='delay'/></clock></domain>",
    good: "<domain type='kvm'><os><type machine='q35'>hvm</type></os><features><hyperv><vpindex state='on'/>\
           <synic state='on'/><stimer state='on'/><avic state='on'/></hyperv></features>\
           <clock offset='localtime'><timer name='pit' tickpolicy='discard'/></clock></domain>",
    unknown: "qemu-system-x86_64 -enable-kvm -M $M -cpu host,hv-vpindex,hv-synic,hv-stimer,hv-avic",
    example_kernel: "",
    example_qemu: "",
    is_fixable: true,
    sources: &[
        "QEMU 10.0 docs/system/i386/hyperv.rst, hv-avic",
        "Linux 7.3 arch/x86/kvm/i8254.c, kvm_pit_set_reinject",
    ],
    check: Check::Machine(check),
};

fn check(subject: &Subject<'_>, outcome: &mut Outcome) {
    let vm = subject.vm;
    let Some(avic) = vm.hyperv.avic.as_ref().filter(|avic| avic.value) else { return };
    if !vm.hyperv.has_synic() {
        return;
    }
    for (_, one) in subject.inhibits(Reason::PitReinject) {
        if one.is_lasting() {
            outcome
                .violated(
                    avic.position(),
                    "hv-avic has no effect on AMD: the PIT's reinjection keeps AVIC off",
                )
                .repaired_by(MachineChange::DiscardPitTicks);
        } else if one.duration.is_lasting() {
            outcome.undecided(avic.position(), unknown("what the PIT does", &vm.pit.origin));
        }
    }
}
