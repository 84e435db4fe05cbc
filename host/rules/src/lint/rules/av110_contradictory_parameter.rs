//! Each parameter is given once, or always the same.

use crate::configuration::ModuleOption;
use crate::finding::Severity;
use crate::lint::decision::module::{concerned, each, is_open, switch};
use crate::lint::outcome::Outcome;
use crate::lint::rule::{BOTH, Check, Kernels, Rule, Versions};
use crate::lint::subject::Options;

pub const RULE: Rule = Rule {
    id: "AV110",
    name: "contradictory-parameter",
    severity: Severity::Warning,
    vendors: BOTH,
    kernels: Kernels::ALL,
    qemu: Versions::ALL,
    summary: "Each parameter is given once, or always the same",
    explanation: "
Of several values for one parameter the last one counts, and the order of modprobe.d files and of boot loader variables is easily
misjudged.",
    bad: "options kvm_amd avic=1 nested=1\noptions kvm_amd nested=0",
    good: "options kvm_amd avic=1",
    unknown: "GRUB_CMDLINE_LINUX=\"kvm_amd.avic=1 kvm_amd.avic=$AVIC\"",
    example_kernel: "",
    example_qemu: "",
    is_fixable: false,
    sources: &["Linux 6.12 kernel/params.c, parse_args"],
    check: Check::Options(check),
};

fn check(options: &Options<'_>, outcome: &mut Outcome) {
    let all = &options.given;
    each(options, outcome, |option, outcome| {
        let same =
            |other: &&ModuleOption| other.module == option.module && other.name == option.name;
        let Some(last) = all.iter().rfind(same) else { return };
        let reads_same = last.value == option.value
            || (switch(last).is_some() && switch(last) == switch(option));
        if last.at != option.at && !is_open(last) && !reads_same {
            let value = last.value.as_deref().unwrap_or("1");
            let message = format!(
                "{} is given again on line {} as {value}, which counts",
                option.name, last.at.line
            );
            outcome.violated(Some(option.at), message).on(concerned(option));
        }
    });
}
