//! Events as rows of one table, which is what programs that ask questions want.

use super::Event;
use crate::exit_reason::Isa;
use crate::word::Shown;

/// A field as exports have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number, an address, or 0 and 1 for no and yes.
    Number(u64),
    /// One of the manual's names.
    Name(String),
}

/// A field of one kind of event or of several, as a column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// The field's name.
    pub name: &'static str,
    /// Whether its values are names, not numbers.
    pub is_named: bool,
}

impl Event {
    /// The fields of all kinds, each once.
    pub fn columns() -> Vec<Column> {
        let mut columns: Vec<Column> = Vec::new();
        for (kind, ..) in Self::KINDS {
            for column in Self::columns_of(*kind) {
                if !columns.iter().any(|known| known.name == column.name) {
                    columns.push(column);
                }
            }
        }
        columns
    }

    /// Calls `visit` with each field's name and value, in the order of [`Event::columns_of`].
    pub fn values(&self, mut visit: impl FnMut(&'static str, Value)) {
        self.fields(|name, word| {
            visit(
                name,
                match word.is_named() {
                    true => Value::Name(Shown(word).to_string()),
                    false => Value::Number(word.word()),
                },
            );
        });
    }

    /// What kernels call the reason of an exit; `None` for other events, and for reasons that have
    /// no name.
    pub fn exit_name(&self) -> Option<&'static str> {
        match self {
            Self::SvmExit { code, .. } => Isa::Svm.reason_name(code.into_bits() as u32),
            Self::VmxExit { reason, .. } => Isa::Vmx.reason_name(*reason),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::virtual_cpu::VirtualCpu;
    use arch::address::{Linear, SystemPhysical};
    use arch::svm::exit::ExitCode;

    #[test]
    fn a_field_of_several_kinds_is_a_number_in_all_of_them_or_a_name() {
        let columns = Event::columns();
        for (kind, label, names) in Event::KINDS {
            let own = Event::columns_of(*kind);
            assert_eq!(own.iter().map(|one| one.name).collect::<Vec<_>>(), *names, "{label}");
            assert!(own.iter().all(|one| columns.contains(one)), "{label}: {own:?}");
        }
        assert!(Event::columns_of(0).is_empty());
    }

    #[test]
    fn values_are_names_where_columns_say_so_and_exits_have_their_reason() {
        let vcpu = VirtualCpu(SystemPhysical(0x1000));
        let (info1, info2, interrupt_info) = (1, 0, 0);
        let code = ExitCode::from_bits(0x7C);
        let event =
            Event::SvmExit { vcpu, code, info1, info2, interrupt_info, rip: Linear(0x2000) };
        let mut seen = Vec::new();
        event.values(|name, value| seen.push((name, value)));
        assert_eq!(seen[0], ("vcpu", Value::Number(0x1000)));
        assert!(matches!(&seen[1], ("code", Value::Name(_))), "{seen:?}");
        assert_eq!(seen[2], ("info1", Value::Number(1)));
        assert_eq!(event.exit_name(), Some("msr"));
        assert_eq!(Event::Wake {}.exit_name(), None);
    }
}
