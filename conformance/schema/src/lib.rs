//! Whether a value follows a schema of `docs/schema`, for the tests of whatever prints JSON.
//!
//! As much of JSON Schema (2020-12) as those schemas use: `$ref` into `$defs`, `oneOf`, `const`,
//! `enum`, `type`, `required`, `properties`, `additionalProperties`, `items`, `prefixItems`.

#![warn(missing_docs)]

use serde_json::Value;

/// Reads a schema of `docs/schema` by its file's name.
pub fn published(name: &str) -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schema");
    let path = std::path::Path::new(path).join(name);
    let text = std::fs::read_to_string(&path);
    let text = text.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Panics with the first place where a value does not follow a schema.
pub fn assert_follows(value: &Value, schema: &Value, what: &str) {
    if let Some(fault) = fault(value, schema) {
        panic!("{what}: {fault}");
    }
}

/// The first place where a value does not follow a schema.
pub fn fault(value: &Value, schema: &Value) -> Option<String> {
    Checker { root: schema }.fault(value, schema, "$")
}

struct Checker<'a> {
    root: &'a Value,
}

impl Checker<'_> {
    fn fault(&self, value: &Value, schema: &Value, place: &str) -> Option<String> {
        if let Some(reference) = schema["$ref"].as_str() {
            let target = self.root.pointer(reference.trim_start_matches('#'));
            let Some(target) = target else { return Some(format!("{reference} is not defined")) };
            return self.fault(value, target, place);
        }
        if let Some(options) = schema["oneOf"].as_array() {
            let fits = options.iter().filter(|one| self.fault(value, one, place).is_none());
            return (fits.count() != 1)
                .then(|| format!("{place} is none or several of its kinds: {value}"));
        }
        if schema.get("const").is_some_and(|expected| expected != value) {
            return Some(format!("{place} is {value}, not {}", schema["const"]));
        }
        if schema["enum"].as_array().is_some_and(|allowed| !allowed.contains(value)) {
            return Some(format!("{place} is {value}, none of {}", schema["enum"]));
        }
        type_fault(value, &schema["type"], place)
            .or_else(|| self.member_fault(value, schema, place))
            .or_else(|| self.item_fault(value, schema, place))
    }

    fn member_fault(&self, value: &Value, schema: &Value, place: &str) -> Option<String> {
        let members = value.as_object()?;
        let required = schema["required"].as_array().into_iter().flatten();
        if let Some(name) =
            required.filter_map(Value::as_str).find(|name| !members.contains_key(*name))
        {
            return Some(format!("{place} lacks {name}"));
        }
        let known = schema["properties"].as_object()?;
        let is_closed = schema["additionalProperties"] == false;
        members.iter().find_map(|(name, member)| match known.get(name) {
            Some(schema) => self.fault(member, schema, &format!("{place}.{name}")),
            None => is_closed.then(|| format!("{place}.{name} is not published")),
        })
    }

    fn item_fault(&self, value: &Value, schema: &Value, place: &str) -> Option<String> {
        let list = value.as_array()?;
        let at = |n: usize| format!("{place}[{n}]");
        if let Some(schemas) = schema["prefixItems"].as_array() {
            if list.len() != schemas.len() {
                return Some(format!("{place} has {} items", list.len()));
            }
            let mut pairs = list.iter().zip(schemas).enumerate();
            return pairs.find_map(|(n, (item, schema))| self.fault(item, schema, &at(n)));
        }
        let schema = schema.get("items")?;
        list.iter().enumerate().find_map(|(n, item)| self.fault(item, schema, &at(n)))
    }
}

fn type_fault(value: &Value, types: &Value, place: &str) -> Option<String> {
    let types: Vec<&Value> = match types {
        Value::Array(types) => types.iter().collect(),
        Value::Null => return None,
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
    (!types.iter().any(is)).then(|| format!("{place} is {value}, no {types:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_value_follows_or_the_place_of_its_fault_is_named() {
        let schema = json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["kind"],
            "properties": {
                "kind": { "enum": ["a", "b"] },
                "rows": { "type": "array", "items": { "$ref": "#/$defs/row" } },
                "more": { "type": "object", "properties": {} },
                "either": { "oneOf": [{ "type": "null" }, { "const": 1 }] },
            },
            "$defs": { "row": { "prefixItems": [{ "type": "integer" }, { "type": ["string", "null"] }] } },
        });
        let rows = [
            (json!({ "kind": "a", "rows": [[1, "x"], [2, null]], "either": null }), None),
            (json!({ "kind": "b", "more": { "any": 1 }, "either": 1 }), None),
            (json!({}), Some("$ lacks kind")),
            (json!({ "kind": "c" }), Some("$.kind is \"c\"")),
            (json!({ "kind": "a", "new": 1 }), Some("$.new is not published")),
            (json!({ "kind": "a", "rows": [[1, "x"], [2.5, "y"]] }), Some("$.rows[1][0] is 2.5")),
            (json!({ "kind": "a", "rows": [[1]] }), Some("$.rows[0] has 1 items")),
            (json!({ "kind": "a", "either": 2 }), Some("$.either is none or several")),
            (json!([]), Some("$ is [], no")),
        ];
        for (value, expected) in rows {
            match (fault(&value, &schema), expected) {
                (None, None) => {}
                (Some(fault), Some(expected)) => assert!(fault.starts_with(expected), "{fault}"),
                (found, _) => panic!("{value}: {found:?} instead of {expected:?}"),
            }
        }
        assert!(fault(&json!(1), &json!({ "$ref": "#/$defs/gone" })).is_some());
    }
}
