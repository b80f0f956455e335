//! What an object asks of a kernel that it does not have.

use std::collections::BTreeSet;

use anyhow::Context;

use crate::btf::{ENUM, FUNCTION, Member, TYPEDEF, Types};
use crate::program::{Object, Program};
use crate::spec::Spec;

/// The kernel's list of helpers, and how their names begin.
pub const HELPERS: (&str, &str) = ("bpf_func_id", "BPF_FUNC_");

/// What is lacking, as people read it; what programs ask for before they use it has `optional`.
///
/// # Errors
/// The object or the types are damaged.
pub fn lacks(object: &Object, kernel: &Types) -> anyhow::Result<BTreeSet<String>> {
    let mut lacks = BTreeSet::new();
    let mut questions = BTreeSet::new();
    let mut missing = BTreeSet::new();
    for relocation in &object.relocations {
        let Some(spec) = Spec::of(&object.types, relocation)? else {
            continue;
        };
        if relocation.is_question() {
            questions.insert(spec.to_string());
            continue;
        }
        let found = spec.find(&object.types, kernel, &mut |_, _| {})?;
        let Some(first) = found.first() else {
            missing.insert((spec.to_string(), relocation.section.clone()));
            continue;
        };
        if relocation.is_of_field() && found.iter().any(|other| other.bits != first.bits) {
            lacks.insert(format!("{}: {spec} has several places", object.name));
        }
        if relocation.has_width() && !spec.can_be_resized(&object.types, kernel, first)? {
            lacks.insert(format!("{}: {spec} has another size", object.name));
        }
    }
    for (spec, section) in missing {
        let name = &object.name;
        lacks.insert(if questions.contains(&spec) {
            format!("{name}: optional {spec}")
        } else {
            format!("{name}: {spec} in {section}")
        });
    }
    for helper in &object.helpers {
        if !has_helper(kernel, *helper) {
            lacks.insert(format!("{}: helper {helper}", object.name));
        }
    }
    Ok(lacks)
}

fn has_helper(kernel: &Types, helper: u32) -> bool {
    let mut lists = kernel
        .named(ENUM, HELPERS.0)
        .map(|list| &kernel.types[list as usize]);
    // The last one is their number, and has another name.
    let is_it = |member: &Member| member.word == helper && member.name.starts_with(HELPERS.1);
    lists.any(|list| list.members.iter().any(is_it))
}

/// Where a program is attached that is attached by name.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Clone)]
pub enum Hook {
    /// A tracepoint.
    Tracepoint(String),
    /// Begin or end of a function.
    Function(String),
}

impl Hook {
    /// The hook that a section names; `None` if its program is of another kind, or it names none.
    pub fn of(section: &str) -> Option<Hook> {
        let (kind, name) = section.split_once('/')?;
        match kind {
            "tp_btf" => Some(Hook::Tracepoint(name.to_owned())),
            "fentry" | "fexit" => Some(Hook::Function(name.to_owned())),
            _ => None,
        }
    }

    /// The kernel's type with its signature, and the function that says that it exists.
    pub fn types(&self) -> Vec<(u32, String)> {
        match self {
            // The kernel's function at a tracepoint has the same arguments after one of its own.
            Hook::Tracepoint(name) => vec![
                (TYPEDEF, format!("btf_trace_{name}")),
                (FUNCTION, format!("__traceiter_{name}")),
            ],
            Hook::Function(name) => vec![(FUNCTION, name.clone())],
        }
    }

    /// Types of the arguments, and what is returned; `None` if the kernel has no such hook.
    ///
    /// # Errors
    /// The kernel's types are damaged.
    pub fn signature(&self, kernel: &Types) -> anyhow::Result<Option<(Vec<String>, String)>> {
        let types = self.types();
        let (kind, name) = types.first().context("a hook has a type")?;
        let Some(found) = kernel.named(*kind, name).next() else {
            return Ok(None);
        };
        let mut prototype = kernel.get(found)?.size_or_type;
        if let Hook::Tracepoint(_) = self {
            prototype = kernel.resolved(prototype)?.1.size_or_type;
        }
        let (mut arguments, returned) = kernel.signature(prototype)?;
        if let Hook::Tracepoint(_) = self {
            arguments.remove(0);
        }
        Ok(Some((arguments, returned)))
    }
}

/// How the hook of a program differs from the one it was written for; `None` if it does not in what
/// the program reads.
///
/// # Errors
/// The kernels' types are damaged.
pub fn differs(program: &Program, kernel: &Types, known: &Types) -> anyhow::Result<Option<String>> {
    let Some(hook) = Hook::of(&program.section) else {
        return Ok(None);
    };
    let Some((arguments, returned)) = hook.signature(kernel)? else {
        return Ok(Some("no such hook".to_owned()));
    };
    let Some((expected, expected_returned)) = hook.signature(known)? else {
        return Ok(Some("a hook to compare with is missing".to_owned()));
    };
    for place in &program.arguments {
        if *place < expected.len() && arguments.get(*place) != expected.get(*place) {
            let found = arguments.get(*place).map_or("none", String::as_str);
            return Ok(Some(format!(
                "argument {place} is {found}, not {}",
                expected[*place]
            )));
        }
    }
    // What is returned stands behind the arguments.
    let reads_returned = program
        .arguments
        .iter()
        .any(|place| *place >= expected.len());
    if reads_returned && (arguments.len() != expected.len() || returned != expected_returned) {
        return Ok(Some(
            "what is returned has another place or type".to_owned(),
        ));
    }
    Ok(None)
}
