//! What users write for the machine and its experiments: plans, CPU models, costs and changes of
//! models; the first byte chooses.
#![no_main]

use board::cost::CostProfile;
use cpu::CpuModel;
use experiment::plan::Plan;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    match first % 4 {
        0 => {
            if let Ok(plan) = Plan::read(text, "fuzz") {
                for is_lab in [false, true] {
                    let _ = plan.questions(is_lab);
                }
                let _ = plan.hash();
            }
        }
        1 => {
            if let Ok(model) = CpuModel::parse(text) {
                let _ = (model.signature(), model.core_hertz());
            }
        }
        2 => {
            if let Ok(costs) = CostProfile::parse("fuzz", text) {
                // What is written is read again.
                let again = CostProfile::parse("fuzz", &costs.to_toml());
                assert!(again.is_ok(), "{:?}", again.err());
            }
        }
        _ => {
            let _ = CpuModel::named("zen4").and_then(|model| model.with_changes(text));
        }
    }
});
