//! Whether these tests run in one of the guests of `cargo xtask vm`.

/// Whether this is one of xtask's guests.
pub fn is_one() -> bool {
    std::env::var("NETTO_TESTS").is_ok_and(|value| value == "guest")
}
