//! Whether a value follows a published schema, as far as these schemas' words go.

use serde_json::Value;

/// The first place where a value does not follow a schema.
pub fn fault(value: &Value, schema: &Value, root: &Value, place: &str) -> Option<String> {
    if let Some(reference) = schema["$ref"].as_str() {
        let target = root.pointer(reference.trim_start_matches('#')).expect("it is defined");
        return fault(value, target, root, place);
    }
    if let Some(options) = schema["oneOf"].as_array() {
        let fits = options.iter().filter(|option| fault(value, option, root, place).is_none());
        return (fits.count() != 1).then(|| format!("{place} is none or several of its kinds"));
    }
    if schema.get("const").is_some_and(|expected| expected != value) {
        return Some(format!("{place} is {value}"));
    }
    if schema["enum"].as_array().is_some_and(|allowed| !allowed.contains(value)) {
        return Some(format!("{place} is {value}"));
    }
    let types: Vec<&Value> = match &schema["type"] {
        Value::Array(types) => types.iter().collect(),
        Value::Null => Vec::new(),
        one => vec![one],
    };
    let is = |name: &&Value| match name.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_u64() || value.is_i64(),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        Some("null") => value.is_null(),
        _ => false,
    };
    if !types.is_empty() && !types.iter().any(is) {
        return Some(format!("{place} is {value}, no {types:?}"));
    }
    if let (Some(members), Some(known)) = (value.as_object(), schema["properties"].as_object()) {
        for name in schema["required"].as_array().into_iter().flatten() {
            let name = name.as_str().expect("names are strings");
            if !members.contains_key(name) {
                return Some(format!("{place} lacks {name}"));
            }
        }
        for (name, member) in members {
            let Some(schema) = known.get(name) else {
                return Some(format!("{place}.{name} is not published"));
            };
            if let Some(fault) = fault(member, schema, root, &format!("{place}.{name}")) {
                return Some(fault);
            }
        }
    }
    let list = value.as_array()?;
    if let Some(items) = schema["prefixItems"].as_array() {
        if list.len() != items.len() {
            return Some(format!("{place} has {} items", list.len()));
        }
        let mut pairs = list.iter().zip(items).enumerate();
        return pairs
            .find_map(|(n, (item, schema))| fault(item, schema, root, &format!("{place}[{n}]")));
    }
    let items = schema.get("items")?;
    let mut numbered = list.iter().enumerate();
    numbered.find_map(|(n, item)| fault(item, items, root, &format!("{place}[{n}]")))
}
