//! How what was looked at is printed: for readers, and as docs/schema/inspect-1.json.

use board::inspection::{Row, Sheet};
use serde::Serialize;

/// Version of the published form.
pub const SCHEMA: u32 = 1;

/// What was looked at.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Inspected {
    /// [`SCHEMA`], the version of this form.
    pub schema: u32,
    /// One after the other.
    pub sheets: Vec<Shown>,
}

/// A register file, a table or a control block.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Shown {
    /// What it is.
    pub title: String,
    /// Whose, if a processor's.
    pub cpu: Option<u16>,
    /// Where it lies in system physical memory, as 0x and hexadecimal digits.
    pub address: Option<String>,
    /// Document and title of the manual's section.
    pub section: String,
    /// Its fields, in the manual's order.
    pub fields: Vec<Field>,
}

/// A field.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Field {
    /// Its offset, encoding or number, in the manual's form.
    pub place: Option<String>,
    /// The manual's name.
    pub name: String,
    /// Its bits, as 0x and hexadecimal digits; none where it is not a number.
    pub value: Option<String>,
    /// Its parts that are not zero, for readers.
    pub meaning: Option<String>,
    /// Document and title of the manual's section.
    pub section: String,
}

impl Inspected {
    pub fn of(sheets: &[Sheet]) -> Self {
        Self { schema: SCHEMA, sheets: sheets.iter().map(shown).collect() }
    }
}

fn shown(sheet: &Sheet) -> Shown {
    Shown {
        title: sheet.title.clone(),
        cpu: sheet.cpu.map(|cpu| cpu.0),
        address: sheet.address.map(|address| format!("{:#x}", address.0)),
        section: sheet.section.into(),
        fields: sheet.rows.iter().map(field).collect(),
    }
}

fn field(row: &Row) -> Field {
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    Field {
        place: some(&row.place),
        name: row.name.clone(),
        value: number(row),
        meaning: some(&row.meaning),
        section: row.section.into(),
    }
}

/// With as many digits as the field has.
fn number(row: &Row) -> Option<String> {
    row.value.map(|value| format!("0x{value:0width$x}", width = row.digits))
}

/// For readers. A section stands with the title, and with fields that have another.
pub fn text(sheets: &[Sheet]) -> String {
    let mut text = String::new();
    for sheet in sheets {
        let cpu = sheet.cpu.map(|cpu| format!(", processor {cpu}")).unwrap_or_default();
        let at = sheet.address.map(|address| format!(", at {address}")).unwrap_or_default();
        text += &format!("{}{cpu}{at}  [{}]\n", sheet.title, sheet.section);
        let widest = |of: fn(&Row) -> usize| sheet.rows.iter().map(of).max().unwrap_or(0);
        let place = widest(|row| row.place.len());
        let name = widest(|row| row.name.len());
        let value = widest(|row| number(row).map_or(0, |text| text.len()));
        for row in &sheet.rows {
            let number = number(row).unwrap_or_default();
            let mut line = format!("  {:place$}  {:name$}  {number:value$}", row.place, row.name);
            if !row.meaning.is_empty() {
                line += &format!("  {}", row.meaning);
            }
            if row.section != sheet.section {
                line += &format!("  [{}]", row.section);
            }
            text += &(line.trim_end().to_owned() + "\n");
        }
    }
    text
}

/// As JSON, on one line.
pub fn json(sheets: &[Sheet]) -> String {
    serde_json::json!(Inspected::of(sheets)).to_string() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use arch::address::SystemPhysical;
    use arch::identity::CpuIndex;

    fn sheet() -> Sheet {
        let row = |name: &str, value, meaning: &str, section| Row {
            place: "060h".into(),
            name: name.into(),
            value,
            digits: 4,
            meaning: meaning.into(),
            section,
        };
        Sheet {
            title: "VMCB".into(),
            cpu: Some(CpuIndex(1)),
            address: Some(SystemPhysical(0x5000)),
            section: "APM2 \"A\"",
            rows: vec![
                row("FIRST", Some(0x2F), "", "APM2 \"A\""),
                row("SECOND", None, "0x20", "APM2 \"B\""),
            ],
        }
    }

    #[test]
    fn readers_see_a_line_a_field_and_each_section_once() {
        assert_eq!(
            text(&[sheet()]),
            "VMCB, processor 1, at 0x5000  [APM2 \"A\"]\n  \
             060h  FIRST   0x002f\n  \
             060h  SECOND          0x20  [APM2 \"B\"]\n"
        );
    }

    #[test]
    fn the_published_schema_is_that_of_the_json() {
        let schema = schema::of::<Inspected>("avicenna machine inspect --format json", SCHEMA);
        schema::assert_published("inspect-1.json", &schema);
        let value: serde_json::Value = serde_json::from_str(&json(&[sheet()])).expect("JSON");
        schema::assert_follows(&value, &schema, "inspected");
        assert_eq!(value["sheets"][0]["fields"][0]["value"], "0x002f");
        assert_eq!(value["sheets"][0]["fields"][1]["section"], "APM2 \"B\"");
    }
}
