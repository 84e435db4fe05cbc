//! The field's words in a sentence each, told once, where a result first uses them.

use crate::workload;

/// A word as results have it, and what it means.
const WORDS: [(&str, &str); 37] = [
    ("hlt", "the guest had nothing to do"),
    ("npf", "nested page fault: the guest touched memory or a device that KVM had to look at"),
    ("msr", "the guest accessed a model-specific register; in x2APIC mode its APIC is one of them"),
    ("vintr", "KVM waited for the guest to be ready for an interrupt"),
    ("interrupt", "an interrupt of the host arrived, often the one that says: look at your APIC"),
    ("io", "the guest accessed a port"),
    ("cpuid", "the guest asked what its processor can do"),
    ("avic_incomplete_ipi", "an IPI that AVIC could not deliver alone; KVM did the rest"),
    ("avic_unaccelerated_access", "an APIC register that AVIC leaves to KVM"),
    ("HLT", "the guest had nothing to do"),
    (
        "EPT_VIOLATION",
        "the guest touched memory that KVM had to look at: not there yet, or the APIC's page",
    ),
    ("EPT_MISCONFIG", "the guest touched a device: KVM marks those pages so"),
    ("MSR_WRITE", "the guest wrote a model-specific register; x2APIC mode's registers are such"),
    ("MSR_READ", "the guest read a model-specific register"),
    ("INTERRUPT_WINDOW", "KVM waited for the guest to be ready for an interrupt"),
    (
        "EXTERNAL_INTERRUPT",
        "an interrupt of the host arrived, often the one that says: look at your APIC",
    ),
    ("IO_INSTRUCTION", "the guest accessed a port"),
    ("CPUID", "the guest asked what its processor can do"),
    ("PREEMPTION_TIMER", "the guest's deadline timer, which KVM lets the processor count down"),
    ("APIC_WRITE", "the guest wrote an APIC register that the processor leaves to KVM: the ICR"),
    ("APIC_ACCESS", "the guest accessed an APIC register in a way that KVM has to carry out"),
    ("EOI_INDUCED", "the guest ended an interrupt that KVM wants to hear of"),
    ("PAUSE_INSTRUCTION", "the guest spun for long"),
    ("TPR_BELOW_THRESHOLD", "the guest lowered its task priority while an interrupt waited"),
    ("target not running", "the addressed vCPU slept, so KVM has to wake it"),
    ("LDR", "logical destination register: written when a guest sets its APIC up"),
    ("DFR", "destination format register: written when a guest sets its APIC up"),
    ("SVR", "spurious vector register: switches the APIC on"),
    ("LVT timer", "where the APIC's timer interrupts go"),
    ("TPR", "task priority register: which interrupts the guest lets through"),
    ("ABSENT", "there is no virtual APIC yet; over when the first vCPU is made"),
    ("PIT_REINJ", "KVM's 8254 injects ticks late that the guest missed, which AVIC cannot do"),
    ("IRQWIN", "KVM waits for a moment at which the guest takes an interrupt of the 8259"),
    ("prediction", "nothing of the published figure went into the machine's costs"),
    ("calibration", "costs were fitted to this figure or to its like, so it proves nothing"),
    ("computed", "follows from other rows, so it proves nothing besides"),
    ("trace hash", "of all that the machine did: equal runs have equal hashes"),
];

/// Which words were explained already.
#[derive(Debug, Default)]
pub(crate) struct Glossary {
    told: Vec<&'static str>,
}

impl Glossary {
    /// What the words of a text mean that were not explained before.
    pub(crate) fn explain(&mut self, text: &str) -> Vec<String> {
        let mut lines = Vec::new();
        for (word, meaning) in WORDS.into_iter().chain(workload::gloss()) {
            if !self.told.contains(&word) && has_word(text, word) {
                self.told.push(word);
                lines.push(format!("{word}: {meaning}"));
            }
        }
        lines
    }
}

/// Whether `word` stands in the text by itself.
fn has_word(text: &str, word: &str) -> bool {
    let is_part = |character: Option<char>| {
        character.is_some_and(|character| character.is_alphanumeric() || character == '_')
    };
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !is_part(before) && !is_part(after)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_explained_where_it_first_appears_and_only_there() {
        let mut glossary = Glossary::default();
        let first = glossary.explain("  npf  27\n  hlt  17\n");
        assert_eq!(first.len(), 2, "{first:?}");
        assert!(glossary.explain("  npf  27\n").is_empty());
    }

    #[test]
    fn a_word_inside_another_is_not_that_word() {
        let mut glossary = Glossary::default();
        assert!(glossary.explain("interrupts radio nonpf io_apic").is_empty());
        assert_eq!(glossary.explain("an io exit").len(), 1);
    }
}
