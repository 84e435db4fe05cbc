//! The line that closes a run: docs/schema/machine-1.json.

use device::intel_82599::Counters;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::{Display, Formatter, Result};

/// Version of the published form.
pub const SCHEMA: u32 = 1;

/// What a run was.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Closing {
    /// [`SCHEMA`], the version of this form.
    pub schema: u32,
    /// Of all processors together.
    pub instructions: u64,
    /// What the clock of the machine says.
    pub virtual_seconds: f64,
    /// What the clock of the host says.
    pub host_seconds: f64,
    /// Millions of instructions in a second of the host; those before a restored snapshot do not
    /// count.
    pub mips: f64,
    /// Whether the host executed translated code itself.
    pub native: bool,
    /// What was repeated in the interpreter, if it was asked for.
    pub verified: Option<Verified>,
    /// The same for the same image, configuration and seed.
    pub trace_hash: String,
    /// How the machine ended; none if it did not.
    pub outcome: Option<String>,
    /// What crossed the wire of each network function, by its address.
    #[cfg_attr(test, schemars(with = "BTreeMap<String, BTreeMap<String, u64>>"))]
    pub functions: BTreeMap<String, Counters>,
}

/// Entries into translated code that were interpreted as well.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Verified {
    /// All of them.
    pub entries: u64,
    /// Those that were compared.
    pub compared: u64,
    /// Those that cannot be repeated: they touch devices.
    pub unrepeatable: u64,
    /// Those that differ.
    pub disagreements: u64,
}

impl Verified {
    /// Of what was counted.
    pub fn of(counted: &cpu::native::Verified) -> Self {
        Self {
            entries: counted.entries,
            compared: counted.compared,
            unrepeatable: counted.unrepeatable,
            disagreements: counted.disagreements,
        }
    }
}

impl Display for Closing {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let executor = if self.native { "native" } else { "interpreted" };
        write!(
            f,
            "{} instructions, {:.6} s virtual, {:.3} s host, {:.0} MIPS {executor}, hash {}, {}",
            self.instructions,
            self.virtual_seconds,
            self.host_seconds,
            self.mips,
            self.trace_hash,
            self.outcome.as_deref().unwrap_or("not ended"),
        )?;
        let Some(verified) = &self.verified else { return Ok(()) };
        write!(
            f,
            "; {} of {} entries interpreted as well, {} differ",
            verified.compared, verified.entries, verified.disagreements
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_schema_is_that_of_the_line() {
        let schema = schema::of::<Closing>("avicenna machine run --format json", SCHEMA);
        schema::assert_published("machine-1.json", &schema);
        let verified = Verified { entries: 4, compared: 2, unrepeatable: 1, disagreements: 0 };
        let closing = Closing {
            schema: SCHEMA,
            instructions: 1_000,
            virtual_seconds: 0.5,
            host_seconds: 0.25,
            mips: 0.004,
            native: true,
            verified: Some(verified),
            trace_hash: "0011223344556677".into(),
            outcome: None,
            functions: BTreeMap::from([("00:10.1".into(), Counters::default())]),
        };
        schema::assert_follows(&serde_json::json!(closing), &schema, "closing line");
        assert_eq!(
            closing.to_string(),
            "1000 instructions, 0.500000 s virtual, 0.250 s host, 0 MIPS native, hash \
             0011223344556677, not ended; 2 of 4 entries interpreted as well, 0 differ"
        );
    }
}
