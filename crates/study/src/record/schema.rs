//! The JSON Schema in `docs/`, held against the type and against records.

use serde_json::{Value, json};

use super::Record;
use crate::synthetic;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/record.schema.json");

fn made() -> String {
    let mut schema = schemars::schema_for!(Record).to_value();
    schema["title"] = json!("One run of a study: one line of its JSON Lines file");
    schema["properties"]["schema"] = json!({
        "description": "The version of these fields.",
        "const": super::SCHEMA,
    });
    let mut text = serde_json::to_string_pretty(&schema).unwrap();
    text.push('\n');
    text
}

/// `UPDATE_EXPECT=1` writes the file anew, as for all expectations.
#[test]
fn the_schema_in_the_docs_is_that_of_the_type() {
    let made = made();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(FILE, &made).unwrap();
    }
    let kept = std::fs::read_to_string(FILE).unwrap();
    assert!(
        made == kept,
        "docs/record.schema.json is not that of Record; UPDATE_EXPECT=1 cargo test -p study schema"
    );
}

#[test]
fn records_follow_the_schema_and_what_is_broken_does_not() {
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(FILE).unwrap()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let record = serde_json::to_value(synthetic::record()).unwrap();
    assert!(validator.is_valid(&record), "{record}");
    let fields: Vec<&String> = record.as_object().unwrap().keys().collect();
    for field in fields {
        let mut wrong = record.clone();
        wrong[field.as_str()] = json!({ "neither": ["text", "nor number"] });
        assert!(!validator.is_valid(&wrong), "{field} of another type");
        // what may be null may be missing too
        let mut lacking = record.clone();
        lacking.as_object_mut().unwrap().remove(field.as_str());
        let optional =
            ["fill", "refused", "huge_bytes", "traced", "boot"].contains(&field.as_str());
        assert_eq!(validator.is_valid(&lacking), optional, "without {field}");
    }
    let mut old = record;
    old["schema"] = json!(1);
    assert!(!validator.is_valid(&old), "another version");
}
