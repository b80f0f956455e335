//! The compiled BPF programs, with every name resolved to an address of the test's machine.

use std::collections::BTreeMap;

use object::{Object as _, ObjectSection as _, ObjectSymbol as _, RelocationTarget};

use crate::machine::{CONTROL, MAPS, RECORD, RODATA, SLOTS, UNKNOWN};

/// The operation of a call, of which this register says that it is one of a function of the program's.
pub const CALL: u8 = 0x85;
pub const OF_FUNCTION: usize = 1;

/// One instruction.
#[derive(Debug, Clone, Copy)]
pub struct Instruction {
    pub code: u8,
    pub to: usize,
    pub from: usize,
    pub offset: i16,
    pub value: i32,
}

/// An object file's programs by name, and its constants.
pub struct Programs {
    pub by_name: BTreeMap<String, Vec<Instruction>>,
    /// All functions that programs call.
    pub functions: Vec<Instruction>,
    pub rodata: Vec<u8>,
    /// Maps named by programs, by index.
    pub maps: Vec<String>,
    constants: BTreeMap<String, usize>,
}

/// One of the two objects that netto is built with.
pub fn of(file: &[u8]) -> Programs {
    let file = object::File::parse(file).expect("clang's own object file");
    let mut programs = Programs {
        by_name: BTreeMap::new(),
        functions: Vec::new(),
        rodata: Vec::new(),
        maps: Vec::new(),
        constants: BTreeMap::new(),
    };
    if let Some(section) = file.section_by_name(".rodata") {
        programs.rodata = section.data().unwrap().to_vec();
    }
    for section in file.sections() {
        let name = section.name().unwrap();
        if section.kind() != object::SectionKind::Text || section.size() == 0 {
            continue;
        }
        let mut code: Vec<Instruction> = section
            .data()
            .unwrap()
            .chunks_exact(8)
            .map(instruction)
            .collect();
        for (at, relocation) in section.relocations() {
            let RelocationTarget::Symbol(symbol) = relocation.target() else {
                panic!("a relocation without a symbol in {name}");
            };
            let symbol = file.symbol_by_index(symbol).unwrap();
            let place = at as usize / 8;
            if code[place].code == CALL {
                // The place of the function; the kernel counts from the next instruction.
                code[place].value += 1 + symbol.address() as i32 / 8;
                continue;
            }
            let addend = code[place].value as u64;
            let address = programs.resolve(&file, &symbol, addend);
            code[place].value = address as i32;
            code[place + 1].value = (address >> 32) as i32;
        }
        if name == ".text" {
            programs.functions = code;
            continue;
        }
        for symbol in file.symbols() {
            if symbol.section_index() == Some(section.index()) && symbol.size() > 0 {
                let from = symbol.address() as usize / 8;
                let to = from + symbol.size() as usize / 8;
                let name = symbol.name().unwrap().to_owned();
                programs.by_name.insert(name, code[from..to].to_vec());
            }
        }
    }
    programs
}

impl Programs {
    fn resolve(
        &mut self,
        file: &object::File<'_>,
        symbol: &object::Symbol<'_, '_>,
        addend: u64,
    ) -> u64 {
        let name = symbol.name().unwrap().to_owned();
        let Some(section) = symbol.section_index() else {
            // A weak name that this kernel does not have.
            return 0;
        };
        match file.section_by_index(section).unwrap().name().unwrap() {
            ".maps" => {
                let known = self.maps.iter().position(|map| *map == name);
                let position = known.unwrap_or_else(|| {
                    self.maps.push(name);
                    self.maps.len() - 1
                });
                MAPS + position as u64
            }
            ".rodata" => {
                self.constants.insert(name, symbol.address() as usize);
                RODATA + symbol.address() + addend
            }
            ".data.control" => CONTROL + symbol.address() + addend,
            ".data.cpus" => RECORD + symbol.address() + addend,
            ".bss.parked" => SLOTS + symbol.address() + addend,
            _ => UNKNOWN,
        }
    }

    /// Sets a constant, as user space does before loading.
    pub fn set(&mut self, name: &str, bytes: &[u8]) {
        let at = self.constants[name];
        self.rodata[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

fn instruction(bytes: &[u8]) -> Instruction {
    Instruction {
        code: bytes[0],
        to: usize::from(bytes[1] & 0xf),
        from: usize::from(bytes[1] >> 4),
        offset: i16::from_le_bytes([bytes[2], bytes[3]]),
        value: i32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
    }
}
