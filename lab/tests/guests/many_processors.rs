//! The benchmark where APIC identifiers do not fit into eight bits: firmware and guest use x2APIC
//! mode.

use board::Outcome;

#[test]
fn the_benchmark_runs_on_more_processors_than_xapic_mode_can_address() {
    for cpus in [256, 300] {
        let options = "output=memory tests=ipi,throughput fence=off samples=10 messages=2";
        let (outcome, text) = crate::run(crate::model("zen4"), cpus, image::BENCHMARK, options);
        assert_eq!(outcome, Some(Outcome::DebugExit(0)), "{cpus}: {text}");
        assert!(text.contains(&format!("\"cpus\":{cpus}")), "{text}");
        assert!(text.contains("ipi_all_to_one"), "{text}");
    }
}
