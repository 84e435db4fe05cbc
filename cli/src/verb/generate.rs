//! `avicenna generate`: man pages and shell completions, from the definitions the verbs themselves
//! use.

mod manual;

use anyhow::Context;
use clap_complete::Shell;
use clap_mangen::Man;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Write a man page for each verb
    Man {
        /// Where to write them; created if absent
        folder: PathBuf,
    },
    /// Write the schemas of every JSON form and of plan files, a file each
    Schemas {
        /// Where to write them; created if absent
        folder: PathBuf,
    },
    /// Print completions for a shell
    Completions { shell: Shell },
}

pub fn run(arguments: Arguments, mut command: clap::Command) -> anyhow::Result<ExitCode> {
    match arguments.what {
        What::Man { folder } => {
            fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
            command = command.disable_help_subcommand(true);
            command.build();
            pages(&command, &folder)?;
        }
        What::Schemas { folder } => {
            fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
            for (name, text) in report::schema::ALL {
                change::Output::write(&folder.join(name), text.as_bytes(), change::Like::Umask)?;
            }
        }
        What::Completions { shell } => {
            let mut text = vec![];
            clap_complete::generate(shell, &mut command, "avicenna", &mut text);
            crate::terminal::print(&String::from_utf8_lossy(&text));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The page of a verb and those of its own verbs.
fn pages(command: &clap::Command, folder: &Path) -> anyhow::Result<()> {
    let visible = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    for verb in visible.filter(|verb| verb.get_name() != "help") {
        pages(verb, folder)?;
    }
    let path = folder.join(Man::new(command.clone()).get_filename());
    let page = page(command).with_context(|| path.display().to_string())?;
    change::Output::write(&path, &page, change::Like::Umask)?;
    Ok(())
}

/// What a verb is for, examples first, then its options.
fn page(command: &clap::Command) -> anyhow::Result<Vec<u8>> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let man = Man::new(command.clone())
        .source(format!("avicenna {}", env!("CARGO_PKG_VERSION")))
        .manual("User Commands");
    let (is_first, has_verbs) = (name == "avicenna", command.has_subcommands());
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    if is_first {
        page.extend(section("DESCRIPTION", &paragraphs(manual::DESCRIPTION)).into_bytes());
    } else {
        man.render_description_section(&mut page)?;
    }
    if has_verbs {
        man.render_subcommands_section(&mut page)?;
    }
    let examples = manual::examples(&name);
    if !examples.is_empty() {
        let text: String = examples.iter().map(example).collect();
        page.extend(section("EXAMPLES", &text).into_bytes());
    }
    man.render_options_section(&mut page)?;
    if command.get_after_help().is_some() || command.get_after_long_help().is_some() {
        man.render_extra_section(&mut page)?;
    }
    if is_first {
        page.extend(section("EXIT STATUS", &definitions(&manual::STATUSES)).into_bytes());
        page.extend(section("FILES", &definitions(&manual::FILES)).into_bytes());
    }
    page.extend(section("SEE ALSO", &beside(command, &name)).into_bytes());
    Ok(page)
}

fn section(title: &str, text: &str) -> String {
    format!(".SH \"{title}\"\n{text}")
}

fn paragraphs(text: &str) -> String {
    text.split("\n\n").map(|paragraph| format!(".PP\n{}\n", roff(paragraph))).collect()
}

fn example((what, command): &manual::Example) -> String {
    format!(".PP\n{}\n.PP\n.RS 4\n.nf\n\\fB{}\\fR\n.fi\n.RE\n", roff(what), roff(command))
}

fn definitions(lines: &[(&str, &str)]) -> String {
    let line =
        |(term, what): &(&str, &str)| format!(".TP\n\\fB{}\\fR\n{}\n", roff(term), roff(what));
    lines.iter().map(line).collect()
}

/// The pages of a verb's own verbs, or the one above.
fn beside(command: &clap::Command, name: &str) -> String {
    let mut pages: Vec<String> = command
        .get_subcommands()
        .filter(|verb| !verb.is_hide_set() && verb.get_name() != "help")
        .map(|verb| format!("{name}-{}", verb.get_name()))
        .collect();
    if let Some((above, _)) = name.rsplit_once('-') {
        pages.push(above.to_owned());
    }
    let mut text = String::new();
    for (index, page) in pages.iter().enumerate() {
        let comma = if index + 1 < pages.len() { "," } else { "" };
        let _ = writeln!(text, ".BR {} (1){comma}", roff(page));
    }
    text
}

/// Text that means itself to the formatter: minus signs that can be pasted, no commands.
fn roff(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    let guarded = |line: &str| match line.chars().next() {
        Some('.' | '\'') => format!("\\&{line}"),
        _ => line.to_owned(),
    };
    text.lines().map(guarded).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory as _, Parser as _};

    fn names(command: &clap::Command, names: &mut Vec<String>) {
        names.push(command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned());
        command.get_subcommands().for_each(|verb| self::names(verb, names));
    }

    #[test]
    fn every_example_is_what_the_verbs_accept() {
        let mut command = crate::Arguments::command();
        command.build();
        let mut all = Vec::new();
        names(&command, &mut all);
        let mut tried = 0;
        for page in all {
            for (_, example) in manual::examples(&page) {
                let words = example.split(' ');
                if let Err(error) = crate::Arguments::try_parse_from(words) {
                    panic!("{page}: {example}: {error}");
                }
                tried += 1;
            }
        }
        assert!(tried > 20, "{tried}");
    }

    #[test]
    fn text_means_itself() {
        assert_eq!(roff(".x -a\n'b\\c"), "\\&.x \\-a\n\\&'b\\ec");
    }

    #[test]
    fn a_page_has_its_examples_before_its_options() {
        let mut command = crate::Arguments::command();
        command.build();
        let report = command
            .find_subcommand("exits")
            .and_then(|exits| exits.find_subcommand("report"))
            .expect("it is there");
        let page = String::from_utf8(page(report).expect("memory")).expect("text");
        let place = |what: &str| page.find(what).unwrap_or_else(|| panic!("no {what} in {page}"));
        assert!(place("EXAMPLES") < place(".SH OPTIONS"));
        assert!(place(".TH avicenna-exits-report 1") < place("NAME"));
        assert!(place(".BR avicenna\\-exits (1)") > place(".SH OPTIONS"));
    }
}
