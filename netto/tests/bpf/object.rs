//! Compiled objects: their programs, with what each instruction names, and their maps.

use std::collections::BTreeMap;

use libbpf_rs::{MapType, ObjectBuilder};
use object::elf::EM_BPF;
use object::{
    Object as _, ObjectSection as _, ObjectSymbol as _, RelocationTarget, SectionIndex, SymbolKind,
};

/// The begin of a file for a 64-bit machine with the low byte first.
const ELF: &[u8] = b"\x7fELF\x02\x01\x01";
/// A call of a function of the program's, where the register has this value.
const CALL: u8 = 0x85;
const OF_FUNCTION: u8 = 1;

/// One instruction.
#[derive(Debug, Clone)]
pub struct Instruction {
    pub code: u8,
    pub to: u8,
    pub from: u8,
    pub offset: i16,
    pub value: i32,
    /// What the linker is to put here.
    pub names: Named,
}

/// What an instruction names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Named {
    Nothing,
    Map(String),
    /// A function by its section and first instruction.
    Function(SectionIndex, usize),
    /// What the kernel has.
    Kernels(String),
}

/// A program: where it begins, and how the loader attaches it.
pub struct Program {
    pub name: String,
    /// The name of its section, which says its hook.
    pub hook: String,
    pub begin: (SectionIndex, usize),
}

/// A map.
pub struct Map {
    pub kind: MapType,
    pub flags: u32,
}

/// An object file.
pub struct Object {
    /// Its source.
    pub name: String,
    pub programs: Vec<Program>,
    pub maps: BTreeMap<String, Map>,
    /// The instructions of each section.
    pub code: BTreeMap<usize, Vec<Instruction>>,
}

/// The objects that a program for this machine has in it.
pub fn embedded(program: &[u8]) -> Vec<Object> {
    let places = memchr::memmem::find_iter(program, ELF);
    let is_bpf = |at: &usize| program.get(at + 18..at + 20) == Some(&EM_BPF.to_le_bytes()[..]);
    let files = places.filter(is_bpf).map(|at| {
        let number = |from: usize, bytes: usize| {
            let mut word = [0; 8];
            word[..bytes].copy_from_slice(&program[at + from..][..bytes]);
            u64::from_le_bytes(word) as usize
        };
        // The table of sections is the last of a file.
        &program[at..][..number(40, 8) + number(58, 2) * number(60, 2)]
    });
    files.map(Object::read).collect()
}

impl Object {
    pub fn read(bytes: &[u8]) -> Object {
        let file = object::File::parse(bytes).expect("clang's own object file");
        let source = file
            .symbols()
            .find(|symbol| symbol.kind() == SymbolKind::File);
        let mut read = Object {
            name: source
                .expect("clang names the source")
                .name()
                .unwrap()
                .to_owned(),
            programs: Vec::new(),
            maps: BTreeMap::new(),
            code: BTreeMap::new(),
        };
        let open = ObjectBuilder::default().open_memory(bytes).unwrap();
        for map in open.maps() {
            let (kind, flags) = (map.map_type(), map.map_flags());
            let name = map.name().to_str().unwrap().to_owned();
            read.maps.insert(name, Map { kind, flags });
        }
        for section in file.sections() {
            if section.kind() == object::SectionKind::Text && section.size() > 0 {
                read.code
                    .insert(section.index().0, instructions(&file, &section));
            }
        }
        for program in open.progs() {
            let name = program.name().to_str().unwrap().to_owned();
            let symbol = file.symbol_by_name(&name).unwrap();
            read.programs.push(Program {
                hook: program.section().to_str().unwrap().to_owned(),
                begin: (
                    symbol.section_index().unwrap(),
                    symbol.address() as usize / 8,
                ),
                name,
            });
        }
        read
    }
}

fn instructions(file: &object::File<'_>, section: &object::Section<'_, '_>) -> Vec<Instruction> {
    let mut code: Vec<Instruction> = section
        .data()
        .unwrap()
        .chunks_exact(8)
        .map(|bytes| Instruction {
            code: bytes[0],
            to: bytes[1] & 0xf,
            from: bytes[1] >> 4,
            offset: i16::from_le_bytes([bytes[2], bytes[3]]),
            value: i32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
            names: Named::Nothing,
        })
        .collect();
    for (place, instruction) in code.iter_mut().enumerate() {
        if instruction.code == CALL && instruction.from == OF_FUNCTION {
            let target = place.wrapping_add_signed(instruction.value as isize + 1);
            instruction.names = Named::Function(section.index(), target);
        }
    }
    for (at, relocation) in section.relocations() {
        let RelocationTarget::Symbol(symbol) = relocation.target() else {
            panic!("a relocation without a symbol");
        };
        let symbol = file.symbol_by_index(symbol).unwrap();
        let instruction = &mut code[at as usize / 8];
        let name = symbol.name().unwrap_or_default().to_owned();
        let Some(target) = symbol.section_index() else {
            instruction.names = Named::Kernels(name);
            continue;
        };
        let section = file.section_by_index(target).unwrap();
        let begin = symbol.address() as i64 / 8;
        instruction.names = match section.name().unwrap() {
            ".maps" => Named::Map(name),
            _ if section.kind() != object::SectionKind::Text => Named::Nothing,
            // Of calls the place is counted from the next instruction, of callbacks it is in bytes.
            _ if instruction.code == CALL => {
                Named::Function(target, (begin + i64::from(instruction.value) + 1) as usize)
            }
            _ => Named::Function(target, (begin + i64::from(instruction.value) / 8) as usize),
        };
    }
    code
}
