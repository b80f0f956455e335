//! No program of netto allocates or frees memory. They run at hooks of the scheduler, of interrupts
//! and of softirqs, with locks held that the kernel's allocator may need.
//!
//! The objects are those that the built netto has in it: whatever it can load, from whichever crate.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod hooks;
mod object;
mod rule;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use object::Object;
use rule::violations;

fn embedded() -> Vec<Object> {
    object::embedded(&std::fs::read(env!("CARGO_BIN_EXE_netto")).unwrap())
}

/// Files of this ending below a folder of crates.
fn sources(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            sources(&path, found);
        } else if name.ends_with(".bpf.c") {
            found.insert(name);
        }
    }
}

#[test]
fn netto_has_an_object_of_each_source() {
    let mut expected = BTreeSet::new();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates");
    sources(&crates, &mut expected);
    // Those that only tests have.
    for name in [
        "allocations.bpf.c",
        "arrivals.bpf.c",
        "ticks.bpf.c",
        "truth.bpf.c",
    ] {
        assert!(expected.remove(name), "{name}");
    }
    let found: BTreeSet<String> = embedded().into_iter().map(|object| object.name).collect();
    assert_eq!(found, expected);
}

#[test]
fn no_program_allocates_or_frees_memory() {
    let objects = embedded();
    let found: Vec<String> = objects.iter().flat_map(violations).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
    let programs: usize = objects.iter().map(|object| object.programs.len()).sum();
    assert!(programs > 80, "{programs} programs");
}

/// What clang makes of a program, which is called `program` and gets a context.
fn compiled(code: &str) -> Object {
    let folder = tempfile::tempdir().unwrap();
    let [source, object] = ["made.bpf.c", "made.bpf.o"].map(|name| folder.path().join(name));
    std::fs::write(&source, format!("{}{code}", include_str!("made.h"))).unwrap();
    let status = Command::new("clang")
        .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-c"])
        .args([&source, Path::new("-o"), &object])
        .status()
        .expect("the build needs clang, too");
    assert!(status.success());
    Object::read(&std::fs::read(object).unwrap())
}

/// What is found in a program at `sched_switch` with this body, after these definitions.
fn found_in(definitions: &str, body: &str) -> Vec<String> {
    let code = format!(
        "{definitions}\nSEC(\"tp_btf/sched_switch\") int program(void **ctx) {{ {body} }}\n"
    );
    violations(&compiled(&code))
}

#[track_caller]
fn is_found(definitions: &str, body: &str, expected: &str) {
    let found = found_in(definitions, body);
    assert_eq!(found.len(), 1, "{found:?}");
    let beginning = "made.bpf.c: program (tp_btf/sched_switch) ";
    assert_eq!(found[0], format!("{beginning}{expected}"));
}

const STORAGE: &str = "MAP(tasks, TASK_STORAGE, NO_PREALLOC)";
const CREATES: &str = "calls bpf_task_storage_get, which may create one, of tasks";

#[test]
fn a_storage_that_may_be_created_is_found_in_programs_functions_and_callbacks() {
    is_found(
        STORAGE,
        "return !storage_get(&tasks, ctx[1], 0, 1);",
        CREATES,
    );
    let unknown = "return !storage_get(&tasks, ctx[1], 0, (long)ctx[0]);";
    is_found(STORAGE, unknown, CREATES);
    let either = "long flags = 0; if (ctx[0]) { flags = 1; asm volatile(\"\"); } \
                  return !storage_get(&tasks, ctx[1], 0, flags);";
    is_found(STORAGE, either, CREATES);
    let function = format!(
        "{STORAGE}\nstatic __attribute__((noinline)) long create(void *task) \
         {{ return (long)storage_get(&tasks, task, 0, 1); }}\n"
    );
    let twice = "static __attribute__((noinline)) long outer(void *task) \
                 { return create(task) + 1; }";
    is_found(&function, "return create(ctx[1]);", CREATES);
    is_found(&(function + twice), "return outer(ctx[1]);", CREATES);
    let callback = format!(
        "{STORAGE}\nstatic long create(unsigned index, void **ctx) \
         {{ return !storage_get(&tasks, ctx[1], 0, 1); }}\n"
    );
    is_found(&callback, "return loop(4, create, ctx, 0);", CREATES);
}

#[test]
fn a_storage_that_is_only_looked_at_is_not_found() {
    let found = found_in(STORAGE, "return !storage_get(&tasks, ctx[1], 0, 0);");
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn a_storage_that_is_deleted_is_found() {
    let expected = "calls bpf_task_storage_delete, which frees one, of tasks";
    is_found(STORAGE, "return storage_delete(&tasks, ctx[1]);", expected);
}

#[test]
fn changes_of_maps_are_found_where_elements_are_allocated() {
    let update = "int key = 1; return update(&table, &key, &key, 0);";
    let delete = "int key = 1; return delete(&table, &key);";
    for map in ["HASH, 0", "PERCPU_HASH, 0", "LRU_HASH, 0", "ARRAY, 0"] {
        let found = found_in(&format!("MAP(table, {map})"), update);
        assert!(found.is_empty(), "{found:?}");
    }
    for map in ["HASH, NO_PREALLOC", "PERCPU_HASH, NO_PREALLOC"] {
        let definition = format!("MAP(table, {map})");
        is_found(
            &definition,
            update,
            "calls bpf_map_update_elem on table, whose elements are allocated",
        );
        is_found(
            &definition,
            delete,
            "calls bpf_map_delete_elem on table, whose elements are allocated",
        );
    }
    let trie = "MAP(table, LPM_TRIE, NO_PREALLOC)";
    is_found(
        trie,
        update,
        "calls bpf_map_update_elem on table, whose elements are allocated",
    );
    // It is not known which map is meant.
    let either = format!(
        "int key = 1; void *table = ctx[0] ? (void *)&one : (void *)&two; asm volatile(\"\" : \"+r\"(table)); {}",
        "return update(table, &key, &key, 0);"
    );
    let maps = "MAP(one, HASH, 0) MAP(two, HASH, NO_PREALLOC)";
    is_found(
        maps,
        &either,
        "calls bpf_map_update_elem on two, whose elements are allocated",
    );
}

#[test]
fn what_is_not_known_to_allocate_nothing_is_found() {
    is_found(
        "",
        "return unknown(ctx[0]);",
        "calls helper 169, which is not known to allocate nothing",
    );
    let kernels = "extern void *bpf_obj_new(long) __attribute__((section(\".ksyms\")));";
    is_found(
        kernels,
        "return !bpf_obj_new(1);",
        "calls the kernel's bpf_obj_new, which is not known to allocate nothing",
    );
}

#[test]
fn a_hook_that_is_not_in_the_table_is_found() {
    let code = "SEC(\"tp_btf/never_seen\") int program(void *ctx) { return 0; }";
    let found = violations(&compiled(code));
    let expected =
        "made.bpf.c: program (tp_btf/never_seen) is at a hook that hooks.rs does not have";
    assert_eq!(found, [expected]);
}
