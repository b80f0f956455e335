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
    let definitions = schema.get("$defs").cloned().unwrap_or_default();
    Spread { definitions }.transform(schema);
    let text = schema.as_value().to_string();
    if let Some(Value::Object(definitions)) = schema.get_mut("$defs") {
        definitions.retain(|name, _| text.contains(&format!("\"#/$defs/{name}\"")));
    }
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

/// Adds the members of an object to those of another.
pub(crate) fn add_members(schema: &mut Schema, members: Schema) {
    for (keyword, more) in members.as_object().into_iter().flatten() {
        match (schema.get_mut(keyword), more) {
            (Some(Value::Object(known)), Value::Object(more)) => known.extend(more.clone()),
            (Some(Value::Array(known)), Value::Array(more)) if keyword == "required" => {
                known.extend(more.iter().cloned());
            }
            (Some(_), _) => {}
            (None, _) => {
                schema.insert(keyword.clone(), more.clone());
            }
        }
    }
}

/// An object that continues in one of several ways: each way gets all fields of the object, because
/// `additionalProperties` sees the fields beside it and no others.
struct Spread {
    definitions: Value,
}

impl Transform for Spread {
    fn transform(&mut self, schema: &mut Schema) {
        transform_subschemas(self, schema);
        let Some(schema) = schema.as_object_mut() else {
            return;
        };
        let mut keys = ["anyOf", "oneOf"].into_iter();
        let key = keys.find(|key| schema.contains_key(*key));
        let (Some(key), true) = (key, schema.contains_key("properties")) else {
            return;
        };
        let common: Vec<(String, Value)> = ["properties", "required"]
            .into_iter()
            .filter_map(|keyword| Some((keyword.to_owned(), schema.remove(keyword)?)))
            .collect();
        schema.remove("type");
        schema.remove("additionalProperties");
        let Some(Value::Array(ways)) = schema.get_mut(key) else {
            return;
        };
        for way in ways.iter_mut().filter_map(Value::as_object_mut) {
            if let Some(Value::String(place)) = way.remove("$ref") {
                let name = place.trim_start_matches("#/$defs/");
                let definition = self.definitions.get(name).and_then(Value::as_object);
                let mut definition = definition.cloned().unwrap_or_default();
                definition.extend(std::mem::take(way));
                *way = definition;
            }
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
}

#[cfg(test)]
mod tests {
    use schemars::JsonSchema;
    use schemars::generate::SchemaSettings;
    use serde_json::json;

    use super::*;

    #[derive(JsonSchema)]
    #[allow(dead_code, reason = "only its fields' names and types are of use")]
    struct Answer {
        /// See [`Answer`],
        /// for people.
        share_ratio: f64,
        relative_ratio: f64,
        #[schemars(skip_serializing_if = "Option::is_none")]
        left_out: Option<u64>,
        unknown: Option<u64>,
        #[schemars(flatten)]
        way: Way,
    }

    #[derive(JsonSchema)]
    #[schemars(untagged)]
    #[allow(dead_code, reason = "only its fields' names and types are of use")]
    enum Way {
        /// It was measured.
        Measured(Measured),
        /// It was not.
        Unavailable { unavailable: String },
    }

    #[derive(JsonSchema)]
    #[allow(dead_code, reason = "only its fields' names and types are of use")]
    struct Measured {
        watts: Vec<f64>,
    }

    #[test]
    fn the_rules_hold_in_each_way_of_an_answer() {
        let settings = SchemaSettings::draft2020_12().for_serialize();
        let mut schema = settings.into_generator().into_root_schema_for::<Answer>();
        apply(&mut schema);
        assert_eq!(schema.get("properties"), None, "each way has all fields");
        for (place, (field, meaning)) in [
            (
                "watts",
                json!({"type": "array", "items": {"type": "number", "minimum": 0}}),
            ),
            ("unavailable", json!({"type": "string"})),
        ]
        .into_iter()
        .enumerate()
        {
            let way = schema.pointer(&format!("/anyOf/{place}")).unwrap();
            assert_eq!(way["additionalProperties"], false);
            let required = way["required"].as_array().unwrap();
            assert_eq!(required.len(), 4, "{required:?}");
            let fields = &way["properties"];
            assert_eq!(fields[field]["type"], meaning["type"]);
            assert_eq!(fields[field].get("items"), meaning.get("items"));
            assert_eq!(fields["share_ratio"]["minimum"], 0);
            assert_eq!(
                fields["share_ratio"]["description"],
                "See `Answer`, for people."
            );
            assert_eq!(fields["relative_ratio"].get("minimum"), None);
            assert_eq!(fields["left_out"], json!({"type": "integer", "minimum": 0}));
            assert_eq!(fields["unknown"]["type"], json!(["integer", "null"]));
        }
    }
}
