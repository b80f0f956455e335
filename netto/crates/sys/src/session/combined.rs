//! Programs that stand for the probes of several features at one hook. A kernel calls the only
//! program of a tracepoint directly; for a second one it walks a list, and dispatches twice.
//!
//! A combined program uses the maps of the features' own programs and has their constants, so it
//! does what they do, and what those constants exclude is removed from it by the verifier.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};

use anyhow::{Context, bail, ensure};
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{DataSec, Var};
use libbpf_rs::libbpf_sys::bpf_object;
use libbpf_rs::{AsRawLibbpf, MapCore, MapFlags, MapHandle, Object, ObjectBuilder, OpenObject};

use crate::bpf_stats::Runs;

/// An object with a program for each combination of features that may want the same hook.
#[derive(Debug)]
pub struct CombinedObject {
    /// The ELF file.
    pub bytes: &'static [u8],
    /// Its programs.
    pub programs: &'static [CombinedProgram],
}

/// A program of such an object.
#[derive(Debug)]
pub struct CombinedProgram {
    /// Its name.
    pub name: &'static str,
    /// The section that it is in, which says where it is attached, as those of its parts.
    pub section: &'static str,
    /// Names of the objects with the programs that it stands for: one each in this section.
    pub objects: &'static [&'static str],
}

/// What the programs of a loaded object use: its maps, and the constants that were set before it
/// was loaded.
#[derive(Debug)]
pub struct Resources {
    object: String,
    maps: Vec<MapHandle>,
    constants: Vec<(String, Vec<u8>)>,
}

impl Resources {
    /// Those of this object, which may be dropped then.
    ///
    /// # Errors
    /// The process can have no more descriptors, or the object lacks type information.
    pub fn of(object: &Object) -> anyhow::Result<Resources> {
        let name = object.name().context("the BPF object has no name")?;
        let mut resources = Resources {
            object: name.to_string_lossy().into_owned(),
            maps: Vec::new(),
            constants: Vec::new(),
        };
        for map in object.maps() {
            if !is_constants(map.name()) {
                resources.maps.push(MapHandle::try_from(&map)?);
                continue;
            }
            let values = map.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY)?;
            let values = values.context("the constants of the BPF object cannot be read")?;
            // SAFETY: the pointer is that of the object, which outlives this reference.
            let raw = unsafe { object.as_libbpf_object().as_ref() };
            for constant in constants(raw)? {
                let value = values.get(constant.offset..constant.offset + constant.bytes);
                let value = value.context("a constant of the BPF object is not in its map")?;
                resources.constants.push((constant.name, value.to_vec()));
            }
        }
        Ok(resources)
    }

    /// Those of an object of this name, which has nothing.
    #[cfg(test)]
    pub(super) fn none(object: &str) -> Resources {
        Resources {
            object: object.to_owned(),
            maps: Vec::new(),
            constants: Vec::new(),
        }
    }

    /// The name of the object.
    pub(super) fn object(&self) -> &str {
        &self.object
    }
}

/// Whether this is a map of constants: libbpf puts a part of the object's name before it.
fn is_constants(map: &OsStr) -> bool {
    map.as_encoded_bytes().ends_with(b".rodata")
}

struct Constant {
    name: String,
    offset: usize,
    bytes: usize,
}

/// Constants of an object, and where they are in their map.
fn constants(object: &bpf_object) -> anyhow::Result<Vec<Constant>> {
    let types = Btf::from_bpf_object(object)?;
    let types = types.context("the BPF object has no type information")?;
    let Some(section) = types.type_by_name::<DataSec<'_>>(".rodata") else {
        return Ok(Vec::new());
    };
    let constants = section.iter().map(|place| {
        let variable = types.type_by_id::<Var<'_>>(place.ty);
        let variable = variable.context("a constant that is no variable")?;
        let name = variable.name().context("a constant without a name")?;
        Ok(Constant {
            name: name.to_string_lossy().into_owned(),
            offset: place.offset as usize,
            bytes: place.size,
        })
    });
    constants.collect()
}

/// Loads programs of the object that use these resources of their parts' objects.
///
/// # Errors
/// The kernel's refusal, or two parts that use one name for different things.
pub(super) fn load(
    object: &CombinedObject,
    programs: &[&CombinedProgram],
    resources: &[&Resources],
) -> anyhow::Result<Vec<OwnedFd>> {
    let mut builder = ObjectBuilder::default();
    let mut open = builder.name("netto_hooks")?.open_memory(object.bytes)?;
    for mut program in open.progs_mut() {
        let is_wanted = programs.iter().any(|wanted| program.name() == wanted.name);
        program.set_autoload(is_wanted);
    }
    set_constants(&mut open, resources)?;
    for mut map in open.maps_mut() {
        if is_constants(map.name()) {
            continue;
        }
        match map_of(map.name(), resources)? {
            Some(shared) => {
                map.set_value_size(shared.value_size())?;
                map.reuse_fd(shared.as_fd())?;
            }
            // That of a feature which is no part of these programs.
            None => map.set_autocreate(false)?,
        }
    }
    let loaded = open.load()?;
    let descriptor = |wanted: &&CombinedProgram| {
        let program = loaded.progs().find(|program| program.name() == wanted.name);
        let program = program.with_context(|| format!("there is no program {}", wanted.name))?;
        Ok(program.as_fd().try_clone_to_owned()?)
    };
    programs.iter().map(descriptor).collect()
}

fn set_constants(open: &mut OpenObject, resources: &[&Resources]) -> anyhow::Result<()> {
    // SAFETY: the pointer is that of the object, which outlives this reference.
    let constants = constants(unsafe { open.as_libbpf_object().as_ref() })?;
    let Some(mut map) = open.maps_mut().find(|map| is_constants(map.name())) else {
        return Ok(());
    };
    let values = map.initial_value_mut();
    let values = values.context("the constants have no place")?;
    for constant in constants {
        let all = resources.iter().flat_map(|resources| &resources.constants);
        let mut set = all.filter(|(name, _)| *name == constant.name);
        let Some((_, value)) = set.next() else {
            continue;
        };
        ensure!(
            set.all(|(_, other)| other == value),
            "two features have a constant {}",
            constant.name
        );
        let place = values.get_mut(constant.offset..constant.offset + constant.bytes);
        let place = place.filter(|place| place.len() == value.len());
        let place = place.with_context(|| format!("{} has another size", constant.name))?;
        place.copy_from_slice(value);
    }
    Ok(())
}

fn map_of<'a>(name: &OsStr, resources: &[&'a Resources]) -> anyhow::Result<Option<&'a MapHandle>> {
    let all = resources.iter().flat_map(|resources| &resources.maps);
    let mut found = all.filter(|map| map.name() == name);
    let Some(map) = found.next() else {
        return Ok(None);
    };
    for other in found {
        if other.info()?.info.id != map.info()?.info.id {
            bail!("two features have a map {}", name.to_string_lossy());
        }
    }
    Ok(Some(map))
}

/// The combination to attach where the parts of these objects are wanted: the place of the one that
/// stands for exactly these; `None` if each has to be attached by itself.
pub(super) fn choice(wanted: &[&str], loaded: &[&[&str]]) -> Option<usize> {
    let is_of_all = |objects: &&[&str]| {
        objects.len() == wanted.len() && wanted.iter().all(|object| objects.contains(object))
    };
    (wanted.len() > 1)
        .then(|| loaded.iter().position(is_of_all))
        .flatten()
}

/// What parts of a combined program have of its runs: all of their number, and of their time in
/// proportion to the lengths of their own programs, for the kernel times the whole only.
pub(super) fn shares(runs: Runs, lengths: &[u64]) -> Vec<Runs> {
    let whole = lengths.iter().sum::<u64>();
    let share = |length: &u64| Runs {
        count: runs.count,
        ns: match whole {
            0 => runs.ns / lengths.len() as u64,
            _ => (u128::from(runs.ns) * u128::from(*length) / u128::from(whole)) as u64,
        },
    };
    lengths.iter().map(share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAIRS: [&[&str]; 4] = [&["a", "b"], &["a", "c"], &["b", "c"], &["a", "b", "c"]];

    #[test]
    fn one_program_stands_for_all_that_are_wanted_and_for_nothing_else() {
        assert_eq!(choice(&[], &PAIRS), None);
        assert_eq!(choice(&["a"], &PAIRS), None);
        assert_eq!(choice(&["b", "a"], &PAIRS), Some(0));
        assert_eq!(choice(&["c", "b"], &PAIRS), Some(2));
        assert_eq!(choice(&["c", "a", "b"], &PAIRS), Some(3));
        // What the kernel has refused is not there: then each has its own.
        assert_eq!(choice(&["a", "b", "c"], &PAIRS[..3]), None);
        assert_eq!(choice(&["b", "c"], &PAIRS[..2]), None);
        assert_eq!(choice(&["a", "d"], &PAIRS), None);
    }

    #[test]
    fn each_part_has_all_runs_and_its_share_of_their_time() {
        let runs = Runs { count: 10, ns: 900 };
        let shared = shares(runs, &[100, 200]);
        assert_eq!(
            shared,
            [(10, 300), (10, 600)].map(|(count, ns)| Runs { count, ns })
        );
        // A kernel that tells no lengths.
        let shared = shares(runs, &[0, 0, 0]);
        assert_eq!(shared, [Runs { count: 10, ns: 300 }; 3]);
    }
}
