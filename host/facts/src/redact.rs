//! What a snapshot shows of a host: the words that rules and readers know, and numbers. Every other
//! word becomes a made-up one, the same for the same word everywhere in a snapshot, so that names
//! still lead from one file to another.
//!
//! What is kept is listed, not what is left out: a name or a secret in a place that nobody thought
//! of is a word that no rule knows. In places that are known to hold secrets, names or serial
//! numbers even known words and numbers go. Made-up words and addresses have the length and form of
//! the old ones, so that lines and columns stay. `avicenna snapshot --show-rules` prints [`RULES`].

mod address;
mod file;
mod place;
mod word;

pub use file::Redactor;

/// A kind of text and what becomes of it.
pub struct Rule {
    /// What it is.
    pub kind: &'static str,
    /// What becomes of it, for readers.
    pub what: &'static str,
}

/// All of them, in the order in which they are explained.
pub const RULES: &[Rule] = &[
    Rule {
        kind: "word",
        what: "stays if the rules, or the grammar it stands in, know it; any other becomes a made-up word of the same \
               length, the same one everywhere in the snapshot: names of machines, hosts, users, files and disks, keys, \
               passwords, tokens",
    },
    Rule {
        kind: "number",
        what: "stays up to six digits (in what the kernel says, up to twenty, and hexadecimal ones); a longer one \
               becomes another of the same length",
    },
    Rule {
        kind: "address",
        what: "UUIDs, MAC addresses in every form, WWNs, GUIDs, IPv4 and IPv6 addresses become others of the same form; \
               PCI addresses, loopback and unspecified addresses stay",
    },
    Rule {
        kind: "secret",
        what: "behind words such as password, secret, token, key, cookie, credential or authorization, as user info of \
               URLs, in SMBIOS strings and <value>, every word and number is replaced, known or not",
    },
    Rule {
        kind: "name",
        what: "the same behind serial, asset, user, host name, title and description, and in names of machines",
    },
    Rule {
        kind: "line",
        what: "of process lists, virtual machine monitors stay; of kernel logs, lines about interrupts, IOMMUs and KVM; \
               of firmware tables, those of IOMMUs and interrupt controllers; lines above 256 KiB go",
    },
];

#[cfg(test)]
mod tests;
