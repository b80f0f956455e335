//! Finds functions and enumerations in the kernel's type information (BTF).
//!
//! Reads it once from front to back, comparing names. A library would first index all types, and
//! then search them for each name.

use std::fs::File;
use std::io::Read;

use anyhow::{Context, bail};
use rustc_hash::FxHashSet;

use super::files::LONGEST_BYTES;

/// The running kernel's BTF.
const PATH: &str = "/sys/kernel/btf/vmlinux";
const MAGIC: u16 = 0xeb9f;
const HEADER_WORDS: usize = 6;
/// Size of a type without the part that depends on its kind.
const TYPE_BYTES: usize = 12;
const FUNCTION: u32 = 12;
const ENUM: u32 = 6;
/// Size of an enumerator: name and value.
const NUMBER_BYTES: usize = 8;

/// The functions of the running kernel among these names.
///
/// # Errors
/// If the type information cannot be read.
pub fn functions_among<'a>(names: &[&'a str]) -> anyhow::Result<FxHashSet<&'a str>> {
    let bytes = read()?;
    among(&bytes, names).with_context(|| format!("{PATH} is damaged"))
}

/// An enumeration of the running kernel: its names and their values of 32 bits; `None` if there is
/// none of this name.
///
/// # Errors
/// If the type information cannot be read.
pub fn enumeration(name: &str) -> anyhow::Result<Option<Vec<(String, u32)>>> {
    let bytes = read()?;
    numbers_of(&bytes, name).with_context(|| format!("{PATH} is damaged"))
}

/// The function of the running kernel with this number of a type; `None` if there is none.
///
/// # Errors
/// If the type information cannot be read.
pub fn function(number: u32) -> anyhow::Result<Option<String>> {
    let bytes = read()?;
    function_of(&bytes, number).with_context(|| format!("{PATH} is damaged"))
}

fn function_of(btf: &[u8], number: u32) -> anyhow::Result<Option<String>> {
    let mut found = None;
    each_type(btf, |type_number, kind, name, _, _| {
        if type_number == number && kind == FUNCTION {
            found = Some(name.to_owned());
        }
    })?;
    Ok(found)
}

fn read() -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(8 << 20);
    File::open(PATH)
        .and_then(|file| file.take(LONGEST_BYTES).read_to_end(&mut bytes))
        .with_context(|| format!("cannot read {PATH}"))?;
    Ok(bytes)
}

/// The same, of these bytes.
fn among<'a>(btf: &[u8], names: &[&'a str]) -> anyhow::Result<FxHashSet<&'a str>> {
    let wanted: FxHashSet<&'a str> = names.iter().copied().collect();
    let mut found = FxHashSet::default();
    each_type(btf, |_, kind, name, _, _| {
        if kind == FUNCTION
            && let Some(name) = wanted.get(name)
        {
            found.insert(*name);
        }
    })?;
    Ok(found)
}

fn numbers_of(btf: &[u8], enumeration: &str) -> anyhow::Result<Option<Vec<(String, u32)>>> {
    let mut found = None;
    each_type(btf, |_, kind, name, members, texts| {
        if kind != ENUM || name != enumeration || found.is_some() {
            return;
        }
        let number = |member: &[u8]| {
            let name = text_at(texts, word_at(member, 0)? as usize)?;
            Some((name.to_owned(), word_at(member, 4)?))
        };
        found = Some(
            members
                .chunks_exact(NUMBER_BYTES)
                .filter_map(number)
                .collect(),
        );
    })?;
    Ok(found)
}

/// Calls `each` with the number, the kind, the name, the kind's data and the texts of each type.
fn each_type<'a>(
    btf: &'a [u8],
    mut each: impl FnMut(u32, u32, &'a str, &'a [u8], &'a [u8]),
) -> anyhow::Result<()> {
    let [
        magic,
        header_bytes,
        types_at,
        types_bytes,
        texts_at,
        texts_bytes,
    ] = std::array::from_fn::<_, HEADER_WORDS, _>(|word| word_at(btf, 4 * word).unwrap_or(0));
    if magic as u16 != MAGIC {
        bail!("it is not BTF for this machine");
    }
    let section = |at: u32, bytes: u32| {
        let begin = (header_bytes as usize).checked_add(at as usize)?;
        btf.get(begin..begin.checked_add(bytes as usize)?)
    };
    let mut types = section(types_at, types_bytes).context("its types are cut")?;
    let texts = section(texts_at, texts_bytes).context("its names are cut")?;
    // Number 0 is no type.
    let mut number = 0;
    while !types.is_empty() {
        number += 1;
        let (Some(name), Some(info)) = (word_at(types, 0), word_at(types, 4)) else {
            bail!("a type is cut");
        };
        let (kind, members) = (info >> 24 & 0x1f, info as usize & 0xffff);
        let more = more_bytes(kind, members).with_context(|| format!("kind {kind} is unknown"))?;
        let end = TYPE_BYTES + more;
        let members = types.get(TYPE_BYTES..end).context("a type is cut")?;
        // Names of other types are not looked up.
        if matches!(kind, FUNCTION | ENUM)
            && let Some(name) = text_at(texts, name as usize)
        {
            each(number, kind, name, members, texts);
        }
        types = &types[end..];
    }
    Ok(())
}

/// Size of the part of a type that depends on its kind (`enum` in `uapi/linux/btf.h`); `None` for
/// an unknown kind.
fn more_bytes(kind: u32, members: usize) -> Option<usize> {
    Some(match kind {
        // INT, VAR, DECL_TAG
        1 | 14 | 17 => 4,
        // ARRAY
        3 => 12,
        // STRUCT, UNION, DATASEC, ENUM64
        4 | 5 | 15 | 19 => 12 * members,
        // ENUM, FUNC_PROTO
        6 | 13 => 8 * members,
        // PTR, FWD, TYPEDEF, VOLATILE, CONST, RESTRICT, FUNC, FLOAT, TYPE_TAG
        2 | 7..=12 | 16 | 18 => 0,
        _ => return None,
    })
}

fn word_at(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_ne_bytes(*word))
}

fn text_at(texts: &[u8], at: usize) -> Option<&str> {
    let text = texts.get(at..)?;
    let end = memchr::memchr(0, text)?;
    std::str::from_utf8(&text[..end]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sequence of types with these names.
    fn btf(types: &[&[u32]], texts: &str) -> Vec<u8> {
        let types = types.concat();
        let (types_bytes, texts_bytes) = (4 * types.len() as u32, texts.len() as u32);
        let header = [
            u32::from(MAGIC) | 1 << 16,
            24,
            0,
            types_bytes,
            types_bytes,
            texts_bytes,
        ];
        let words = header.iter().chain(&types);
        let bytes: Vec<u8> = words.flat_map(|word| word.to_ne_bytes()).collect();
        [&bytes, texts.as_bytes()].concat()
    }

    #[test]
    fn functions_are_found_among_types_of_every_length() {
        let function = |name: u32| [name, 12 << 24, 1];
        let types = btf(
            &[
                &[1, 1 << 24, 4, 0],
                &[1, 4 << 24 | 2, 8, 0, 0, 0, 0, 0, 0],
                &function(5),
                &[0, 13 << 24 | 1, 0, 0, 0],
                &[10, 8 << 24, 1],
                &function(1),
            ],
            "\0int\0send\0typedef\0",
        );
        let found = among(&types, &["send", "typedef", "int", "other"]).unwrap();
        assert_eq!(found, ["send", "int"].into_iter().collect());
    }

    #[test]
    fn an_enumeration_has_its_names_and_values() {
        let types = btf(
            &[
                &[1, 6 << 24 | 1, 4, 1, 9],
                &[5, 6 << 24 | 2, 4, 12, 0, 16, 0xffff_0000],
                &[1, 12 << 24, 1],
            ],
            "\0all\0reason\0NOT\0MASK\0",
        );
        let expected =
            [("NOT", 0), ("MASK", 0xffff_0000)].map(|(name, value)| (name.to_owned(), value));
        assert_eq!(
            numbers_of(&types, "reason").unwrap(),
            Some(expected.to_vec())
        );
        assert_eq!(numbers_of(&types, "other").unwrap(), None);
        for end in 0..types.len() {
            let _ = numbers_of(&types[..end], "reason");
        }
    }

    #[test]
    fn what_is_damaged_is_an_error_and_no_panic() {
        let types = btf(&[&[1, 12 << 24, 1], &[1, 1 << 24, 4, 0]], "\0send\0");
        assert!(among(&types, &["send"]).is_ok());
        for end in 0..types.len() {
            let _ = among(&types[..end], &["send"]);
        }
        assert!(
            among(&btf(&[&[1, 31 << 24, 1]], "\0"), &[]).is_err(),
            "an unknown kind"
        );
        assert!(
            among(&btf(&[&[1, 4 << 24 | 9, 1]], "\0"), &[]).is_err(),
            "it is cut"
        );
        assert!(among(b"ELF", &[]).is_err());
    }
}
