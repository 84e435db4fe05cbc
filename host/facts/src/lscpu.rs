//! `lscpu -J`: the same fields as plain lscpu, as JSON.

use serde_json::Value;

/// Deepest nesting of fields that is followed; lscpu has three.
const DEPTH_LIMIT: usize = 8;

/// Whether a text is what `lscpu -J` prints.
pub fn is_json(text: &str) -> bool {
    text.trim_start().starts_with('{') && text.contains("\"lscpu\"") && text.contains("\"field\"")
}

/// The lines that plain lscpu prints; a text that is none is given back as it is.
pub fn plain(text: &str) -> String {
    if !is_json(text) {
        return text.to_owned();
    }
    let Ok(value) = serde_json::from_str::<Value>(text) else { return text.to_owned() };
    let mut lines = String::new();
    fields(value.get("lscpu").unwrap_or(&Value::Null), 0, &mut lines);
    lines
}

fn fields(list: &Value, depth: usize, lines: &mut String) {
    for field in list.as_array().into_iter().flatten() {
        let text = |key: &str| field.get(key).and_then(Value::as_str).unwrap_or_default();
        let name = text("field").trim_end_matches(':');
        lines.push_str(&format!("{name}: {}\n", text("data")));
        if let Some(children) = field.get("children").filter(|_| depth < DEPTH_LIMIT) {
            fields(children, depth + 1, lines);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_fields_become_lines_and_damage_stays_text() {
        let json = r#"{"lscpu":[{"field":"Vendor ID:","data":"AuthenticAMD","children":[
            {"field":"Model name:","data":"X","children":[{"field":"Flags:","data":"svm avic"}]}]}]}"#;
        assert_eq!(plain(json), "Vendor ID: AuthenticAMD\nModel name: X\nFlags: svm avic\n");
        let damaged = r#"{"lscpu":[{"field":"#;
        assert_eq!(plain(damaged), damaged);
        assert_eq!(plain("Vendor ID: X"), "Vendor ID: X");
    }
}
