//! A machine that runs BPF programs one instruction at a time, so that a test can insert other
//! events between any two of them. It supports what netto's programs use. Each instruction takes a
//! nanosecond.

use std::collections::BTreeMap;

use crate::program::{CALL, Instruction, OF_FUNCTION, Programs};

#[allow(dead_code)]
pub mod abi {
    include!(concat!(env!("OUT_DIR"), "/abi.rs"));
}

// Address regions: the upper half of an address tells its region.
const REGION: u64 = 1 << 32;
const STACK: u64 = REGION;
pub const RECORD: u64 = 2 * REGION;
pub const RODATA: u64 = 3 * REGION;
const TASKS: u64 = 4 * REGION;
const CONTEXT: u64 = 6 * REGION;
pub const MAPS: u64 = 7 * REGION;
pub const CONTROL: u64 = 8 * REGION;
pub const SLOTS: u64 = 9 * REGION;
pub const UNKNOWN: u64 = 10 * REGION;
/// Bytes of a task.
const OF_TASK: u64 = 0x100;
const STACK_BYTES: u64 = 512;
const CPUS: usize = 2;

/// A task's words as `bpf/kernel.h` has them.
const TASK_FLAGS_AND_PID: u64 = 0;
const TASK_SWITCHES: u64 = 8;
/// What one CPU has: see `cpu_records.rs`.
const WORDS_OF_CPU: usize = (abi::CPU_BYTES + abi::TAG_BYTES + abi::LONG_BYTES) / 8;
/// Words of a slot of `bpf/parked.bpf.h`.
const SLOT_WORDS: usize = 4;

/// The state outside the programs.
pub struct World {
    /// Nanoseconds.
    pub now: u64,
    /// The records of the CPUs; without a place beyond it, of the first one.
    pub record: Vec<u64>,
    /// The CPU that runs now.
    pub cpu: u64,
    /// The record written by user space.
    pub control: Vec<u64>,
    /// The running task.
    pub current: u64,
    /// Indices of the stored words of the record, in order.
    pub stored: Vec<usize>,
    tasks: BTreeMap<u64, u64>,
    slots: BTreeMap<u64, u64>,
    rodata: Vec<u8>,
    maps: Vec<String>,
}

impl World {
    pub fn new() -> Self {
        let now = 1000;
        let mut record = vec![0; CPUS * WORDS_OF_CPU];
        for record in record.chunks_mut(WORDS_OF_CPU) {
            record[abi::CPU_START_NS] = now;
            record[abi::CPU_SINCE_NS] = now;
            record[abi::CPU_KSOFTIRQD_PID] = u64::MAX;
            record[abi::CPU_LONG_ABOVE_NS] = u64::MAX;
        }
        World {
            now,
            record,
            cpu: 0,
            control: vec![0; abi::CONTROL_BYTES / 8],
            current: 1,
            stored: Vec::new(),
            tasks: BTreeMap::new(),
            slots: BTreeMap::new(),
            rodata: Vec::new(),
            maps: Vec::new(),
        }
    }

    /// Address of a task; its number is its pid.
    pub fn task(&mut self, number: u64) -> u64 {
        let at = TASKS + number * OF_TASK;
        self.tasks.insert(at + TASK_FLAGS_AND_PID, number << 32);
        at
    }

    /// The scheduler counts the switch before the tracepoint.
    pub fn switch_away(&mut self, task: u64) {
        let switches = self.tasks.entry(task + TASK_SWITCHES).or_default();
        *switches += 1;
    }

    /// A word of the record of a CPU.
    pub fn of_cpu(&self, cpu: usize, word: usize) -> u64 {
        self.record[cpu * WORDS_OF_CPU + word]
    }

    /// Owners of slots of the table that is in use, and how many tasks each slot counts that are
    /// parked behind it, by place.
    pub fn parked(&self) -> BTreeMap<usize, [u64; 2]> {
        let mut places = BTreeMap::new();
        for (address, value) in self.slots.iter().filter(|(_, value)| **value != 0) {
            let word = (address - SLOTS) as usize / 8;
            if let Some(of_word) = places
                .entry(word / SLOT_WORDS)
                .or_insert([0; 2])
                .get_mut(word % SLOT_WORDS)
            {
                *of_word = *value;
            }
        }
        places.retain(|_, words| *words != [0; 2]);
        places
    }

    fn load(&self, run: &Run<'_>, address: u64, bytes: u64) -> u64 {
        let offset = address % REGION;
        let words = |words: &BTreeMap<u64, u64>| {
            words.get(&(address & !7)).copied().unwrap_or(0) >> (8 * (address % 8))
        };
        let value = match address - offset {
            STACK => little(&run.stack[offset as usize..], bytes),
            RECORD => self.record[offset as usize / 8] >> (8 * (offset % 8)),
            RODATA => little(&self.rodata[offset as usize..], bytes),
            CONTROL => self.control[offset as usize / 8],
            TASKS => words(&self.tasks),
            SLOTS => words(&self.slots),
            CONTEXT => run.arguments[(address - run.context()) as usize / 8],
            _ => panic!("{}: a load from {address:#x}", run.name),
        };
        if bytes == 8 {
            value
        } else {
            value & ((1 << (8 * bytes)) - 1)
        }
    }

    fn store(&mut self, run: &mut Run<'_>, address: u64, bytes: u64, value: u64) {
        let offset = address % REGION;
        match address - offset {
            STACK => run.stack[offset as usize..][..bytes as usize]
                .copy_from_slice(&value.to_le_bytes()[..bytes as usize]),
            RECORD => {
                assert_eq!(bytes, 8, "{}: half a word of the record", run.name);
                self.stored.push(offset as usize / 8);
                self.record[offset as usize / 8] = value;
            }
            SLOTS => {
                self.slots.insert(address, value);
            }
            _ => panic!("{}: a store to {address:#x}", run.name),
        }
    }

    fn helper(&mut self, run: &Run<'_>, number: i32) -> u64 {
        let argument = |n: usize| run.registers[n];
        match number {
            // bpf_map_lookup_elem
            1 => {
                let map = &self.maps[(argument(1) - MAPS) as usize];
                panic!("nobody looks into {map} here")
            }
            // bpf_ktime_get_ns
            5 => self.now,
            // bpf_get_smp_processor_id
            8 => self.cpu,
            // bpf_get_current_pid_tgid
            14 => self.current << 32 | self.current,
            // bpf_get_current_task_btf
            158 => self.task(self.current),
            _ => panic!("{}: no helper {number} here", run.name),
        }
    }
}

fn little(bytes: &[u8], count: u64) -> u64 {
    let mut word = [0; 8];
    word[..count as usize].copy_from_slice(&bytes[..count as usize]);
    u64::from_le_bytes(word)
}

/// A running program.
pub struct Run<'a> {
    name: &'a str,
    code: &'a [Instruction],
    programs: &'a Programs,
    at: usize,
    registers: [u64; 11],
    stack: Vec<u8>,
    depth: u64,
    arguments: Vec<u64>,
    /// What returns from functions go back to: the code, the place, and registers that stay.
    callers: Vec<(&'a [Instruction], usize, [u64; 5])>,
    ended: bool,
}

impl<'a> Run<'a> {
    /// Starts a program; `depth` is the position of its context on the stack.
    pub fn new(programs: &'a Programs, name: &'a str, depth: u64, arguments: &[u64]) -> Self {
        let mut registers = [0; 11];
        registers[1] = CONTEXT + depth;
        registers[10] = STACK + STACK_BYTES;
        Run {
            name,
            code: &programs.by_name[name],
            programs,
            at: 0,
            registers,
            stack: vec![0; STACK_BYTES as usize],
            depth,
            arguments: arguments.to_vec(),
            callers: Vec::new(),
            ended: false,
        }
    }

    fn context(&self) -> u64 {
        CONTEXT + self.depth
    }

    /// Runs it to its end.
    pub fn finish(mut self, world: &mut World) {
        while self.step(world) {}
    }

    /// Runs one instruction; returns whether there is another one.
    pub fn step(&mut self, world: &mut World) -> bool {
        if self.ended {
            return false;
        }
        world.rodata.clone_from(&self.programs.rodata);
        world.maps.clone_from(&self.programs.maps);
        world.now += 1;
        let instruction = self.code[self.at];
        self.at += 1;
        let operand = match instruction.code & 8 {
            0 => instruction.value as i64 as u64,
            _ => self.registers[instruction.from],
        };
        match instruction.code & 7 {
            // LD: a wide constant
            0 => {
                assert_eq!(instruction.code, 0x18, "{}: {instruction:?}", self.name);
                let high = self.code[self.at].value;
                self.registers[instruction.to] =
                    u64::from(instruction.value as u32) | (high as u64) << 32;
                self.at += 1;
            }
            1 => {
                let address =
                    self.registers[instruction.from].wrapping_add_signed(instruction.offset.into());
                self.registers[instruction.to] = world.load(self, address, width(instruction.code));
            }
            2 | 3 => {
                let address =
                    self.registers[instruction.to].wrapping_add_signed(instruction.offset.into());
                let value = match instruction.code & 7 {
                    2 => instruction.value as i64 as u64,
                    _ => self.registers[instruction.from],
                };
                if instruction.code & 0xe0 == 0xc0 {
                    self.atomic(world, instruction, address);
                } else {
                    world.store(self, address, width(instruction.code), value);
                }
            }
            4 => {
                let (left, right) = (self.registers[instruction.to] as u32, operand as u32);
                let value = match instruction.code & 0xf0 {
                    0x70 => left >> (right & 31),
                    0x60 => left << (right & 31),
                    0xc0 => ((left as i32) >> (right & 31)) as u32,
                    other => arithmetic(other, left.into(), right.into()) as u32,
                };
                self.registers[instruction.to] = value.into();
            }
            7 => {
                let left = self.registers[instruction.to];
                self.registers[instruction.to] = match instruction.code & 0xf0 {
                    0x70 => left >> (operand & 63),
                    0x60 => left << (operand & 63),
                    0xc0 => ((left as i64) >> (operand & 63)) as u64,
                    other => arithmetic(other, left, operand),
                };
            }
            _ if instruction.code == CALL && instruction.from == OF_FUNCTION => {
                self.call(instruction.value)
            }
            class => self.jump(world, instruction, operand, class == 6),
        }
        !self.ended
    }

    fn call(&mut self, function: i32) {
        let kept = std::array::from_fn(|n| self.registers[6 + n]);
        self.callers.push((self.code, self.at, kept));
        (self.code, self.at) = (&self.programs.functions, function as usize);
        self.stack
            .resize(self.stack.len() + STACK_BYTES as usize, 0);
        self.registers[10] += STACK_BYTES;
    }

    fn exit(&mut self) {
        let Some((code, at, kept)) = self.callers.pop() else {
            self.ended = true;
            return;
        };
        (self.code, self.at) = (code, at);
        self.registers[6..].copy_from_slice(&kept);
        self.stack.truncate(self.stack.len() - STACK_BYTES as usize);
    }

    fn atomic(&mut self, world: &mut World, instruction: Instruction, address: u64) {
        let before = world.load(self, address, 8);
        let operand = self.registers[instruction.from];
        match instruction.value {
            0x00 => world.store(self, address, 8, before.wrapping_add(operand)),
            0x01 => {
                world.store(self, address, 8, before.wrapping_add(operand));
                self.registers[instruction.from] = before;
            }
            0xe1 => {
                world.store(self, address, 8, operand);
                self.registers[instruction.from] = before;
            }
            0xf1 => {
                if before == self.registers[0] {
                    world.store(self, address, 8, operand);
                }
                self.registers[0] = before;
            }
            other => panic!("{}: no atomic operation {other:#x} here", self.name),
        }
    }

    fn jump(&mut self, world: &mut World, instruction: Instruction, operand: u64, narrow: bool) {
        let (left, right) = if narrow {
            (
                u64::from(self.registers[instruction.to] as u32),
                u64::from(operand as u32),
            )
        } else {
            (self.registers[instruction.to], operand)
        };
        let signed = |value: u64| {
            if narrow {
                i64::from(value as u32 as i32)
            } else {
                value as i64
            }
        };
        let taken = match instruction.code & 0xf0 {
            0x00 => true,
            0x10 => left == right,
            0x20 => left > right,
            0x30 => left >= right,
            0x40 => left & right != 0,
            0x50 => left != right,
            0x60 => signed(left) > signed(right),
            0x70 => signed(left) >= signed(right),
            0x80 => {
                self.registers[0] = world.helper(self, instruction.value);
                false
            }
            0x90 => {
                self.exit();
                false
            }
            0xa0 => left < right,
            0xb0 => left <= right,
            0xc0 => signed(left) < signed(right),
            _ => signed(left) <= signed(right),
        };
        if taken {
            self.at = self.at.wrapping_add_signed(instruction.offset.into());
        }
    }
}

/// Size of a load or store, bytes.
fn width(code: u8) -> u64 {
    match code & 0x18 {
        0x00 => 4,
        0x08 => 2,
        0x10 => 1,
        _ => 8,
    }
}

/// Arithmetic common to both widths.
fn arithmetic(operation: u8, left: u64, right: u64) -> u64 {
    match operation {
        0x00 => left.wrapping_add(right),
        0x10 => left.wrapping_sub(right),
        0x20 => left.wrapping_mul(right),
        0x40 => left | right,
        0x50 => left & right,
        0x80 => left.wrapping_neg(),
        0xa0 => left ^ right,
        0xb0 => right,
        other => panic!("no operation {other:#x} here"),
    }
}
