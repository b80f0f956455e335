//! Text formatting shared by daemon and dashboard. Pure.

/// Escapes characters with a meaning in HTML text and attributes.
pub fn escape_html(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// A count with thin spaces between groups of three digits.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut grouped = String::with_capacity(digits.len() * 2);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push('\u{202f}');
        }
        grouped.push(digit);
    }
    grouped
}

/// A ratio as percent: two decimals below one, then one. Zero is `0 %`; a smaller value than can be
/// shown is `<0.01 %`.
pub fn percent(ratio: f64) -> String {
    format!("{} %", percent_number(ratio))
}

/// A number of CPUs with two decimals. Zero is `0`; a smaller value than can be shown is `<0.01`.
pub fn cpus(count: f64) -> String {
    match count {
        none if none <= 0.0 || !none.is_finite() => "0".to_owned(),
        low if low < 0.005 => "<0.01".to_owned(),
        value => format!("{value:.2}"),
    }
}

/// [`percent`] without the sign.
pub fn percent_number(ratio: f64) -> String {
    match ratio * 100.0 {
        none if none <= 0.0 || !none.is_finite() => "0".to_owned(),
        low if low < 0.005 => "<0.01".to_owned(),
        low if low < 0.995 => format!("{low:.2}"),
        value => format!("{value:.1}"),
    }
}
