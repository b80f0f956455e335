//! Type information (BTF) as a list of types, read and written (`Documentation/bpf/btf.rst`).

use std::collections::HashMap;

use anyhow::{Context, ensure};

const MAGIC: u32 = 0xeb9f;
const HEADER_BYTES: usize = 24;

// Kinds of types (`enum` in `uapi/linux/btf.h`).
macro_rules! kinds {
    ($($name:ident = $number:literal: $about:literal;)+) => {
        $(#[doc = $about] pub const $name: u32 = $number;)+
    };
}
kinds! {
    INT = 1: "A number.";
    POINTER = 2: "A pointer.";
    ARRAY = 3: "An array.";
    STRUCT = 4: "A structure.";
    UNION = 5: "A union.";
    ENUM = 6: "An enumeration.";
    FORWARD = 7: "A structure or union of which only the name is known.";
    TYPEDEF = 8: "Another name of a type.";
    FUNCTION = 12: "A function.";
    PROTOTYPE = 13: "Parameters and result of a function.";
    FLOAT = 16: "A number with a point.";
    ENUM64 = 19: "An enumeration of numbers of 64 bits.";
}

/// A type: its kind, and the words behind its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Type {
    /// Its name; empty if it has none.
    pub name: String,
    /// Kind, number of members, and a flag of the kind.
    pub info: u32,
    /// Size, or the type that this one refers to.
    pub size_or_type: u32,
    /// Members of a structure or union, enumerators, parameters: names apart from the other words.
    pub members: Vec<Member>,
    /// What kinds without members have besides.
    pub more: Vec<u32>,
}

/// A member, enumerator or parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its name; empty if it has none.
    pub name: String,
    /// Its type; the value of an enumerator.
    pub word: u32,
    /// Offset in bits of a member of a structure; the upper half of a wide enumerator.
    pub second: Option<u32>,
}

impl Type {
    /// Which kind of type it is.
    pub fn kind(&self) -> u32 {
        self.info >> 24 & 0x1f
    }

    /// Whether it has members with an offset.
    pub fn is_composite(&self) -> bool {
        matches!(self.kind(), STRUCT | UNION)
    }

    /// Whether it only stands for another type: typedefs, const, volatile, restrict, tags.
    fn is_alias(&self) -> bool {
        matches!(self.kind(), 8..=11 | 18)
    }

    /// Offset and width in bits of a member; the width is 0 if it is no bit field.
    pub fn place(&self, member: &Member) -> (u32, u32) {
        let word = member.second.unwrap_or(0);
        match self.info >> 31 {
            0 => (word, 0),
            _ => (word & 0xff_ffff, word >> 24),
        }
    }
}

/// All types of a kernel or object; the first one is `void`.
#[derive(Debug, Clone)]
pub struct Types {
    /// The types, by number.
    pub types: Vec<Type>,
    by_name: HashMap<String, Vec<u32>>,
}

/// The words of a section, one after another.
struct Words<'a>(&'a [u8]);

impl Words<'_> {
    fn next(&mut self) -> anyhow::Result<u32> {
        let (word, rest) = self.0.split_first_chunk().context("it is cut")?;
        self.0 = rest;
        Ok(u32::from_le_bytes(*word))
    }
}

impl Types {
    /// Takes a list of types, the first of which is `void`.
    pub fn new(types: Vec<Type>) -> Self {
        let mut by_name: HashMap<String, Vec<u32>> = HashMap::new();
        for (number, entry) in (0..).zip(&types) {
            by_name
                .entry(without_flavour(&entry.name).to_owned())
                .or_default()
                .push(number);
        }
        Types { types, by_name }
    }

    /// Reads the types of a file.
    ///
    /// # Errors
    /// The bytes are no BTF, or have a kind that is not known.
    pub fn read(bytes: &[u8]) -> anyhow::Result<Self> {
        let mut header = Words(bytes);
        ensure!(header.next()? & 0xffff == MAGIC, "it is no BTF");
        let header_bytes = header.next()? as usize;
        let mut section = || {
            let (at, length) = (header.next()? as usize, header.next()? as usize);
            let begin = header_bytes + at;
            bytes.get(begin..begin + length).context("it is cut")
        };
        let (types, names) = (section()?, section()?);
        let name = |at: u32| text_at(names, at);
        let mut words = Words(types);
        let mut types = vec![void()];
        while !words.0.is_empty() {
            let (own_name, info, size_or_type) = (words.next()?, words.next()?, words.next()?);
            let (kind, count) = (info >> 24 & 0x1f, info & 0xffff);
            let (more, has_members, has_second) = match kind {
                INT | 14 | 17 => (1, false, false),
                ARRAY => (3, false, false),
                STRUCT | UNION | ENUM64 => (0, true, true),
                ENUM | PROTOTYPE => (0, true, false),
                15 => (3 * count, false, false),
                POINTER | 7..=FUNCTION | FLOAT | 18 => (0, false, false),
                _ => anyhow::bail!("kind {kind} is unknown"),
            };
            let member = |_| {
                Ok(Member {
                    name: name(words.next()?)?.to_owned(),
                    word: words.next()?,
                    second: has_second.then(|| words.next()).transpose()?,
                })
            };
            let members = (0..if has_members { count } else { 0 }).map(member);
            let members = members.collect::<anyhow::Result<_>>()?;
            types.push(Type {
                name: name(own_name)?.to_owned(),
                info,
                size_or_type,
                members,
                more: (0..more)
                    .map(|_| words.next())
                    .collect::<anyhow::Result<_>>()?,
            });
        }
        Ok(Types::new(types))
    }

    /// Writes the types as a file.
    pub fn write(&self) -> Vec<u8> {
        let mut names: Vec<u8> = vec![0];
        let mut places: HashMap<&str, u32> = HashMap::from([("", 0)]);
        let mut name = |text| {
            *places.entry(text).or_insert_with(|| {
                let place = names.len() as u32;
                names.extend(str::as_bytes(text));
                names.push(0);
                place
            })
        };
        let mut words: Vec<u32> = Vec::new();
        for entry in &self.types[1..] {
            words.extend([name(entry.name.as_str()), entry.info, entry.size_or_type]);
            words.extend(&entry.more);
            for member in &entry.members {
                words.extend([name(member.name.as_str()), member.word]);
                words.extend(member.second);
            }
        }
        let bytes = 4 * words.len() as u32;
        let header = [
            MAGIC | 1 << 16,
            HEADER_BYTES as u32,
            0,
            bytes,
            bytes,
            names.len() as u32,
        ];
        let words = header.iter().chain(&words);
        words
            .flat_map(|word| word.to_le_bytes())
            .chain(names)
            .collect()
    }

    /// A type by its number.
    ///
    /// # Errors
    /// There is none.
    pub fn get(&self, number: u32) -> anyhow::Result<&Type> {
        self.types
            .get(number as usize)
            .context("a type refers to one that is not there")
    }

    /// What a type stands for.
    ///
    /// # Errors
    /// As [`Types::get`].
    pub fn resolved(&self, mut number: u32) -> anyhow::Result<(u32, &Type)> {
        loop {
            let entry = self.get(number)?;
            if !entry.is_alias() {
                return Ok((number, entry));
            }
            number = entry.size_or_type;
        }
    }

    /// The types of this kind and name, whatever their flavour.
    pub fn named(&self, kind: u32, name: &str) -> impl Iterator<Item = u32> {
        let numbers = self.by_name.get(without_flavour(name));
        let numbers = numbers.into_iter().flatten().copied();
        numbers.filter(move |number| self.types[*number as usize].kind() == kind)
    }

    /// The parameters of a prototype, and what it returns, as people write types, without `const`.
    ///
    /// # Errors
    /// As [`Types::get`].
    pub fn signature(&self, prototype: u32) -> anyhow::Result<(Vec<String>, String)> {
        let entry = self.get(prototype)?;
        let parameters = entry
            .members
            .iter()
            .map(|parameter| self.shown(parameter.word));
        Ok((
            parameters.collect::<anyhow::Result<_>>()?,
            self.shown(entry.size_or_type)?,
        ))
    }

    fn shown(&self, number: u32) -> anyhow::Result<String> {
        let (_, entry) = self.resolved(number)?;
        Ok(match entry.kind() {
            POINTER => format!("{}*", self.shown(entry.size_or_type)?),
            PROTOTYPE => "function".to_owned(),
            _ if number == 0 => "void".to_owned(),
            _ => entry.name.clone(),
        })
    }
}

/// The type of nothing, which has the number 0.
pub fn void() -> Type {
    Type {
        name: String::new(),
        info: 0,
        size_or_type: 0,
        members: Vec::new(),
        more: Vec::new(),
    }
}

/// libbpf ignores what follows three underscores: `sk_buff___before_6_11` is `sk_buff`.
pub fn without_flavour(name: &str) -> &str {
    name.find("___").map_or(name, |at| match at {
        0 => name,
        _ => &name[..at],
    })
}

/// The text that begins at a place of a section of texts.
///
/// # Errors
/// No text begins there.
pub fn text_at(texts: &[u8], at: u32) -> anyhow::Result<&str> {
    let text = texts.get(at as usize..).context("a name is missing")?;
    let end = text
        .iter()
        .position(|byte| *byte == 0)
        .context("a name is cut")?;
    std::str::from_utf8(&text[..end]).context("a name is no text")
}
