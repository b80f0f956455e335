//! The program that libFuzzer drives: the environment names the reader.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use netto_fuzz::{READER_VARIABLE, READERS, Reader};

static READER: LazyLock<&Reader> = LazyLock::new(|| {
    let name = std::env::var(READER_VARIABLE).unwrap_or_default();
    let reader = READERS.iter().find(|reader| reader.name == name);
    reader.unwrap_or_else(|| panic!("{READER_VARIABLE}={name} names no reader"))
});

fuzz_target!(|bytes: &[u8]| (READER.read)(bytes));
