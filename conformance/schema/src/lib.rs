//! Whether a value follows a schema of `docs/schema`, for the tests of whatever prints JSON.
//!
//! Those schemas are made from the types that are printed ([`of`]). They are checked by as much of
//! JSON Schema (2020-12) as they use: `$ref` into `$defs`, `oneOf`, `anyOf`, `const`, `enum`,
//! `type`, `required`, `properties`, `additionalProperties`, `unevaluatedProperties`, `items`,
//! `prefixItems`.

#![warn(missing_docs)]

use serde_json::{Value, json};

/// The schema of what is printed as a type, whose member `schema` is the version.
///
/// Objects are closed, so that a test of real output finds members that nobody publishes.
pub fn of<T: schemars::JsonSchema>(title: &str, version: u32) -> Value {
    let mut schema = plain::<T>(title, version);
    schema["properties"]["schema"] = json!({ "const": version });
    schema
}

/// The same of a type that does not hold its version.
pub fn plain<T: schemars::JsonSchema>(title: &str, version: u32) -> Value {
    // What is written: members that may be left out are not required.
    let settings = schemars::generate::SchemaSettings::draft2020_12().for_serialize();
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    close(&mut schema);
    schema["title"] = title.into();
    schema["description"] = format!(
        "Version {version}. Members are added without a new version; none is removed or changes \
         its meaning."
    )
    .into();
    schema
}

/// No member but those that are named, where one object alone names them.
fn close(schema: &mut Value) {
    let mut shared = Vec::new();
    references_beside_members(schema, &mut shared);
    for (name, definition) in schema["$defs"].as_object_mut().into_iter().flatten() {
        if !shared.contains(&format!("#/$defs/{name}")) {
            close_here(definition);
        }
    }
    close_here(schema);
}

fn references_beside_members(schema: &Value, found: &mut Vec<String>) {
    if schema["properties"].is_object() {
        found.extend(schema["$ref"].as_str().map(str::to_owned));
    }
    match schema {
        Value::Object(members) => {
            members.values().for_each(|one| references_beside_members(one, found));
        }
        Value::Array(items) => items.iter().for_each(|one| references_beside_members(one, found)),
        _ => {}
    }
}

fn close_here(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            let is_open = members.get("properties").is_some_and(Value::is_object)
                && members.get("type").is_some_and(|kind| kind == "object")
                && !members.contains_key("additionalProperties")
                && !members.contains_key("$ref");
            // Kinds beside members, as of an enum that is flattened into a struct, are closed
            // together: each alone does not know the others' members.
            let has_kinds = is_open && members.contains_key("oneOf");
            let is_inner = |name: &str| name != "$defs" && !(has_kinds && name == "oneOf");
            let inner = members.iter_mut().filter(|(name, _)| is_inner(name));
            inner.for_each(|(_, member)| close_here(member));
            if is_open {
                let closed =
                    if has_kinds { "unevaluatedProperties" } else { "additionalProperties" };
                members.insert(closed.into(), false.into());
            }
        }
        Value::Array(items) => items.iter_mut().for_each(close_here),
        _ => {}
    }
}

/// Panics unless `docs/schema` has this schema in the file; `UPDATE_EXPECT=1` writes it there.
pub fn assert_published(name: &str, schema: &Value) {
    let text = serde_json::to_string_pretty(schema).expect("plain JSON") + "\n";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schema");
    expect_test::expect_file![std::path::Path::new(path).join(name)].assert_eq(&text);
}

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
            if let Some(fault) = self.fault(value, target, place) {
                return Some(fault);
            }
        }
        if let Some(options) = schema["oneOf"].as_array() {
            let mut fits = options.iter().filter(|one| self.fault(value, one, place).is_none());
            let (kind, further) = (fits.next(), fits.next());
            let Some(kind) = kind.filter(|_| further.is_none()) else {
                return Some(format!("{place} is none or several of its kinds: {value}"));
            };
            if schema["unevaluatedProperties"] == false
                && let Some(name) = self.unknown_member(value, &[schema, kind])
            {
                return Some(format!("{place}.{name} is not published"));
            }
        }
        if let Some(options) = schema["anyOf"].as_array() {
            let does_fit = options.iter().any(|one| self.fault(value, one, place).is_none());
            return (!does_fit).then(|| format!("{place} is none of its kinds: {value}"));
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
        let others = &schema["additionalProperties"];
        members.iter().find_map(|(name, member)| {
            let place = format!("{place}.{name}");
            match (schema["properties"].get(name), others) {
                (Some(schema), _) => self.fault(member, schema, &place),
                (None, Value::Bool(false)) => Some(format!("{place} is not published")),
                (None, Value::Object(_)) => self.fault(member, others, &place),
                (None, _) => None,
            }
        })
    }

    /// A member that none of these names.
    fn unknown_member<'v>(&self, value: &'v Value, schemas: &[&Value]) -> Option<&'v str> {
        let names = |schema: &Value, name: &str| {
            let target = schema["$ref"]
                .as_str()
                .and_then(|reference| self.root.pointer(reference.trim_start_matches('#')));
            schema["properties"].get(name).is_some()
                || target.is_some_and(|target| target["properties"].get(name).is_some())
        };
        let mut members = value.as_object()?.keys().map(String::as_str);
        members.find(|name| !schemas.iter().any(|schema| names(schema, name)))
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
                "map": { "type": "object", "additionalProperties": { "type": "integer" } },
                "any": { "anyOf": [{ "type": "null" }, { "type": "string" }] },
                "either": { "oneOf": [{ "type": "null" }, { "const": 1 }] },
                "flat": {
                    "type": "object",
                    "properties": { "name": { "type": "string" } },
                    "unevaluatedProperties": false,
                    "oneOf": [
                        { "properties": { "end": { "const": "pass" } }, "required": ["end"] },
                        { "$ref": "#/$defs/failed" },
                    ],
                },
            },
            "$defs": {
                "row": { "prefixItems": [{ "type": "integer" }, { "type": ["string", "null"] }] },
                "failed": { "properties": { "end": { "const": "fail" }, "why": {} }, "required": ["end"] },
            },
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
            (json!({ "kind": "a", "any": null, "map": { "x": 1 } }), None),
            (json!({ "kind": "a", "any": 1 }), Some("$.any is none of")),
            (json!({ "kind": "a", "map": { "x": "y" } }), Some("$.map.x is \"y\"")),
            (json!({ "kind": "a", "flat": { "name": "x", "end": "pass" } }), None),
            (json!({ "kind": "a", "flat": { "name": "x", "end": "fail", "why": 1 } }), None),
            (
                json!({ "kind": "a", "flat": { "name": "x", "end": "pass", "why": 1 } }),
                Some("$.flat.why is not published"),
            ),
            (
                json!({ "kind": "a", "flat": { "name": 1, "end": "pass" } }),
                Some("$.flat.name is 1"),
            ),
            (json!({ "kind": "a", "flat": { "name": "x" } }), Some("$.flat is none or several")),
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
