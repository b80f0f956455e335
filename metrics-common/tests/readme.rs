//! The README's example of a component equals its row in the table.

#[test]
fn the_readme_shows_bridging_as_the_table_has_it() {
    let table = include_str!("../src/component.rs");
    let readme = include_str!("../../README.md");
    let begin = table.find("\n    \"bridging\" in ").unwrap() + 1;
    let row = &table[begin..];
    // The next row begins as far to the left.
    let row = &row[..row.find("\n    \"").unwrap() + 1];
    let shown: String = row
        .lines()
        .map(|line| line.strip_prefix("    ").unwrap().to_owned() + "\n")
        .collect();
    assert!(readme.contains(&shown), "README.md does not hold:\n{shown}");
}
