//! The files in docs/schema are those that the types make.

use std::path::Path;

/// Writes the files instead of comparing them.
const VARIABLE: &str = "UPDATE_DOCS";

#[test]
fn the_files_are_up_to_date() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/schema");
    let mut stale = Vec::new();
    for (name, schema) in netto_schemas::schemas() {
        let text = serde_json::to_string_pretty(&schema).expect("it is JSON") + "\n";
        let path = folder.join(format!("{name}.json"));
        if std::env::var_os(VARIABLE).is_some() {
            std::fs::write(&path, &text).expect("it can be written");
        }
        if std::fs::read_to_string(&path).ok() != Some(text) {
            stale.push(name);
        }
    }
    assert!(
        stale.is_empty(),
        "docs/schema is out of date ({}); to write it anew: \
         {VARIABLE}=1 cargo test -p netto-schemas",
        stale.join(", ")
    );
}
