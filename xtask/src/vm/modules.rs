//! Which kernel modules a guest loads, and in which order. Pure: a module's
//! bytes say what it depends on.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::Result;

/// What the tests use. Some kernels have some of it built in, or not at all.
pub const WANTED: &[&str] = &[
    // libcrc32c needs an implementation when it is loaded, and does not depend on one by name.
    "crc32c_generic",
    "veth",
    "dummy",
    "bridge",
    "nf_tables",
    "nft_ct",
    "nft_numgen",
    "nf_conntrack",
    "sch_ingress",
    "cls_bpf",
    "cls_u32",
    "cls_matchall",
    "act_gact",
    "act_mirred",
    "sch_tbf",
    "sch_fq",
    "sch_netem",
    "ifb",
    "wireguard",
    // TAP interfaces, and the workers that serve a virtual machine's.
    "tun",
    "vhost_net",
    // Kernel TLS, and the cipher that the tests give it.
    "tls",
    "aes_generic",
    "ctr",
    "ghash_generic",
    "gcm",
];

/// A module's name however it is spelled: kernels mix `-` and `_`.
pub fn spelled(name: &str) -> String {
    name.replace('-', "_")
}

/// The name in a file name such as `nf_tables.ko.xz`.
pub fn name_of_file(file: &str) -> Option<String> {
    let (name, ending) = file.split_once(".ko")?;
    matches!(ending, "" | ".xz").then(|| spelled(name))
}

/// The modules that this module names in its `.modinfo`.
pub fn depends(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(at) = module.windows(KEY.len()).position(|window| window == KEY) else {
        return Vec::new();
    };
    let value = module[at + KEY.len()..].split(|&b| b == 0).next();
    String::from_utf8_lossy(value.unwrap_or_default())
        .split(',')
        .filter(|name| !name.is_empty())
        .map(spelled)
        .collect()
}

/// The wanted modules and all they depend on, each after what it depends on.
/// What the kernel does not have as a module is left out.
///
/// # Errors
/// Those of `read`.
pub fn in_load_order(
    wanted: &[&str],
    files: &BTreeMap<String, PathBuf>,
    read: &mut dyn FnMut(&PathBuf) -> Result<Vec<u8>>,
) -> Result<Vec<(String, Vec<u8>)>> {
    let mut ordered = Vec::new();
    let mut seen = BTreeSet::new();
    for name in wanted {
        visit(&spelled(name), files, read, &mut seen, &mut ordered)?;
    }
    Ok(ordered)
}

fn visit(
    name: &str,
    files: &BTreeMap<String, PathBuf>,
    read: &mut dyn FnMut(&PathBuf) -> Result<Vec<u8>>,
    seen: &mut BTreeSet<String>,
    ordered: &mut Vec<(String, Vec<u8>)>,
) -> Result<()> {
    let Some(file) = files.get(name) else {
        return Ok(());
    };
    if !seen.insert(name.to_owned()) {
        return Ok(());
    }
    let content = read(file)?;
    for other in depends(&content) {
        visit(&other, files, read, seen, ordered)?;
    }
    ordered.push((name.to_owned(), content));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(depends: &str) -> Vec<u8> {
        format!("\x7fELF…\0license=GPL\0depends={depends}\0name=x\0").into_bytes()
    }

    #[test]
    fn dependencies_are_read_from_the_module_itself() {
        assert_eq!(
            depends(&module("nf_tables,nf-conntrack")),
            ["nf_tables", "nf_conntrack"]
        );
        assert!(depends(&module("")).is_empty());
        assert!(depends(b"no module at all").is_empty());
    }

    #[test]
    fn a_file_name_gives_the_modules_name() {
        assert_eq!(name_of_file("act-x.ko").as_deref(), Some("act_x"));
        assert_eq!(name_of_file("veth.ko.xz").as_deref(), Some("veth"));
        assert_eq!(name_of_file("modules.dep"), None);
        assert_eq!(name_of_file("veth.ko.sig"), None);
    }

    #[test]
    fn a_module_comes_once_and_after_all_it_depends_on() {
        let texts = BTreeMap::from([("a", "c,b"), ("b", "c"), ("c", ""), ("d", "a,built_in")]);
        let files = texts
            .keys()
            .map(|name| ((*name).to_owned(), PathBuf::from(name)))
            .collect();
        let mut read = |path: &PathBuf| Ok(module(texts[path.to_str().unwrap()]));
        let order: Vec<String> = in_load_order(&["a", "d", "absent", "b"], &files, &mut read)
            .unwrap()
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        assert_eq!(order, ["c", "b", "a", "d"]);
    }

    #[test]
    fn modules_that_depend_on_each_other_do_not_hang_the_search() {
        let files = ["a", "b"]
            .map(|name| (name.to_owned(), PathBuf::from(name)))
            .into();
        let mut read =
            |path: &PathBuf| Ok(module(if path.to_str() == Some("a") { "b" } else { "a" }));
        let order = in_load_order(&["a"], &files, &mut read).unwrap();
        assert_eq!(order.len(), 2);
    }
}
