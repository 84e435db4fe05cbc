//! Names of code for what the machine says of it: from a program's own table, or from a list as
//! kernels write it.

use anyhow::Context;
use arch::address::Linear;
use object::{Object, ObjectSymbol, SymbolKind};
use std::path::{Path, PathBuf};
use trace::symbol::Symbols;

/// A kernel with everything that debuggers want has less.
const MOST_BYTES: u64 = 1 << 30;

#[derive(clap::Args)]
// The verbs that take these in have a group of this name.
#[group(skip)]
pub struct Arguments {
    /// Names for addresses of code: a program with symbols (vmlinux, an ELF hypervisor),
    /// System.map, or a copy of /proc/kallsyms; may be repeated
    #[arg(long, value_name = "FILE")]
    symbols: Vec<PathBuf>,
}

impl Arguments {
    /// Those that were named.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.symbols.iter().map(PathBuf::as_path)
    }

    /// Those that were asked for, and else those that `usual` has, if it is a file with some.
    pub fn read(&self, usual: Option<&Path>) -> anyhow::Result<Symbols> {
        let mut symbols = Symbols::default();
        for path in &self.symbols {
            let found = functions(path)?;
            anyhow::ensure!(
                !found.is_empty(),
                "{} names no code: it is stripped, or neither an ELF file nor a list of symbols",
                path.display()
            );
            symbols.extend(found);
        }
        let usual = usual.filter(|path| symbols.is_empty() && path.is_file());
        if let Some(found) = usual.and_then(|path| functions(path).ok()) {
            symbols.extend(found);
        }
        Ok(symbols)
    }
}

/// A text of the machine with names behind the instruction pointers in it.
pub fn annotate(text: &str, symbols: &Symbols) -> String {
    let name = |line: &str| {
        let (_, behind) = line.split_once("rip")?;
        let behind = behind.trim_start_matches(['=', ' ']).trim_start_matches("0x");
        let end = behind.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(behind.len());
        symbols.name(Linear(u64::from_str_radix(&behind[..end], 16).ok()?))
    };
    text.lines().fold(String::new(), |text, line| {
        let name = name(line).map(|name| format!("  <{name}>")).unwrap_or_default();
        text + line + &name + "\n"
    })
}

fn functions(path: &Path) -> anyhow::Result<Vec<(u64, String)>> {
    let name = path.display();
    let bytes = crate::verb::source::file(path, MOST_BYTES, "more than symbols take")?;
    if bytes.starts_with(b"\x7FELF") {
        return of_program(&bytes).with_context(|| format!("cannot read the symbols of {name}"));
    }
    Ok(of_list(&String::from_utf8_lossy(&bytes)))
}

/// Hand-written entry points often have no type, so what has an address in code will do.
fn of_program(bytes: &[u8]) -> object::Result<Vec<(u64, String)>> {
    let file = object::File::parse(bytes)?;
    let is_code = |symbol: &object::Symbol<'_, '_>| {
        let section = symbol.section_index().and_then(|index| file.section_by_index(index).ok());
        let is_text = section.is_some_and(|section| {
            object::ObjectSection::kind(&section) == object::SectionKind::Text
        });
        is_text
            && matches!(symbol.kind(), SymbolKind::Text | SymbolKind::Label | SymbolKind::Unknown)
    };
    let named = file.symbols().filter(is_code).filter_map(|symbol| {
        let name = symbol.name().ok().filter(|name| !name.is_empty())?;
        Some((symbol.address(), name.to_owned()))
    });
    Ok(named.collect())
}

/// `ADDRESS TYPE NAME [MODULE]`, as System.map and /proc/kallsyms have it.
fn of_list(text: &str) -> Vec<(u64, String)> {
    let of_line = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let address = u64::from_str_radix(words.next()?, 16).ok()?;
        let is_code = matches!(words.next()?, "t" | "T" | "w" | "W");
        let name = words.next()?;
        let module = words.next().map(|module| format!(" {module}")).unwrap_or_default();
        (is_code && address != 0).then(|| (address, format!("{name}{module}")))
    };
    text.lines().filter_map(of_line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_symbols_gives_names_to_code_alone() {
        let text = "0000000000000000 A fixed_percpu_data\nffffffff81000000 T _text\n\
                    ffffffff81000040 d not_code\nffffffffc0000010 t svm_vcpu_run\t[kvm_amd]\nnoise\n";
        let mut symbols = Symbols::default();
        symbols.extend(of_list(text));
        let name = |address| symbols.name(Linear(address));
        assert_eq!(name(0xFFFF_FFFF_8100_0044).as_deref(), Some("_text+0x44"));
        assert_eq!(name(0xFFFF_FFFF_C000_0011).as_deref(), Some("svm_vcpu_run [kvm_amd]+0x1"));
        assert_eq!(name(0x1000), None);
    }

    #[test]
    fn instruction_pointers_of_a_text_get_their_names() {
        let mut symbols = Symbols::default();
        symbols.extend([(0xFFFF_8000, "trap".to_owned())]);
        let text =
            "  at rip 0xffff8010\n  rip=00000000ffff8001 cs=0008\n  at rip: eb fc\nrax=ffff8000\n";
        let named = "  at rip 0xffff8010  <trap+0x10>\n  rip=00000000ffff8001 cs=0008  <trap+0x1>\n  \
                     at rip: eb fc\nrax=ffff8000\n";
        assert_eq!(annotate(text, &symbols), named);
    }

    #[test]
    fn a_program_names_its_own_code() {
        let own = std::env::current_exe().expect("this program");
        let found = functions(&own).expect("an ELF file");
        assert!(found.iter().any(|(_, name)| name.contains("a_program_names_its_own_code")));
        assert!(Arguments { symbols: vec!["/dev/null".into()] }.read(None).is_err());
    }
}
