//! What holds for every schema, said once: objects have no other fields, quantities that cannot be
//! negative have the minimum 0, and descriptions are plain text.

use schemars::Schema;
use schemars::transform::{Transform, transform_subschemas};
use serde_json::{Map, Value};

/// Ends of the names of fields whose values cannot be negative.
const NOT_NEGATIVE: &[&str] = &["cpus", "joules", "ns", "ratio", "seconds", "watts"];
/// A relative change.
const SIGNED: &str = "relative_ratio";

/// Applies the rules to a schema and all of its parts.
pub(crate) fn apply(schema: &mut Schema) {
    Rules.transform(schema);
}

struct Rules;

impl Transform for Rules {
    fn transform(&mut self, schema: &mut Schema) {
        transform_subschemas(self, schema);
        let Some(schema) = schema.as_object_mut() else {
            return;
        };
        // The name of a Rust type, or the width of a number.
        for keyword in ["title", "format"] {
            if schema.get(keyword).is_some_and(Value::is_string) {
                schema.remove(keyword);
            }
        }
        if let Some(Value::String(text)) = schema.get_mut("description") {
            *text = plain(text);
        }
        describe_variant(schema);
        bound(schema);
        never_null(schema);
        spread(schema);
        if schema.contains_key("properties") {
            schema.insert("additionalProperties".to_owned(), false.into());
        }
    }
}

/// A doc comment without line breaks and without links to Rust items.
fn plain(comment: &str) -> String {
    let words: Vec<&str> = comment.split_whitespace().collect();
    words.join(" ").replace("[`", "`").replace("`]", "`")
}

/// A variant of an enum is an object with one member, which has the variant's description.
fn describe_variant(schema: &mut Map<String, Value>) {
    let Some(text) = schema.get("description").cloned() else {
        return;
    };
    if let Some(Value::Object(fields)) = schema.get_mut("properties")
        && fields.len() == 1
        && let Some(Value::Object(field)) = fields.values_mut().next()
        && !field.contains_key("$ref")
    {
        field.entry("description").or_insert(text);
    }
}

/// Gives fields with these names their minimum.
fn bound(schema: &mut Map<String, Value>) {
    let Some(Value::Object(fields)) = schema.get_mut("properties") else {
        return;
    };
    for (name, field) in fields {
        let unit = name.rsplit('_').next().unwrap_or_default();
        if NOT_NEGATIVE.contains(&unit) && name != SIGNED {
            not_negative(field);
        }
    }
}

/// Gives a number, or the numbers of a list, the minimum 0.
fn not_negative(schema: &mut Value) {
    let Some(schema) = schema.as_object_mut() else {
        return;
    };
    let is_number = match schema.get("type") {
        Some(Value::String(kind)) => kind == "number",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "number"),
        _ => false,
    };
    if is_number && !schema.contains_key("exclusiveMinimum") {
        schema.entry("minimum").or_insert(0.into());
    }
    if let Some(items) = schema.get_mut("items") {
        not_negative(items);
    }
    if let Some(Value::Array(items)) = schema.get_mut("prefixItems") {
        items.iter_mut().for_each(not_negative);
    }
}

/// A field that need not be there is left out instead of being null.
fn never_null(schema: &mut Map<String, Value>) {
    let required = schema.get("required").cloned().unwrap_or_default();
    let is_required = |name: &str| {
        let names = required.as_array();
        names.is_some_and(|names| names.iter().any(|known| known == name))
    };
    let Some(Value::Object(fields)) = schema.get_mut("properties") else {
        return;
    };
    for (_, field) in fields.iter_mut().filter(|(name, _)| !is_required(name)) {
        let Some(field) = field.as_object_mut() else {
            continue;
        };
        if let Some(Value::Array(kinds)) = field.get_mut("type") {
            kinds.retain(|kind| kind != "null");
            if let [kind] = &kinds[..] {
                let kind = kind.clone();
                field.insert("type".to_owned(), kind);
            }
        }
        if let Some(Value::Array(ways)) = field.get_mut("anyOf") {
            ways.retain(|way| way.get("type").is_none_or(|kind| kind != "null"));
            if let [Value::Object(way)] = &ways[..] {
                let way = way.clone();
                field.remove("anyOf");
                field.extend(way);
            }
        }
    }
}

/// An answer of several kinds is described as the first of them.
pub(crate) fn describe(schema: &mut Schema) {
    let first = schema.pointer("/anyOf/0/$ref").and_then(Value::as_str);
    let first = first.and_then(|place| schema.pointer(place.trim_start_matches('#')));
    let text = first.and_then(|first| first.get("description")).cloned();
    if let Some(text) = text {
        schema.insert("description".to_owned(), text);
    }
}

/// An object that continues in one of several ways: each way gets all fields of the object, because
/// `additionalProperties` sees the fields beside it and no others.
fn spread(schema: &mut Map<String, Value>) {
    if !schema.contains_key("properties") {
        return;
    }
    let Some(key) = ["anyOf", "oneOf"]
        .into_iter()
        .find(|key| schema.contains_key(*key))
    else {
        return;
    };
    let common: Vec<(String, Value)> = ["properties", "required"]
        .into_iter()
        .filter_map(|keyword| Some((keyword.to_owned(), schema.remove(keyword)?)))
        .collect();
    schema.remove("type");
    let Some(Value::Array(ways)) = schema.get_mut(key) else {
        return;
    };
    for way in ways.iter_mut().filter_map(Value::as_object_mut) {
        for (keyword, values) in &common {
            match (way.get_mut(keyword), values) {
                (Some(Value::Object(fields)), Value::Object(others)) => {
                    fields.extend(others.clone());
                }
                (Some(Value::Array(names)), Value::Array(others)) => {
                    names.splice(0..0, others.iter().cloned());
                }
                _ => {
                    way.insert(keyword.clone(), values.clone());
                }
            }
        }
        way.insert("additionalProperties".to_owned(), false.into());
    }
}
