//! The page of published statements: every statement has a command or a reason, and the commands
//! marked as run print what the page says.

use std::path::Path;
use std::process::Command;

const PAGE: &str = include_str!("../../docs/sources.md");

/// Statements of each document, in their order.
const STATEMENTS: [usize; 5] = [26, 8, 8, 6, 14];

const STATES: [&str; 4] = ["shown", "partly", "differs", "no"];

struct Row {
    number: String,
    state: String,
    command: String,
    says: String,
}

fn rows() -> Vec<Row> {
    let row = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [number, _, state, command, rest @ ..] = cells.as_slice() else { return None };
        number.starts_with(|first: char| first.is_ascii_digit()).then(|| Row {
            number: (*number).to_owned(),
            state: (*state).to_owned(),
            command: (*command).to_owned(),
            says: rest.join(" | ").trim_end_matches('|').trim().to_owned(),
        })
    };
    PAGE.lines().filter(|line| line.starts_with("| ")).filter_map(row).collect()
}

#[test]
fn every_statement_has_a_command_or_a_reason() {
    let rows = rows();
    let expected = STATEMENTS.iter().enumerate().flat_map(|(document, count)| {
        (1..=*count).map(move |statement| format!("{document}.{statement}"))
    });
    let found: Vec<&str> = rows.iter().map(|row| row.number.as_str()).collect();
    assert_eq!(found, expected.collect::<Vec<_>>());
    for Row { number, state, command, .. } in &rows {
        assert!(STATES.contains(&state.as_str()), "{number}: {state}");
        let has_command = command.starts_with("`avicenna ") && command.ends_with('`');
        let has_command = has_command || scenario(command).is_some_and(|one| is_scenario(&one));
        assert!(has_command || command.starts_with("none: "), "{number}: {command}");
        assert!(has_command || state != "shown", "{number} is shown by nothing");
    }
}

/// Which of `cargo xtask scenario` a command is.
fn scenario(command: &str) -> Option<String> {
    let rest = command.strip_prefix("`cargo xtask scenario ")?.strip_suffix('`')?;
    rest.split_whitespace().next().map(str::to_owned)
}

fn is_scenario(name: &str) -> bool {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../xtask/src/scenario");
    let text = std::fs::read_to_string(folder.join(name.replace('-', "_") + ".rs"));
    text.is_ok_and(|text| text.contains(&format!("name: \"{name}\"")))
}

/// The words of a command as a shell has them.
fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (at, part) in command.trim_matches('`').split('"').enumerate() {
        match at % 2 {
            0 => words.extend(part.split_whitespace().map(str::to_owned)),
            _ => words.push(part.to_owned()),
        }
    }
    words
}

#[test]
fn what_is_run_says_what_the_page_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sources");
    let mut count = 0;
    for Row { number, command, says, .. } in rows() {
        let Some((_, says)) = says.split_once("*run*: `") else { continue };
        let expected = says.split('`').next().unwrap_or_default();
        let output = Command::new(env!("CARGO_BIN_EXE_avicenna"))
            .args(&words(&command)[1..])
            .current_dir(&folder)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let status = output.status.code();
        assert!(matches!(status, Some(0 | 1 | 3)), "{number}: {command}: {output:?}");
        assert!(text.contains(expected), "{number}: {command} lacks {expected:?}:\n{text}");
        count += 1;
    }
    assert!(count >= 20, "{count} commands are run");
}
