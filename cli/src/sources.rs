//! Every command of the page of published statements is one that the program takes.

use super::Arguments;
use clap::Parser as _;

#[test]
fn commands_of_the_page_of_statements_are_accepted() {
    let page = include_str!("../../docs/sources.md");
    let mut count = 0;
    for part in page.split('`').skip(1).step_by(2).filter(|part| part.starts_with("avicenna ")) {
        let words = part.split('"').enumerate().flat_map(|(at, part)| match at % 2 {
            0 => part.split_whitespace().map(str::to_owned).collect(),
            _ => vec![part.to_owned()],
        });
        if let Err(error) = Arguments::try_parse_from(words) {
            panic!("{part}: {error}");
        }
        count += 1;
    }
    assert!(count > 40, "{count} commands");
}
