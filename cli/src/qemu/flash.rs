//! Flash memory of QEMU's machines: firmware's code in unit 0 and its variables in unit 1, as
//! `-drive if=pflash` and `-pflash` name them. Code is only read here.

/// What is in the two units.
#[derive(Clone, Debug, Default)]
pub(super) struct Flash([Option<Unit>; 2]);

#[derive(Clone, Debug)]
struct Unit {
    file: String,
    /// What is written to it goes into the file.
    is_kept: bool,
}

impl Flash {
    /// The file with code.
    pub fn code(&self) -> Option<&str> {
        self.0[0].as_ref().map(|unit| unit.file.as_str())
    }

    /// The file with variables, as `--firmware-variables` takes it.
    pub fn variables(&self, is_snapshot: bool) -> Option<String> {
        let unit = self.0[1].as_ref()?;
        let kept = if unit.is_kept && !is_snapshot { ",write-through" } else { "" };
        Some(format!("{}{kept}", unit.file))
    }

    /// Puts a file into a unit, or into the next one. Answers what has no effect.
    pub fn put(
        &mut self,
        unit: Option<&str>,
        file: &str,
        is_kept: bool,
    ) -> Result<Option<String>, String> {
        let next = usize::from(self.0[0].is_some());
        let unit = match unit {
            None => next,
            Some(text) => text.parse().map_err(|_| format!("unit={text}: must be 0 or 1"))?,
        };
        let place = self.0.get_mut(unit);
        let place = place.ok_or_else(|| format!("unit={unit}: must be 0 or 1"))?;
        if place.is_some() {
            return Err(format!("unit={unit}: there is a file in it"));
        }
        *place = Some(Unit { file: file.to_owned(), is_kept });
        let is_lost = unit == 0 && is_kept;
        Ok(is_lost.then(|| format!("what firmware writes to {file}: readonly=on says so")))
    }
}
