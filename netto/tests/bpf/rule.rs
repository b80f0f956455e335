//! The rule itself: what in a program, in functions that it calls and in callbacks that it gives
//! allocates or frees memory. What is not known to do neither is taken to do so.

use std::collections::BTreeSet;

use libbpf_rs::MapType;

use crate::hooks::HOOKS;
use crate::object::{Instruction, Named, Object, Program};

/// Helpers that neither allocate nor free, by number (`include/uapi/linux/bpf.h`).
const HARMLESS: &[i32] = &[
    1,   // bpf_map_lookup_elem
    4,   // bpf_probe_read
    5,   // bpf_ktime_get_ns
    7,   // bpf_get_prandom_u32
    8,   // bpf_get_smp_processor_id
    14,  // bpf_get_current_pid_tgid
    16,  // bpf_get_current_comm
    26,  // bpf_skb_load_bytes
    35,  // bpf_get_current_task
    46,  // bpf_get_socket_cookie: the next number, if the socket has none yet
    67,  // bpf_get_stack
    80,  // bpf_get_current_cgroup_id
    93,  // bpf_spin_lock
    94,  // bpf_spin_unlock
    113, // bpf_probe_read_kernel
    115, // bpf_probe_read_kernel_str
    118, // bpf_jiffies64
    131, // bpf_ringbuf_reserve: of the ring's memory
    132, // bpf_ringbuf_submit
    154, // bpf_this_cpu_ptr
    158, // bpf_get_current_task_btf
    165, // bpf_snprintf: into a buffer of each CPU first
    181, // bpf_loop, whose callback is looked at
];
/// Those that are so at hooks whose sections begin like this.
const HARMLESS_AT: &[(&str, i32)] = &[
    // bpf_skb_pull_data: of packets, which the kernel itself allocates there.
    ("tcx/", 39),
];
/// Helpers that change a map.
const CHANGES: &[(i32, &str)] = &[(2, "bpf_map_update_elem"), (3, "bpf_map_delete_elem")];
/// Helpers that give a storage, and create it if their fourth argument says so.
const STORAGES: &[(i32, &str)] = &[
    (107, "bpf_sk_storage_get"),
    (145, "bpf_inode_storage_get"),
    (156, "bpf_task_storage_get"),
    (210, "bpf_cgrp_storage_get"),
];
const DELETES: &[(i32, &str)] = &[
    (108, "bpf_sk_storage_delete"),
    (146, "bpf_inode_storage_delete"),
    (157, "bpf_task_storage_delete"),
    (211, "bpf_cgrp_storage_delete"),
];
const NO_PREALLOC: u32 = 1;

// Codes of instructions: what is loaded, stored or computed by their class, and some of each class.
const WIDE: u8 = 0x18;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
const MOVES: [u8; 2] = [0xb7, 0xb4];
const COPY: u8 = 0xbf;
const GOTO: u8 = 0x05;

/// What breaks the rule in an object, one line each.
pub fn violations(object: &Object) -> Vec<String> {
    let mut found = BTreeSet::new();
    for program in &object.programs {
        let mut say = |what: String| {
            let Program { name, hook, .. } = program;
            found.insert(format!("{}: {name} ({hook}) {what}", object.name));
        };
        if !HOOKS.contains(&program.hook.as_str()) {
            say("is at a hook that hooks.rs does not have".to_owned());
        }
        let mut functions = vec![program.begin];
        let mut seen = BTreeSet::new();
        while let Some((section, begin)) = functions.pop() {
            if !seen.insert((section.0, begin)) {
                continue;
            }
            let code = &object.code[&section.0];
            for at in reached(code, begin) {
                match &code[at].names {
                    Named::Function(section, begin) => functions.push((*section, *begin)),
                    Named::Kernels(name) if code[at].code == CALL => say(format!(
                        "calls the kernel's {name}, which is not known to allocate nothing"
                    )),
                    _ if code[at].code == CALL => {
                        let is_harmless = HARMLESS_AT.iter().any(|(begin, helper)| {
                            program.hook.starts_with(begin) && code[at].value == *helper
                        });
                        if !is_harmless {
                            call(object, code, at).into_iter().for_each(&mut say);
                        }
                    }
                    _ => {}
                }
            }
        }
    }
    found.into_iter().collect()
}

/// What a call of a helper does against the rule.
fn call(object: &Object, code: &[Instruction], at: usize) -> Vec<String> {
    let number = code[at].value;
    let named = |helpers: &[(i32, &'static str)]| {
        let mut helpers = helpers.iter().filter(|(helper, _)| *helper == number);
        helpers.next().map(|(_, name)| *name)
    };
    // Of an unknown map: each that may be meant.
    let maps: Vec<&str> = match argument(code, at, 1) {
        Some(Instruction {
            names: Named::Map(name),
            ..
        }) => vec![name],
        _ => object.maps.keys().map(String::as_str).collect(),
    };
    if let Some(name) = named(CHANGES) {
        let allocated = maps
            .iter()
            .filter(|map| has_allocated_elements(object, map));
        return allocated
            .map(|map| format!("calls {name} on {map}, whose elements are allocated"))
            .collect();
    }
    let of_maps = maps.join(", ");
    if let Some(name) = named(STORAGES) {
        let flags = argument(code, at, 4);
        let is_zero = flags.is_some_and(|flags| MOVES.contains(&flags.code) && flags.value == 0);
        return if is_zero {
            Vec::new()
        } else {
            vec![format!("calls {name}, which may create one, of {of_maps}")]
        };
    }
    if let Some(name) = named(DELETES) {
        return vec![format!("calls {name}, which frees one, of {of_maps}")];
    }
    if HARMLESS.contains(&number) {
        return Vec::new();
    }
    vec![format!(
        "calls helper {number}, which is not known to allocate nothing"
    )]
}

/// Whether changes of a map allocate or free: the elements of some are there from the beginning.
fn has_allocated_elements(object: &Object, map: &str) -> bool {
    let map = &object.maps[map];
    match map.kind {
        MapType::Array | MapType::PercpuArray => false,
        MapType::Hash | MapType::PercpuHash | MapType::LruHash | MapType::LruPercpuHash => {
            map.flags & NO_PREALLOC != 0
        }
        // Programs cannot change them.
        MapType::ArrayOfMaps | MapType::RingBuf => false,
        // Those are no keys and values: see the helpers of storages.
        MapType::SkStorage | MapType::TaskStorage | MapType::InodeStorage => false,
        _ => true,
    }
}

/// The places of a function's instructions.
fn reached(code: &[Instruction], begin: usize) -> BTreeSet<usize> {
    let mut places = BTreeSet::new();
    let mut ways = vec![begin];
    while let Some(at) = ways.pop() {
        if !places.insert(at) {
            continue;
        }
        let instruction = &code[at];
        let target = at.wrapping_add_signed(isize::from(instruction.offset) + 1);
        match instruction.code {
            EXIT => {}
            WIDE => ways.push(at + 2),
            GOTO => ways.push(target),
            CALL => ways.push(at + 1),
            jump if matches!(jump & 7, 5 | 6) => ways.extend([at + 1, target]),
            _ => ways.push(at + 1),
        }
    }
    places
}

/// The instruction that gives a call's argument, if it is one of those right before, on whichever way
/// the call is reached.
fn argument(code: &[Instruction], call: usize, register: u8) -> Option<&Instruction> {
    let is_target = |place: usize| {
        let mut jumps = code.iter().enumerate().filter(|(_, instruction)| {
            matches!(instruction.code & 7, 5 | 6) && ![CALL, EXIT].contains(&instruction.code)
        });
        jumps.any(|(at, jump)| at.wrapping_add_signed(isize::from(jump.offset) + 1) == place)
    };
    let mut register = register;
    let mut at = call;
    while at > 0 && !is_target(at) {
        at -= 1;
        // The second half of a wide one has code 0, and its first half is before it.
        let instruction = &code[at];
        let writes = match instruction.code & 7 {
            0 | 1 | 4 | 7 => instruction.code != 0 && instruction.to == register,
            // Atomic operations that return what was there.
            3 => instruction.code & 0xe0 == 0xc0 && instruction.from == register,
            _ if instruction.code == CALL => register < 6,
            _ => matches!(instruction.code, GOTO | EXIT),
        };
        if writes && instruction.code == COPY {
            register = instruction.from;
        } else if writes {
            return Some(instruction);
        }
    }
    None
}
