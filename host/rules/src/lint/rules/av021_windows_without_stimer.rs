//! Windows has a timer that needs no emulated device.

use crate::finding::Severity;
use crate::lint::decision::machine::where_kvm;
use crate::lint::outcome::Outcome;
use crate::lint::rule::{BOTH, Check, Kernels, Rule, Versions};
use crate::lint::subject::Subject;
use crate::vm::{Guest, Setting};

pub const RULE: Rule = Rule {
    id: "AV021",
    name: "windows-without-stimer",
    severity: Severity::Note,
    vendors: BOTH,
    kernels: Kernels::ALL,
    qemu: Versions::ALL,
    summary: "Windows has a timer that needs no emulated device",
    explanation: "
Without `hv-stimer` Windows ticks by the HPET or the RTC, whose every access is an exit to QEMU: tens of thousands a second have been
measured. Give it synthetic timers (`hv-synic`, `hv-time` and `hv-stimer`, with `hv-avic` so that AVIC and APICv stay on) and take
the HPET away.",
    bad: "qemu-system-x86_64 -enable-kvm -cpu host,hv-relaxed,hv-time -rtc base=localtime",
    good: "qemu-system-x86_64 -enable-kvm -rtc base=localtime -cpu host,hv-time,hv-vpindex,hv-synic,hv-stimer,hv-avic",
    unknown: "qemu-system-x86_64 -accel $ACCEL -cpu host,hv-relaxed,hv-time -rtc base=localtime",
    example_kernel: "",
    example_qemu: "",
    is_fixable: false,
    sources: &["QEMU 10.0 docs/system/i386/hyperv.rst, hv-stimer"],
    check: Check::Machine(check),
};

fn check(subject: &Subject<'_>, outcome: &mut Outcome) {
    let vm = subject.vm;
    if vm.guest.value != Guest::Windows || vm.hyperv.has_stimer() {
        return;
    }
    let flag = Some(Setting { value: true, origin: vm.guest.origin.clone() });
    where_kvm(subject, outcome, &flag, |flag, outcome| {
        outcome.violated(
            flag.position(),
            "Windows has no synthetic timers and ticks by an emulated device",
        );
    });
}
