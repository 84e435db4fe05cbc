//! The `format` file of a tracepoint: which field lies where, and how the kernel prints it.

/// One field of a tracepoint's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The kernel's name for it.
    pub name: String,
    /// Bytes from the record's start.
    pub offset: usize,
    /// Bytes that it takes.
    pub size: usize,
    /// Whether its number has a sign.
    pub is_signed: bool,
}

/// A tracepoint as the recording kernel describes it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct EventFormat {
    /// The tracepoint's system, such as `kvm`.
    pub system: String,
    /// The tracepoint's name, without its system.
    pub name: String,
    /// The number that its records carry.
    pub id: u32,
    /// What a record holds, those common to all events first.
    pub fields: Vec<Field>,
    /// How the kernel prints it, from which tables of names are read.
    pub print_format: String,
}

/// More fields than any tracepoint has.
const MOST_FIELDS: usize = 256;

impl EventFormat {
    /// Reads the text; `None` if it has no number or no name.
    pub fn parse(system: &str, text: &str) -> Option<Self> {
        let mut format = Self { system: system.to_owned(), ..Self::default() };
        let mut has_id = false;
        for line in text.lines() {
            let line = line.trim();
            if let Some(name) = line.strip_prefix("name:") {
                format.name = name.trim().to_owned();
            } else if let Some(id) = line.strip_prefix("ID:") {
                format.id = id.trim().parse().ok()?;
                has_id = true;
            } else if line.starts_with("field:") && format.fields.len() < MOST_FIELDS {
                format.fields.extend(parse_field(line));
            } else if let Some(print) = line.strip_prefix("print fmt:") {
                format.print_format = print.trim().to_owned();
            }
        }
        (has_id && !format.name.is_empty()).then_some(format)
    }

    /// Length of a record without what some have at its end: of a structure of these fields, as the
    /// compiler pads it.
    pub fn bytes(&self) -> usize {
        let end = self.fields.iter().map(|field| field.offset + field.size).max().unwrap_or(0);
        let numbers = self.fields.iter().map(|field| field.size).filter(|size| *size <= 8);
        end.next_multiple_of(numbers.filter(|size| size.is_power_of_two()).max().unwrap_or(1))
    }

    /// The field with this name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

/// `field:unsigned int vcpu_id; offset:8; size:4; signed:0;`, with tabs between the parts.
fn parse_field(line: &str) -> Option<Field> {
    let mut parts = line.split(';').map(str::trim);
    let declaration = parts.next()?.strip_prefix("field:")?.trim();
    let name = declaration.rsplit([' ', '\t', '*']).next()?;
    let name = name.split('[').next()?;
    let mut field = Field { name: name.to_owned(), offset: usize::MAX, size: 0, is_signed: false };
    for part in parts {
        match part.split_once(':') {
            Some(("offset", value)) => field.offset = value.trim().parse().ok()?,
            Some(("size", value)) => field.size = value.trim().parse().ok()?,
            Some(("signed", value)) => field.is_signed = value.trim() == "1",
            _ => {}
        }
    }
    (field.offset < 1 << 16 && field.size < 1 << 16 && !field.name.is_empty()).then_some(field)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_file_gives_name_number_and_fields() {
        let text = "name: kvm_entry\nID: 1428\nformat:\n\
            \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
            \tfield:unsigned int vcpu_id;\toffset:8;\tsize:4;\tsigned:0;\n\
            \tfield:__u8 value[16];\toffset:16;\tsize:16;\tsigned:0;\n\n\
            print fmt: \"vcpu %u\", REC->vcpu_id\n";
        let format = EventFormat::parse("kvm", text).expect("it is well formed");
        assert_eq!((format.name.as_str(), format.id), ("kvm_entry", 1428));
        let field = format.field("vcpu_id").expect("it is there");
        assert_eq!((field.offset, field.size, field.is_signed), (8, 4, false));
        assert_eq!(format.field("value").map(|field| field.size), Some(16));
        assert_eq!(format.print_format, "\"vcpu %u\", REC->vcpu_id");
    }

    #[test]
    fn damaged_formats_are_refused_not_guessed() {
        for text in ["", "ID: 3\n", "name: x\n", "name: x\nID: many\n"] {
            assert_eq!(EventFormat::parse("kvm", text), None, "{text:?}");
        }
        let text = "name: x\nID: 1\n\tfield:int a;\toffset:-1;\tsize:4;\n\tfield:int b;\n";
        assert_eq!(EventFormat::parse("kvm", text).expect("name and number").fields, []);
    }
}
