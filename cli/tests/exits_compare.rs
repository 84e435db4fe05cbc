//! Published tables of a guest with AVIC off and on: what `exits compare` makes of them.

use std::path::{Path, PathBuf};
use std::process::Command;

fn tables() -> Option<[PathBuf; 2]> {
    let data = std::env::var_os("AVICENNA_DATA").map(PathBuf::from);
    let data = data
        .unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data"))
        .join("perf_kvm_stat");
    let of = |state: &str| data.join(format!("seed_oracle_sysbench_avic_{state}.txt"));
    let tables = [of("off"), of("on")];
    tables.iter().all(|table| table.is_file()).then_some(tables)
}

#[test]
fn avic_takes_95_6_per_cent_of_the_published_exits_away() {
    let Some(tables) = tables() else {
        println!("NOTICE: not compared, set AVICENNA_DATA: the published tables");
        return;
    };
    let output = Command::new(env!("CARGO_BIN_EXE_avicenna"))
        .args(["exits", "compare", "--format", "csv"])
        .args(tables)
        .output()
        .expect("the binary runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    let row = |reason: &str| {
        let line = text.lines().find(|line| line.starts_with(reason));
        let line = line.unwrap_or_else(|| panic!("no {reason} in {text}"));
        line.split(',').map(str::to_owned).collect::<Vec<_>>()
    };
    // Reason, exits without and with AVIC, and the change in per cent.
    for (reason, off, on, change) in [
        ("all exits", 23_718_962, 1_049_506, -95.6),
        ("msr", 10_748_435, 325_980, -97.0),
        ("interrupt", 10_980_413, 720_091, -93.4),
        ("vintr", 1_987_115, 0, -100.0),
    ] {
        let found = row(reason);
        assert!(found.contains(&off.to_string()) && found.contains(&on.to_string()), "{found:?}");
        let numbers = found.iter().filter_map(|word| word.parse::<f64>().ok());
        assert!(numbers.into_iter().any(|n| (n - change).abs() < 0.05), "{found:?}");
    }
}
