//! Reads what divan, by which netto's pure parts are timed, prints as a tree of lines. Pure.

/// Column of the median.
const MEDIAN: usize = 2;

/// Medians by name, microseconds. A benchmark with an argument is called `NAME/ARGUMENT`.
pub fn medians_us(text: &str) -> Vec<(String, f64)> {
    let mut medians = Vec::new();
    let mut group = String::new();
    for line in text.lines() {
        let is_branch = |c: char| "│├╰─ ".contains(c);
        let is_nested = line.starts_with(['│', ' ']);
        // An argument's line begins with the separator of columns, so the branch is cut off first.
        let (_, rest) = line.split_at(line.find(|c| !is_branch(c)).unwrap_or(line.len()));
        let columns: Vec<&str> = rest.split('│').map(str::trim).collect();
        let name = columns[0].split_whitespace().next().unwrap_or_default();
        let Some(median) = columns.get(MEDIAN).and_then(|text| us(text)) else {
            group = name.to_owned();
            continue;
        };
        let name = if is_nested {
            format!("{group}/{name}")
        } else {
            name.to_owned()
        };
        medians.push((name, median));
    }
    medians
}

fn us(text: &str) -> Option<f64> {
    let (number, unit) = text.split_once(' ')?;
    let scale = match unit {
        "ns" => 1e-3,
        "µs" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_found_whatever_the_unit_and_arguments_belong_to_their_benchmark() {
        let text = "\
pure         fastest       │ slowest       │ median        │ mean          │ samples │ iters
├─ classify  140.1 ns      │ 170.9 ns      │ 142 ns        │ 143.4 ns      │ 100     │ 3200
├─ metrics                 │               │               │               │         │
│  ├─ 1      170 µs        │ 190 µs        │ 175 µs        │ 176 µs        │ 100     │ 100
│  ╰─ 256    2.1 ms        │ 2.5 ms        │ 2.25 ms       │ 2.3 ms        │ 100     │ 100
╰─ report    1.1 s         │ 1.3 s         │ 1.25 s        │ 1.2 s         │ 3       │ 3
";
        let found = medians_us(text);
        let expected = [
            ("classify", 0.142),
            ("metrics/1", 175.0),
            ("metrics/256", 2250.0),
            ("report", 1.25e6),
        ];
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for ((name, us), (expected_name, expected_us)) in found.iter().zip(expected) {
            assert_eq!(name, expected_name);
            assert!(
                (us - expected_us).abs() < 1e-9 * expected_us,
                "{name}: {us}"
            );
        }
    }
}
