//! What a man page says beside its options: examples, exit statuses, files, where to read on.

/// A line of a page: what it does, and the command.
pub type Example = (&'static str, &'static str);

/// Examples of a page; none for verbs that say everything in their options.
pub fn examples(page: &str) -> &'static [Example] {
    match page {
        "avicenna" => &[
            ("Can this host accelerate interrupts, and does it?", "avicenna check"),
            (
                "Is it on for the virtual machine named web, and if not, which line is to be changed?",
                "avicenna why web",
            ),
            ("What would switching it on change here? Nothing is written yet.", "avicenna enable"),
            ("Where do the VM exits of this host go?", "avicenna exits live"),
            (
                "What would all that be worth? Two guests on an emulated host, without any hardware.",
                "avicenna lab run",
            ),
        ],
        "avicenna-check" => &[
            ("This host, every row of the table.", "avicenna check --all"),
            (
                "A host from elsewhere: CPUID text, ACPI tables, a snapshot.",
                "avicenna check cpuid.txt",
            ),
        ],
        "avicenna-why" => &[("The virtual machine named web.", "avicenna why web")],
        "avicenna-lint" => &[
            (
                "A libvirt domain and a script, with what to change.",
                "avicenna lint web.xml start.sh",
            ),
            ("Repair what can be repaired.", "avicenna lint --fix web.xml"),
        ],
        "avicenna-enable" => &[
            ("The plan.", "avicenna enable"),
            ("The plan, carried out and recorded.", "avicenna enable --apply"),
        ],
        "avicenna-rollback" => &[("Take back what enable did.", "avicenna rollback")],
        "avicenna-snapshot" => {
            &[("The raw inputs of this host, redacted.", "avicenna snapshot -o host.tar.zst")]
        }
        "avicenna-exits-report" => &[
            (
                "The table of perf kvm stat, and what hardware would avoid.",
                "avicenna exits report perf.data",
            ),
            (
                "What exits were about, the slowest first.",
                "avicenna exits report --by detail -k p99 perf.data",
            ),
            ("A page with plots.", "avicenna exits report --format html -o exits.html perf.data"),
        ],
        "avicenna-exits-compare" => &[
            (
                "What changed, and whether the recordings show it.",
                "avicenna exits compare off.data on.data",
            ),
            (
                "The same for each request that was served meanwhile.",
                "avicenna exits compare --work 120000,180000 off.data on.data",
            ),
        ],
        "avicenna-exits-record" => &[
            ("Half a minute of this host into exits.json.", "avicenna exits record --duration 30"),
            ("As long as a command runs.", "avicenna exits record -- make -C guest test"),
        ],
        "avicenna-exits-live" => &[
            ("All virtual machines; ? shows the keys.", "avicenna exits live"),
            ("One of them, as lines for a log.", "avicenna exits live --vm web --duration 60"),
        ],
        "avicenna-machine-run" => &[(
            "Boot a kernel on two emulated processors.",
            "avicenna machine run --cpus 2 --kernel vmlinuz --append console=ttyS0",
        )],
        "avicenna-lab-run" => &[
            ("Debian's kernel, its guests with AVIC off and on.", "avicenna lab run"),
            (
                "The hypervisor that comes with the program: nothing is fetched.",
                "avicenna lab run --kernel builtin",
            ),
        ],
        _ => &[],
    }
}

/// Exit statuses of all verbs that answer something.
pub const STATUSES: [(&str, &str); 4] = [
    ("0", "All is well, or done."),
    ("1", "Findings: something is missing, off, or to be changed."),
    ("2", "Wrong usage."),
    (
        "3",
        "Could not tell: something could not be read or decided; what it was is on standard error.",
    ),
];

/// Files of the first page.
pub const FILES: [(&str, &str); 3] = [
    ("~/.cache/avicenna", "Kernels that the lab fetched."),
    (
        "exits.json, exits.trace.zst",
        "What exits record leaves where it is run, and exits report tries.",
    ),
    ("/usr/share/doc/avicenna", "The licences and the changes between versions."),
];

/// The introduction of the first page, before its verbs.
pub const DESCRIPTION: &str = "\
AMD AVIC and x2AVIC, Intel APICv, posted interrupts and IPI virtualization let a processor deliver interrupts to \
a running virtual machine without leaving it. Whether a host does so depends on the processor, the firmware, the \
kernel, module parameters, the virtual machine monitor and each machine's configuration; one line in any of them \
turns it off without a word.

check, why, lint and enable read all of these, say which line it is, and change it. exits shows \
which exits remain and how many of them the hardware would avoid. machine and lab need no such \
hardware: an emulated multiprocessor on which an unchanged kernel runs its KVM with the feature off and on. \
Nothing but enable --apply, rollback and lint --fix changes anything on a host.";
