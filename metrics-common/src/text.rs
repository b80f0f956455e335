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

/// The same with one decimal at all values, or `<0.1`.
pub fn percent_tenths(ratio: f64) -> String {
    match ratio * 100.0 {
        none if none <= 0.0 || !none.is_finite() => "0".to_owned(),
        low if low < 0.05 => "<0.1".to_owned(),
        value => format!("{value:.1}"),
    }
}

/// A name in at most so many columns: of a longer one the beginning.
pub fn shortened(name: &str, columns: usize) -> String {
    if name.chars().count() <= columns {
        return name.to_owned();
    }
    let cut: String = name.chars().take(columns.saturating_sub(1)).collect();
    format!("{cut}…")
}

/// CPUs, ascending, as the kernel writes them: `1-3,7`.
pub fn cpu_list(cpus: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(cpu) => *last = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    let one = |(first, last): &(u32, u32)| {
        if first == last {
            first.to_string()
        } else {
            format!("{first}-{last}")
        }
    };
    let all: Vec<String> = ranges.iter().map(one).collect();
    all.join(",")
}

/// The same as a mask for the kernel: `00000001,80000000`, without leading zeros.
pub fn cpu_mask(cpus: &[u32]) -> String {
    // No kernel has more; a damaged log may.
    let real = || cpus.iter().filter(|cpu| **cpu < 1 << 16);
    let words = real().max().map_or(0, |last| last / 32) + 1;
    let word = |place: u32| {
        let of_word = real().filter(|cpu| **cpu / 32 == place);
        of_word.fold(0_u32, |word, cpu| word | 1 << (cpu % 32))
    };
    let mut mask = format!("{:x}", word(words - 1));
    for place in (0..words - 1).rev() {
        mask += &format!(",{:08x}", word(place));
    }
    mask
}
