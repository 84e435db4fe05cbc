//! Vendors' names in the processor's rooms that are the same for both: each is a place where a
//! third would have to be added. The seam is not counted: it is there to list them.

use super::source::File;
use super::token::tokens;

const ROOMS: &str = "machine/cpu/src/";
/// What is a vendor's own.
const OWN: [&str; 6] = ["svm/", "svm.rs", "vmx/", "vmx.rs", "system/amd/", "system/intel/"];
/// The seam, where each vendor has its line: what runs, the registers of each, what is asked of
/// each, and what the manuals of each leave open.
const SEAM: [&str; 4] =
    ["guest/running.rs", "guest/state.rs", "guest/dispatch.rs", "variant/behaviour.rs"];
const NAMES: [&str; 4] = ["svm", "vmx", "amd", "intel"];

/// Lines of code outside the vendors' own rooms that name one.
pub fn lines(files: &[File]) -> usize {
    files.iter().map(in_file).sum()
}

fn in_file(file: &File) -> usize {
    let Some(path) = file.path.strip_prefix(ROOMS) else { return 0 };
    if OWN.iter().any(|own| path.starts_with(own))
        || SEAM.contains(&path)
        || path.split(['/', '.']).any(|part| part == "tests")
    {
        return 0;
    }
    let named = tokens(&file.text).into_iter().filter(|token| token.is_word() && names(token.text));
    let mut lines: Vec<usize> = named.map(|token| token.line).collect();
    lines.dedup();
    lines.len()
}

/// Whether a part of the word is a vendor's name: `is_amd`, `Vmx`, but not `svmx`.
fn names(word: &str) -> bool {
    let parts = word.split('_').flat_map(|part| {
        let starts = part.char_indices().filter(|(at, c)| *at > 0 && c.is_uppercase());
        let first = starts.map(|(at, _)| at).next().unwrap_or(part.len());
        [part, &part[..first]]
    });
    let mut parts = parts.map(str::to_lowercase);
    parts.any(|part| NAMES.contains(&part.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source::file;

    #[test]
    fn lines_of_code_that_name_a_vendor_count_once() {
        for (path, text, expected) in [
            ("machine/cpu/src/a.rs", "if self.is_amd() { Vendor::Amd }\nlet x = VmxState;\n", 2),
            ("machine/cpu/src/a.rs", "// amd\nlet x = \"intel\"; let svmx = damd;\n", 0),
            ("machine/cpu/src/a.rs", "#[cfg(test)]\nmod tests { use crate::svm; }\n", 0),
            ("machine/cpu/src/svm/a.rs", "svm::f();\n", 0),
            ("machine/cpu/src/guest/running.rs", "Svm(Box<svm::Guest>),\n", 0),
            ("machine/cpu/src/guest/pause.rs", "svm::f();\n", 1),
            ("machine/board/src/a.rs", "svm::f();\n", 0),
        ] {
            assert_eq!(lines(&[file(path, text)]), expected, "{path}: {text}");
        }
    }
}
