//! What a relocation refers to, by names, and where a kernel has it (`relo_core.c` of libbpf).

use std::fmt;

use anyhow::{Context, bail};

use crate::btf::{ARRAY, ENUM, ENUM64, FLOAT, FORWARD, INT, POINTER, Type, Types, without_flavour};
use crate::program::Relocation;

/// Kinds of relocations (`enum bpf_core_relo_kind`).
const FIELD_OFFSET: u32 = 0;
const FIELD_EXISTS: u32 = 2;
const LAST_OF_FIELDS: u32 = 5;
const LOCAL_TYPE: u32 = 6;
const TYPE_EXISTS: u32 = 8;
const ENUMERATOR_EXISTS: u32 = 10;

/// Something of the kernel's types, by its names.
#[derive(Debug, Clone)]
pub struct Spec {
    /// Kind and name of the type at which it begins.
    pub kind: u32,
    pub name: String,
    pub steps: Vec<Step>,
    /// The type of the field, in the object.
    local: u32,
}

/// From a type to a part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    Member(String),
    Element(u32),
    Enumerator(String),
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", without_flavour(&self.name))?;
        self.steps.iter().try_for_each(|step| match step {
            Step::Member(name) => write!(f, ".{name}"),
            Step::Element(index) => write!(f, "[{index}]"),
            Step::Enumerator(name) => write!(f, "::{name}"),
        })
    }
}

impl Spec {
    /// What a relocation refers to; `None` if that is a type of the object itself.
    ///
    /// # Errors
    /// The object is damaged.
    pub fn of(types: &Types, relocation: &Relocation) -> anyhow::Result<Option<Spec>> {
        if relocation.kind == LOCAL_TYPE {
            return Ok(None);
        }
        let (mut number, root) = types.resolved(relocation.type_number)?;
        let mut spec = Spec {
            kind: root.kind(),
            name: root.name.clone(),
            steps: Vec::new(),
            local: number,
        };
        let indices = relocation
            .access
            .split(':')
            .map(|index| index.parse::<u32>());
        let indices = indices
            .collect::<Result<Vec<_>, _>>()
            .context("an access is no numbers")?;
        let Some((first, rest)) = indices.split_first() else {
            bail!("an access is empty");
        };
        if matches!(root.kind(), ENUM | ENUM64) && relocation.kind >= ENUMERATOR_EXISTS {
            let enumerator = root
                .members
                .get(*first as usize)
                .context("no such enumerator")?;
            spec.steps.push(Step::Enumerator(enumerator.name.clone()));
            return Ok(Some(spec));
        }
        for index in rest {
            let (_, entry) = types.resolved(number)?;
            if entry.kind() == ARRAY {
                spec.steps.push(Step::Element(*index));
                number = entry.more[0];
                continue;
            }
            let member = entry
                .members
                .get(*index as usize)
                .context("no such member")?;
            if !member.name.is_empty() {
                spec.steps.push(Step::Member(member.name.clone()));
            }
            number = member.word;
        }
        spec.local = number;
        Ok(Some(spec))
    }

    /// Where these types have it: the offset in bits and the type of the field, by each type of that
    /// name; empty if none has it. `each` sees every member on the way: the number of its type, and
    /// its place there.
    ///
    /// # Errors
    /// Types refer to some that are not there.
    pub fn find(
        &self,
        local: &Types,
        kernel: &Types,
        each: &mut dyn FnMut(u32, usize),
    ) -> anyhow::Result<Vec<Found>> {
        let mut found = Vec::new();
        for root in kernel.named(self.kind, &self.name) {
            let mut place = Found {
                bits: 0,
                width: 0,
                type_number: root,
            };
            let mut path = Vec::new();
            let has = self.steps.iter().try_fold(true, |has, step| {
                anyhow::Ok(has && place.step(step, kernel, &mut path)?)
            })?;
            let is_field = matches!(self.steps.last(), Some(Step::Member(_) | Step::Element(_)));
            if has && (!is_field || are_alike(local, self.local, kernel, place.type_number)?) {
                path.into_iter()
                    .for_each(|(number, place)| each(number, place));
                found.push(place);
            }
        }
        Ok(found)
    }

    /// Whether an instruction that accesses the field as the object knows it can be made to access it
    /// as the kernel has it: libbpf changes the width of pointers and unsigned numbers only.
    ///
    /// # Errors
    /// As [`Spec::find`].
    pub fn can_be_resized(
        &self,
        local: &Types,
        kernel: &Types,
        found: &Found,
    ) -> anyhow::Result<bool> {
        let (_, ours) = local.resolved(self.local)?;
        let (_, theirs) = kernel.resolved(found.type_number)?;
        let is_signed = |found: &Type| found.kind() == INT && found.more[0] >> 24 & 1 == 1;
        let has_size = |found: &Type| matches!(found.kind(), INT | ENUM | ENUM64 | FLOAT);
        Ok(!has_size(ours)
            || found.width != 0
            || ours.size_or_type == theirs.size_or_type
            || !is_signed(ours) && !is_signed(theirs))
    }
}

/// A place in a kernel's types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    pub bits: u32,
    /// Width in bits of a bit field, or 0.
    width: u32,
    type_number: u32,
}

impl Found {
    /// Goes on to a part and adds the members on the way to `path`; false if there is no such part.
    fn step(
        &mut self,
        step: &Step,
        kernel: &Types,
        path: &mut Vec<(u32, usize)>,
    ) -> anyhow::Result<bool> {
        let (number, entry) = kernel.resolved(self.type_number)?;
        match step {
            Step::Enumerator(name) => {
                let place = entry.members.iter().position(|member| member.name == *name);
                path.extend(place.map(|place| (number, place)));
                Ok(place.is_some())
            }
            Step::Element(index) => {
                // No elements: the last member of a structure, whose length varies.
                let is_element =
                    entry.kind() == ARRAY && (entry.more[2] == 0 || *index < entry.more[2]);
                if is_element {
                    self.type_number = entry.more[0];
                    let (_, element) = kernel.resolved(entry.more[0])?;
                    self.bits += 8 * index * element.size_or_type;
                }
                Ok(is_element)
            }
            Step::Member(name) => self.member(name, number, kernel, path),
        }
    }

    fn member(
        &mut self,
        name: &str,
        number: u32,
        kernel: &Types,
        path: &mut Vec<(u32, usize)>,
    ) -> anyhow::Result<bool> {
        let entry = kernel.get(number)?;
        if !entry.is_composite() {
            return Ok(false);
        }
        for (index, member) in entry.members.iter().enumerate() {
            let (bits, width) = entry.place(member);
            let place = Found {
                bits: self.bits + bits,
                width,
                type_number: member.word,
            };
            if member.name == name {
                path.push((number, index));
                *self = place;
                return Ok(true);
            }
            if member.name.is_empty() {
                let mut inside = place;
                let before = path.len();
                path.push((number, index));
                let (inner, _) = kernel.resolved(member.word)?;
                if inside.member(name, inner, kernel, path)? {
                    *self = inside;
                    return Ok(true);
                }
                path.truncate(before);
            }
        }
        Ok(false)
    }
}

/// Whether a field of the one type may be accessed where the other is (`bpf_core_fields_are_compat`).
fn are_alike(local: &Types, ours: u32, kernel: &Types, theirs: u32) -> anyhow::Result<bool> {
    let ((_, ours), (_, theirs)) = (local.resolved(ours)?, kernel.resolved(theirs)?);
    if ours.is_composite() && theirs.is_composite() {
        return Ok(true);
    }
    let is_enumeration = |found: &Type| matches!(found.kind(), ENUM | ENUM64);
    if ours.kind() != theirs.kind() && !(is_enumeration(ours) && is_enumeration(theirs)) {
        return Ok(false);
    }
    Ok(match ours.kind() {
        POINTER | FLOAT | INT => true,
        FORWARD | ENUM | ENUM64 => {
            let names = [ours, theirs].map(|named| without_flavour(&named.name));
            names.contains(&"") || names[0] == names[1]
        }
        ARRAY => are_alike(local, ours.more[0], kernel, theirs.more[0])?,
        _ => false,
    })
}

impl Relocation {
    /// Whether it only asks whether something exists.
    pub fn is_question(&self) -> bool {
        matches!(self.kind, FIELD_EXISTS | TYPE_EXISTS | ENUMERATOR_EXISTS)
    }

    /// Whether it is about a field.
    pub fn is_of_field(&self) -> bool {
        self.kind <= LAST_OF_FIELDS
    }

    /// Whether the offset of a field is the offset of an access.
    pub fn has_width(&self) -> bool {
        self.kind == FIELD_OFFSET && self.is_access
    }
}
