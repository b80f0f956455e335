//! Builds the dashboard: compiles `web-frontend` to WebAssembly by whichever
//! way this machine offers, and writes the JavaScript that loads it.
//!
//! Owns the choice of the WebAssembly toolchain and the folders of dashboards in
//! the target directory. It never installs system packages (it names them) and
//! never touches the daemon's own build.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use wasm_bindgen_cli_support::Bindgen;

use crate::{rustup, tree};

const TARGET: &str = "wasm32-unknown-unknown";
/// Name of the generated files, without `.js` and `_bg.wasm`.
const OUT_NAME: &str = "netto_dashboard";
/// Debian's second, newer Rust compiler and the source of its standard library.
const DEBIAN_RUSTC: &str = "/usr/bin/rustc";
const DEBIAN_STD_SOURCE: &str = "/usr/lib/rustlib/src/rust/library/std/Cargo.toml";
const DEBIAN_LLD: &str = "/usr/bin/wasm-ld";
const DEBIAN_COMPILER_PACKAGES: &[&str] = &["rustc-web", "rust-web-src"];
const DEBIAN_ALL_PACKAGES: &[&str] = &["rustc-web", "rust-web-src", "lld"];

/// What compiles for WebAssembly.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Toolchain {
    /// The active toolchain has the target.
    Installed,
    /// rustup has just added the target to the active toolchain.
    AddedByRustup,
    /// Debian's compiler builds the standard library from Debian's source.
    Debian { linker: PathBuf },
}

impl Toolchain {
    fn describe(&self) -> String {
        match self {
            Toolchain::Installed => format!("the active toolchain has {TARGET}"),
            Toolchain::AddedByRustup => format!("rustup added {TARGET} to the active toolchain"),
            Toolchain::Debian { linker } => format!(
                "{DEBIAN_RUSTC} builds the standard library from rust-web-src, linked by {}",
                linker.display()
            ),
        }
    }

    /// Debian's compiler has another version than the active toolchain: in one
    /// directory each would throw away what the other has built.
    fn target_dir(&self, target: &Path) -> PathBuf {
        match self {
            Toolchain::Installed | Toolchain::AddedByRustup => target.to_owned(),
            Toolchain::Debian { .. } => target.join("wasm-debian"),
        }
    }
}

/// What of Debian's way is installed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Debian {
    compiler: bool,
    source: bool,
    linker: Option<PathBuf>,
}

impl Debian {
    /// `sysroot` is that of the active toolchain: rustup's bring a linker along.
    fn look(sysroot: &Path) -> Self {
        let from_rustup = sysroot.join("lib/rustlib").join(host_bin("rust-lld"));
        Debian {
            compiler: Path::new(DEBIAN_RUSTC).exists(),
            source: Path::new(DEBIAN_STD_SOURCE).exists(),
            linker: [from_rustup, PathBuf::from(DEBIAN_LLD)]
                .into_iter()
                .find(|path| path.exists()),
        }
    }

    fn toolchain(&self) -> Option<Toolchain> {
        let linker = self.linker.clone()?;
        (self.compiler && self.source).then_some(Toolchain::Debian { linker })
    }

    fn missing_packages(&self) -> Option<&'static [&'static str]> {
        match (self.compiler && self.source, self.linker.is_some()) {
            (true, true) => None,
            (_, false) => Some(DEBIAN_ALL_PACKAGES),
            (false, true) => Some(DEBIAN_COMPILER_PACKAGES),
        }
    }
}

/// Packages without which this Debian machine cannot compile for WebAssembly;
/// `None` when nothing is missing.
///
/// Where the active toolchain lacks the target and rustup is there, rustup is
/// asked for the target first, since that needs no package at all.
pub fn debian_packages_needed() -> Option<&'static [&'static str]> {
    let sysroot = rustup::sysroot().ok();
    if let Some(sysroot) = &sysroot
        && rustup::has_target(sysroot, TARGET)
    {
        return None;
    }
    let debian = Debian::look(sysroot.as_deref().unwrap_or(Path::new("/usr")));
    debian
        .missing_packages()
        .filter(|_| !sysroot.is_some_and(|sysroot| rustup::add_target(&sysroot, TARGET)))
}

/// Whose dashboard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Page {
    /// That of netto.
    Product,
    /// The same with the view of the example feature.
    Tests,
}

impl Page {
    /// Its folder in the target directory.
    fn folder(self) -> &'static str {
        match self {
            Page::Product => "dashboard",
            Page::Tests => "dashboard-tests",
        }
    }

    /// Features of the crate that it has.
    fn features(self) -> &'static [&'static str] {
        match self {
            Page::Product => &[],
            Page::Tests => &["--features", "example"],
        }
    }
}

/// Compiles a dashboard into its folder of the target directory and returns
/// that folder. Does nothing that was done before and is still fresh.
///
/// # Errors
/// When no way to compile for WebAssembly is found (the message names the
/// remedies), or when the compiler or wasm-bindgen fails.
pub fn build_dashboard(root: &Path, page: Page) -> Result<PathBuf> {
    let target = tree::target_folder(root);
    let sysroot = rustup::sysroot()?;
    let debian = Debian::look(&sysroot).toolchain();
    let toolchain = if rustup::has_target(&sysroot, TARGET) {
        Toolchain::Installed
    } else if let Some(toolchain) = debian
        .clone()
        .filter(|toolchain| toolchain.target_dir(&target).join(TARGET).exists())
    {
        // This way was taken before because rustup had failed: asking rustup again costs seconds.
        toolchain
    } else if rustup::add_target(&sysroot, TARGET) {
        Toolchain::AddedByRustup
    } else if let Some(toolchain) = debian {
        toolchain
    } else {
        bail!(
            "the dashboard needs a Rust compiler for {TARGET}. One of these provides it:\n  \
             rustup target add {TARGET}\n  \
             apt-get install {}    (Debian 12 and later, as root)",
            DEBIAN_ALL_PACKAGES.join(" ")
        );
    };
    println!("dashboard: {}", toolchain.describe());

    let wasm = compile(root, page, &toolchain, &toolchain.target_dir(&target))?;
    let dashboard = target.join(page.folder());
    // Another xtask may build the same page; the second then finds it fresh.
    let lock = dashboard.with_extension("lock");
    let lock = File::create(&lock).with_context(|| format!("cannot create {}", lock.display()))?;
    lock.lock().context("cannot lock the dashboard's folder")?;
    if is_fresh(&wasm, &dashboard) {
        println!("dashboard: {} is up to date", dashboard.display());
    } else {
        bind(&wasm, &dashboard)?;
        println!("dashboard: written to {}", dashboard.display());
    }
    Ok(dashboard)
}

/// Runs cargo; returns the path of the module as the compiler left it.
fn compile(root: &Path, page: Page, toolchain: &Toolchain, target_dir: &Path) -> Result<PathBuf> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(cargo);
    command
        .current_dir(root)
        .args(["build", "--package", "web-frontend", "--lib"])
        .args(page.features())
        .args(["--profile", "wasm", "--target", TARGET, "--target-dir"])
        .arg(target_dir)
        // Flags meant for the host's compiler and linker do not fit this target.
        .env("CARGO_ENCODED_RUSTFLAGS", rust_flags());
    if let Toolchain::Debian { linker } = toolchain {
        command
            .arg("-Zbuild-std=std,panic_abort")
            .env("RUSTC", DEBIAN_RUSTC)
            // -Zbuild-std is unstable; this compiler and cargo are releases.
            .env("RUSTC_BOOTSTRAP", "1")
            .env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", linker);
    }
    let status = command
        .status()
        .with_context(|| format!("cannot run {:?}", command.get_program()))?;
    if !status.success() {
        bail!(
            "compiling web-frontend for {TARGET} failed ({status}); the compiler's messages are above"
        );
    }
    Ok(target_dir.join(TARGET).join("wasm/web_frontend.wasm"))
}

/// Keeps the folder of downloaded crates out of the module, which then has the same bytes
/// wherever it is built.
fn rust_flags() -> OsString {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(env::home_dir()?.join(".cargo")));
    let mut flags = OsString::new();
    if let Some(home) = home {
        flags.push("--remap-path-prefix=");
        flags.push(home.join("registry/src"));
        flags.push("=");
    }
    flags
}

/// Writes the JavaScript glue and the module that fits it.
fn bind(wasm: &Path, dashboard: &Path) -> Result<()> {
    fs::create_dir_all(dashboard)
        .with_context(|| format!("cannot create {}", dashboard.display()))?;
    // Through a folder of its own, so that a failure half way leaves the old pair whole.
    let fresh = dashboard.with_extension("new");
    Bindgen::new()
        .input_path(wasm)
        .out_name(OUT_NAME)
        .web(true)?
        .typescript(false)
        // The script finds the module beside itself, wherever the page is served.
        .omit_default_module_path(false)
        .remove_name_section(true)
        .remove_producers_section(true)
        .generate(&fresh)
        .with_context(|| format!("wasm-bindgen cannot process {}", wasm.display()))?;
    let [js, module] = output_names().map(|name| fresh.join(name));
    let read = |path: &Path| fs::read(path).with_context(|| format!("no {}", path.display()));
    let (mut text, mut bytes) = (read(&js)?, read(&module)?);
    number_imports(&mut text, &mut bytes);
    for (path, content) in [(&js, &text), (&module, &bytes)] {
        fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))?;
    }
    for name in output_names() {
        fs::rename(fresh.join(&name), dashboard.join(&name))
            .with_context(|| format!("cannot put {name} into {}", dashboard.display()))?;
    }
    fs::remove_dir_all(&fresh).with_context(|| format!("cannot remove {}", fresh.display()))
}

/// Replaces the hashes in the names of imports by numbers of the same length, in both files: hashes do
/// not compress, and are one per cent of the page's download.
fn number_imports(js: &mut [u8], module: &mut [u8]) {
    const HASH: usize = 16;
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let has_hash = |name: &&[u8]| {
        let (head, hash) = name.split_at(name.len().saturating_sub(HASH));
        head.starts_with(b"__wb")
            && head.ends_with(b"_")
            && hash.iter().all(|byte| byte.is_ascii_hexdigit())
    };
    let names = js.split(|byte| !is_part(byte)).filter(has_hash);
    let names: BTreeSet<Vec<u8>> = names.map(<[u8]>::to_vec).collect();
    let numbers: BTreeMap<Vec<u8>, String> = names
        .into_iter()
        .zip(0_u32..)
        .map(|(name, number)| (name, format!("{number:0HASH$}")))
        .collect();
    for file in [js, module] {
        let mut from = 0;
        while let Some(place) = file[from..].windows(4).position(|window| window == b"__wb") {
            let begin = from + place;
            from = begin
                + file[begin..]
                    .iter()
                    .take_while(|byte| is_part(byte))
                    .count();
            if let Some(number) = numbers.get(&file[begin..from]) {
                file[from - HASH..from].copy_from_slice(number.as_bytes());
            }
        }
    }
}

fn output_names() -> [String; 2] {
    [format!("{OUT_NAME}.js"), format!("{OUT_NAME}_bg.wasm")]
}

/// Whether everything in `dashboard` was made after `wasm`.
fn is_fresh(wasm: &Path, dashboard: &Path) -> bool {
    let modified = |path: &Path| -> Option<SystemTime> { fs::metadata(path).ok()?.modified().ok() };
    let Some(input) = modified(wasm) else {
        return false;
    };
    output_names()
        .iter()
        .all(|name| modified(&dashboard.join(name)).is_some_and(|output| output >= input))
}

/// Where a toolchain keeps a program for the host, below `lib/rustlib`.
fn host_bin(program: &str) -> PathBuf {
    let triple = format!("{}-unknown-linux-gnu", env::consts::ARCH);
    Path::new(&triple).join("bin").join(program)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// A folder that goes away with the test.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = env::temp_dir().join(format!("netto-xtask-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Scratch(path)
        }

        fn file(&self, name: &str, age: Duration) -> PathBuf {
            let path = self.0.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "whole").unwrap();
            let file = File::options().write(true).open(&path).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000) - age)
                .unwrap();
            path
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn debian(compiler: bool, source: bool, linker: bool) -> Debian {
        Debian {
            compiler,
            source,
            linker: linker.then(|| PathBuf::from("/lld")),
        }
    }

    #[test]
    fn imports_have_the_same_names_in_both_files_without_hashes() {
        let mut js =
            *b"{ __wbg_now_00ff8f0a9b7c6d5e: f, __wbg_all_741ff2bb612836f5: g, __wbg_x: h }";
        let mut module = *b"\x1c__wbg_all_741ff2bb612836f5\0\x1c__wbg_now_00ff8f0a9b7c6d5e";
        number_imports(&mut js, &mut module);
        assert_eq!(
            js,
            *b"{ __wbg_now_0000000000000001: f, __wbg_all_0000000000000000: g, __wbg_x: h }"
        );
        assert_eq!(
            module,
            *b"\x1c__wbg_all_0000000000000000\0\x1c__wbg_now_0000000000000001"
        );
    }

    #[test]
    fn a_toolchain_has_the_target_only_with_its_standard_library() {
        let scratch = Scratch::new("target");
        assert!(!rustup::has_target(&scratch.0, TARGET));
        let lib = format!("lib/rustlib/{TARGET}/lib");
        scratch.file(&format!("{lib}/self-contained"), Duration::ZERO);
        assert!(
            !rustup::has_target(&scratch.0, TARGET),
            "a folder without libstd is a torso"
        );
        scratch.file(&format!("{lib}/libstd-0123.rlib"), Duration::ZERO);
        assert!(rustup::has_target(&scratch.0, TARGET));
    }

    #[test]
    fn debians_way_needs_compiler_source_and_a_linker() {
        assert!(debian(true, true, true).toolchain().is_some());
        for (compiler, source, linker) in [
            (false, true, true),
            (true, false, true),
            (true, true, false),
            (false, false, false),
        ] {
            let found = debian(compiler, source, linker);
            assert_eq!(found.toolchain(), None, "{found:?}");
            assert!(found.missing_packages().is_some(), "{found:?}");
        }
        assert_eq!(debian(true, true, true).missing_packages(), None);
    }

    #[test]
    fn the_linker_is_only_asked_for_where_rustup_brought_none() {
        let names = |found: Debian| found.missing_packages().unwrap().join(" ");
        assert_eq!(names(debian(false, false, true)), "rustc-web rust-web-src");
        assert_eq!(
            names(debian(true, true, false)),
            "rustc-web rust-web-src lld"
        );
    }

    #[test]
    fn rustups_linker_is_found_in_the_sysroot() {
        let scratch = Scratch::new("linker");
        let name = Path::new("lib/rustlib").join(host_bin("rust-lld"));
        let lld = scratch.file(name.to_str().unwrap(), Duration::ZERO);
        assert_eq!(Debian::look(&scratch.0).linker, Some(lld));
    }

    #[test]
    fn two_compilers_never_share_a_target_directory() {
        let target = Path::new("/t");
        let linker = PathBuf::from("/lld");
        assert_eq!(Toolchain::Installed.target_dir(target), target);
        assert_eq!(Toolchain::AddedByRustup.target_dir(target), target);
        assert_ne!(Toolchain::Debian { linker }.target_dir(target), target);
    }

    #[test]
    fn the_dashboard_is_fresh_when_both_files_are_newer_than_the_module() {
        let scratch = Scratch::new("fresh");
        let wasm = scratch.file("in.wasm", Duration::from_secs(10));
        let dashboard = scratch.0.join("dashboard");
        let [js, module] = output_names().map(|name| format!("dashboard/{name}"));
        assert!(!is_fresh(&wasm, &dashboard));
        scratch.file(&js, Duration::from_secs(5));
        assert!(!is_fresh(&wasm, &dashboard), "half of it is missing");
        scratch.file(&module, Duration::from_secs(5));
        assert!(is_fresh(&wasm, &dashboard));
        scratch.file("in.wasm", Duration::from_secs(1));
        assert!(!is_fresh(&wasm, &dashboard), "the module is newer");
        assert!(!is_fresh(&scratch.0.join("absent.wasm"), &dashboard));
    }
}
