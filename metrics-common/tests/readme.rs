//! The README's example of a component equals its row in the table.

#[test]
fn the_readme_shows_bridging_as_the_table_has_it() {
    let table = include_str!("../src/component.rs");
    let readme = include_str!("../../README.md");
    let begin = table
        .find("    Component {\n        slug: \"bridging\",")
        .unwrap();
    let row = &table[begin..];
    let row = &row[..row.find("\n    },\n").unwrap() + "\n    },\n".len()];
    let shown: String = row
        .lines()
        .map(|line| line.strip_prefix("    ").unwrap().to_owned() + "\n")
        .collect();
    assert!(readme.contains(&shown), "README.md does not hold:\n{shown}");
}
