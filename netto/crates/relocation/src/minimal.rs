//! Those types of a kernel that objects ask for, and nothing else: a few kilobytes of megabytes.

use std::collections::{BTreeMap, BTreeSet};

use crate::btf::{
    ENUM, FORWARD, FUNCTION, POINTER, PROTOTYPE, STRUCT, TYPEDEF, Type, Types, UNION, void,
};
use crate::fit::{HELPERS, Hook};
use crate::program::Object;
use crate::socket_functions;
use crate::spec::Spec;

/// Which types are kept whole or in part: members by the number of the structure.
#[derive(Default)]
struct Kept {
    members: BTreeMap<u32, BTreeSet<usize>>,
    roots: BTreeSet<u32>,
}

/// The types that these objects ask for.
///
/// # Errors
/// An object or the kernel's types are damaged.
pub fn minimal(kernel: &Types, objects: &[Object]) -> anyhow::Result<Types> {
    let mut kept = Kept::default();
    for object in objects {
        for relocation in &object.relocations {
            let Some(spec) = Spec::of(&object.types, relocation)? else {
                continue;
            };
            let mut each = |number, place| {
                kept.members.entry(number).or_default().insert(place);
            };
            spec.find(&object.types, kernel, &mut each)?;
            kept.roots.extend(kernel.named(spec.kind, &spec.name));
        }
        let hooks = object
            .programs
            .iter()
            .filter_map(|program| Hook::of(&program.section));
        for (kind, name) in hooks.flat_map(|hook| hook.types()) {
            kept.roots.extend(kernel.named(kind, &name));
        }
        for list in kernel.named(ENUM, HELPERS.0) {
            let members = &kernel.types[list as usize].members;
            let called = members
                .iter()
                .enumerate()
                .filter(|(_, member)| object.helpers.contains(&member.word));
            kept.members
                .entry(list)
                .or_default()
                .extend(called.map(|(place, _)| place));
            kept.roots.insert(list);
        }
    }
    for name in socket_functions() {
        kept.roots.extend(kernel.named(FUNCTION, name));
    }
    let mut writer = Writer {
        kernel,
        kept: &kept,
        types: vec![void()],
        numbers: BTreeMap::from([(0, 0)]),
    };
    for root in &kept.roots {
        writer.number(*root)?;
    }
    Ok(Types::new(writer.types))
}

struct Writer<'a> {
    kernel: &'a Types,
    kept: &'a Kept,
    types: Vec<Type>,
    /// From the kernel's numbers to the new ones.
    numbers: BTreeMap<u32, u32>,
}

impl Writer<'_> {
    /// The new number of a type, with all that it refers to.
    fn number(&mut self, number: u32) -> anyhow::Result<u32> {
        if let Some(known) = self.numbers.get(&number) {
            return Ok(*known);
        }
        let mut entry = self.kernel.get(number)?.clone();
        let new = self.types.len() as u32;
        self.numbers.insert(number, new);
        self.types.push(void());
        match entry.kind() {
            STRUCT | UNION | ENUM => {
                let places = self.kept.members.get(&number).cloned().unwrap_or_default();
                let mut place = 0..;
                entry
                    .members
                    .retain(|_| place.next().is_some_and(|place| places.contains(&place)));
                entry.info = entry.info & 0xffff_0000 | entry.members.len() as u32;
                if entry.kind() != ENUM {
                    self.members(&mut entry)?;
                }
            }
            // The names of parameters say nothing.
            PROTOTYPE => {
                entry
                    .members
                    .iter_mut()
                    .for_each(|parameter| parameter.name.clear());
                self.members(&mut entry)?;
                entry.size_or_type = self.number(entry.size_or_type)?;
            }
            POINTER | TYPEDEF..=FUNCTION | 18 => {
                entry.size_or_type = self.number(entry.size_or_type)?
            }
            3 => {
                entry.more[0] = self.number(entry.more[0])?;
                entry.more[1] = self.number(entry.more[1])?;
            }
            1 | FORWARD | 16 | 19 => {}
            kind => anyhow::bail!("a type of kind {kind} in a signature or structure"),
        }
        self.types[new as usize] = entry;
        Ok(new)
    }

    fn members(&mut self, entry: &mut Type) -> anyhow::Result<()> {
        for member in &mut entry.members {
            member.word = self.number(member.word)?;
        }
        Ok(())
    }
}
