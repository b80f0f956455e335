//! What an object's programs ask of a kernel: relocations, hooks, arguments, helpers.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;
use object::{Object as _, ObjectSection as _, ObjectSymbol as _, SectionKind, SymbolKind};

use crate::btf::{Types, text_at};

/// A compiled object.
#[derive(Debug)]
pub struct Object {
    /// Its name.
    pub name: String,
    /// Its own types.
    pub types: Types,
    /// What depends on the kernel's.
    pub relocations: Vec<Relocation>,
    /// Its programs.
    pub programs: Vec<Program>,
    /// Numbers of the helpers that its programs call.
    pub helpers: BTreeSet<u32>,
}

/// A place in a program that depends on the kernel's types (`struct bpf_core_relo`).
#[derive(Debug)]
pub struct Relocation {
    /// The section of the instruction.
    pub section: String,
    /// The type at which it begins, in the object.
    pub type_number: u32,
    /// Such as `0:1:2`.
    pub access: String,
    /// Its kind (`enum bpf_core_relo_kind`).
    pub kind: u32,
    /// Whether its instruction loads or stores at the field, as wide as the field was there.
    pub is_access: bool,
}

/// A program at a hook.
#[derive(Debug)]
pub struct Program {
    /// The name of its function.
    pub name: String,
    /// Such as `tp_btf/softirq_entry`.
    pub section: String,
    /// Which arguments it reads.
    pub arguments: BTreeSet<usize>,
}

const INSTRUCTION_BYTES: usize = 8;
const CALL: u8 = 0x85;
const LOAD: u8 = 0x61;
const LOAD_DOUBLE: u8 = 0x79;
const STORE_DOUBLE: u8 = 0x7b;
const MOVE: u8 = 0xbf;
const FRAME: u8 = 10;

impl Object {
    /// Reads an object file.
    ///
    /// # Errors
    /// The bytes are not an object as clang compiles it from a BPF program.
    pub fn read(name: &str, bytes: &[u8]) -> anyhow::Result<Self> {
        Self::of(bytes)
            .map(|object| Object {
                name: name.to_owned(),
                ..object
            })
            .with_context(|| format!("the object {name} is damaged"))
    }

    fn of(bytes: &[u8]) -> anyhow::Result<Self> {
        let file = object::File::parse(bytes)?;
        let data = |name: &str| {
            let section = file
                .section_by_name(name)
                .with_context(|| format!("it has no {name}"))?;
            anyhow::Ok(section.data()?)
        };
        let names = data(".BTF")?;
        let types = Types::read(names)?;
        let word = |bytes: &[u8], at: usize| {
            let word = bytes
                .get(at..)
                .and_then(<[u8]>::first_chunk)
                .context("it is cut")?;
            anyhow::Ok(u32::from_le_bytes(*word) as usize)
        };
        let texts = &names[word(names, 4)? + word(names, 16)?..];

        // Header, then by section: its name, how many there are, and these.
        let ext = data(".BTF.ext")?;
        let begin = word(ext, 4)? + word(ext, 24)?;
        let ext = ext
            .get(begin..begin + word(ext, 28)?)
            .context("it is cut")?;
        let (mut relocations, mut at) = (Vec::new(), 4);
        while at < ext.len() {
            let section = text_at(texts, word(ext, at)? as u32)?;
            let code = data(section)?;
            let count = word(ext, at + 4)?;
            at += 8;
            for _ in 0..count {
                let class = code
                    .get(word(ext, at)?)
                    .context("an instruction is missing")?
                    & 7;
                relocations.push(Relocation {
                    section: section.to_owned(),
                    type_number: word(ext, at + 4)? as u32,
                    access: text_at(texts, word(ext, at + 8)? as u32)?.to_owned(),
                    kind: word(ext, at + 12)? as u32,
                    is_access: (1..=3).contains(&class),
                });
                at += word(ext, 0)?;
            }
        }

        let mut helpers = BTreeSet::new();
        let mut programs = Vec::new();
        for section in file
            .sections()
            .filter(|section| section.kind() == SectionKind::Text)
        {
            let code = section.data()?;
            helpers.extend(instructions(code).filter_map(called));
            let functions = file.symbols().filter(|symbol| {
                symbol.kind() == SymbolKind::Text
                    && symbol.section_index() == Some(section.index())
                    && section.name() != Ok(".text")
            });
            for function in functions {
                let begin = function.address() as usize;
                let code = code.get(begin..begin + function.size() as usize);
                programs.push(Program {
                    name: function.name()?.to_owned(),
                    section: section.name()?.to_owned(),
                    arguments: arguments(code.context("a program is cut")?),
                });
            }
        }
        Ok(Object {
            name: String::new(),
            types,
            relocations,
            programs,
            helpers,
        })
    }
}

/// Operation, destination, source, offset, number.
type Instruction = (u8, u8, u8, i16, i32);

fn instructions(code: &[u8]) -> impl Iterator<Item = Instruction> {
    code.chunks_exact(INSTRUCTION_BYTES).map(|bytes| {
        let offset = i16::from_le_bytes([bytes[2], bytes[3]]);
        let number = i32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        (bytes[0], bytes[1] & 15, bytes[1] >> 4, offset, number)
    })
}

fn called((operation, _, source, _, number): Instruction) -> Option<u32> {
    (operation == CALL && source == 0).then_some(number as u32)
}

/// The arguments that a program reads of its context. Follows the pointer through registers and the
/// stack from one instruction to the next: compilers read arguments before they branch.
fn arguments(code: &[u8]) -> BTreeSet<usize> {
    let mut registers = 1_u16 << 1;
    let mut stack: BTreeMap<i16, bool> = BTreeMap::new();
    let mut read = BTreeSet::new();
    for (operation, to, from, offset, _) in instructions(code) {
        let has = |register: u8| registers >> register & 1 == 1;
        let is_context = match operation {
            STORE_DOUBLE if to == FRAME => {
                stack.insert(offset, has(from));
                continue;
            }
            MOVE => has(from),
            LOAD_DOUBLE if from == FRAME => stack.get(&offset).copied().unwrap_or(false),
            LOAD | 0x69 | 0x71 | LOAD_DOUBLE if has(from) => {
                read.insert(offset as usize / 8);
                false
            }
            CALL => {
                registers &= !0b11_1111;
                continue;
            }
            // Stores and jumps write no register.
            _ if matches!(operation & 7, 2 | 3 | 5 | 6) => continue,
            _ => false,
        };
        registers = registers & !(1 << to) | u16::from(is_context) << to;
    }
    read
}
