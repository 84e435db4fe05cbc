//! The reference hypervisor on Intel's servers: the same guest and the same records as on AMD's, by
//! software injection and by APICv with posted interrupts and IPI virtualization.

use board::Outcome;

/// The records of the benchmark as its guest.
fn run(model: &str, options: &str) -> String {
    let command_line = format!(
        "output=memory guest.output=memory guest.samples=10 guest.messages=10 guest.warmup=2 \
         guest.fence=off {options}"
    );
    let (outcome, text) = crate::run(crate::model(model), 2, image::HYPERVISOR, &command_line);
    assert_eq!(outcome, Some(Outcome::DebugExit(0)), "{model} {options}: {text}");
    text
}

/// Exits of the guest for writes of its APIC's registers, with APICv.
fn register_writes(text: &str) -> u64 {
    let mut sum = 0;
    for reason in ["msr_write", "apic_write", "apic_access"] {
        let row =
            format!("\"record\":\"exit\",\"feature\":\"on\",\"reason\":\"{reason}\",\"count\":");
        if let Some((_, rest)) = text.split_once(&row) {
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            sum += digits.parse::<u64>().expect("a count");
        }
    }
    sum
}

#[test]
fn guests_pass_with_and_without_apicv_on_every_intel_server_with_processors_to_share() {
    for model in ["ivy-bridge-ep", "haswell-ep", "skylake-sp", "ice-lake-sp", "sapphire-rapids"] {
        for options in ["guest.apic=x2apic vcpus=2", "guest.apic=xapic guest.tests=ipi vcpus=3"] {
            let text = run(model, options);
            for feature in ["off", "on"] {
                let passed = format!(
                    "\"feature\":\"{feature}\",\"output\":{{\"record\":\"end\",\"passed\":true"
                );
                assert!(text.contains(&passed), "{model} {options} {feature}: {text}");
            }
            assert!(!text.contains("\"record\":\"lost\""), "{model} {options}: {text}");
        }
    }
}

#[test]
fn ipi_virtualization_sends_without_exits_what_apicv_alone_does_not() {
    let options = "apicv=on guest.apic=x2apic guest.tests=ipi guest.targets=spinning";
    let [without, with] = ["skylake-sp", "sapphire-rapids"].map(|model| {
        let text = run(model, options);
        register_writes(&text)
    });
    assert!(with < without, "{with} exits with, {without} without");
}
