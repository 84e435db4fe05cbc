//! `avicenna generate`: man pages and shell completions, from the definitions the verbs themselves use.

use anyhow::Context;
use clap_complete::Shell;
use std::fs;
use std::path::PathBuf;
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
        /// Where to; it is made if it is not there
        folder: PathBuf,
    },
    /// Print completions for a shell
    Completions { shell: Shell },
}

pub fn run(arguments: Arguments, mut command: clap::Command) -> anyhow::Result<ExitCode> {
    match arguments.what {
        What::Man { folder } => {
            fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
            clap_mangen::generate_to(command, &folder)
                .with_context(|| folder.display().to_string())?;
        }
        What::Completions { shell } => {
            let mut text = vec![];
            clap_complete::generate(shell, &mut command, "avicenna", &mut text);
            crate::terminal::print(&String::from_utf8_lossy(&text))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
