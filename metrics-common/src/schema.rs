//! What the schemas of several types need.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::Value;

/// An object with a member for each of these counts that is known: their names, and what they count.
pub(crate) fn by_name<T: JsonSchema>(
    generator: &mut SchemaGenerator,
    counts: &[(&'static str, &'static str)],
) -> Schema {
    let member = |(name, about): &(&'static str, &'static str)| {
        let mut schema = generator.subschema_for::<T>();
        schema.insert("description".to_owned(), (*about).into());
        ((*name).to_owned(), Value::from(schema))
    };
    let members: serde_json::Map<String, Value> = counts.iter().map(member).collect();
    json_schema!({ "type": "object", "properties": members })
}
