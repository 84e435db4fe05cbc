//! Names for the addresses of code.

use arch::address::Linear;

/// Code behind the last symbol of a table, or behind one that stands alone, is no longer its own.
const LONGEST: u64 = 1 << 20;

/// The functions of one or several programs, by address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Symbols {
    /// Sorted by address, one name for each.
    functions: Vec<(u64, String)>,
}

impl Symbols {
    /// Takes more functions in: where each starts, and what it is called. Of several names of one
    /// address the first that was given stays.
    pub fn extend(&mut self, functions: impl IntoIterator<Item = (u64, String)>) {
        self.functions.extend(functions);
        self.functions.sort_by_key(|(start, _)| *start);
        self.functions.dedup_by_key(|(start, _)| *start);
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// A line for each, as `/proc/kallsyms` has them.
    pub fn to_text(&self) -> String {
        self.functions.iter().map(|(start, name)| format!("{start:016x} t {name}\n")).collect()
    }

    /// `name+0x1f` for an address in a function; `None` where [`Self::find`] is.
    pub fn name(&self, address: Linear) -> Option<String> {
        self.find(address).map(|(name, offset)| format!("{name}+{offset:#x}"))
    }

    /// The function that an address is in, and how many bytes behind its start; `None` before the
    /// first, and a MiB behind the start of any.
    pub fn find(&self, address: Linear) -> Option<(&str, u64)> {
        let next = self.functions.partition_point(|(start, _)| *start <= address.0);
        let (start, name) = self.functions.get(next.checked_sub(1)?)?;
        let offset = address.0 - start;
        (offset < LONGEST).then_some((name, offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_the_name_of_the_function_that_starts_before_it() {
        let mut symbols = Symbols::default();
        let functions = [(0x2000, "second"), (0x1000, "first"), (0x1000, "alias")];
        symbols.extend(functions.map(|(start, name)| (start, name.to_owned())));
        for (address, name) in [
            (0xFFF, None),
            (0x1000, Some("first+0x0")),
            (0x1FFF, Some("first+0xfff")),
            (0x2010, Some("second+0x10")),
            (0x2000 + LONGEST, None),
        ] {
            assert_eq!(symbols.name(Linear(address)).as_deref(), name, "{address:#x}");
        }
        assert_eq!(Symbols::default().name(Linear(0)), None);
    }
}
