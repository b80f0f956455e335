//! For build scripts: compiles BPF programs, and generates layouts shared by them and user space.
//!
//! A crate with programs declares its records and constants once; [`Abi::generate`] emits them for
//! both sides, `NAME_abi.h` for C and `abi.rs` for Rust. [`compile`] makes skeletons of its
//! objects, which may include the platform's headers (`netto/crates/sys/src/bpf`).

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use libbpf_cargo::SkeletonBuilder;
/// The tables alone, for build scripts of crates whose feature `schema` is also one of `metrics-common`:
/// as a build dependency of theirs that would get the feature too, and every build script would wait until
/// all messages are compiled with their schemas.
pub use metrics_common;

pub mod base;

/// A record of 64-bit words that both sides see at the same offsets.
#[derive(Debug, Clone, Copy)]
pub struct Record {
    /// Its name in both languages.
    pub name: &'static str,
    /// Its description, one sentence.
    pub about: &'static str,
    /// Name, number of words (0: variable, at the end), comment.
    pub fields: &'static [(&'static str, usize, &'static str)],
}

/// A number known to both sides as `NETTO_NAME` and `NAME`.
#[derive(Debug, Clone, Copy)]
pub struct Constant {
    /// Its name in Rust, and in C after `NETTO_`.
    pub name: &'static str,
    /// Its value.
    pub value: usize,
    /// Its description, one sentence.
    pub about: &'static str,
}

/// The layouts and constants shared by one crate's programs and user space.
#[derive(Debug, Clone, Copy)]
pub struct Abi<'a> {
    /// The name of the header.
    pub name: &'a str,
    /// Additional lines of the header, before the records.
    pub definitions: &'a str,
    /// Its numbers.
    pub constants: &'a [Constant],
    /// Its records.
    pub records: &'a [Record],
}

impl Abi<'_> {
    /// Writes `NAME_abi.h` and `abi.rs`.
    ///
    /// # Errors
    /// A folder that cannot be written to.
    pub fn generate(&self, out_dir: &Path) -> anyhow::Result<()> {
        self.write_header(out_dir)?;
        self.write_rust(out_dir)
    }

    fn write_header(&self, out_dir: &Path) -> anyhow::Result<()> {
        let guard = format!("{}_ABI_H", self.name.to_uppercase());
        let mut c = format!("/* Generated. */\n#ifndef {guard}\n#define {guard}\n\n");
        c.push_str(self.definitions);
        for Constant { name, value, .. } in self.constants {
            writeln!(c, "#define NETTO_{name} {value}")?;
        }
        for record in self.records {
            emit_c(record, &mut c)?;
        }
        c.push_str("\n#endif\n");
        let header = format!("{}_abi.h", self.name);
        fs::write(out_dir.join(&header), c).with_context(|| format!("cannot write {header}"))
    }

    fn write_rust(&self, out_dir: &Path) -> anyhow::Result<()> {
        let mut rust = String::from("// Generated.\n");
        for Constant { name, value, about } in self.constants {
            writeln!(rust, "/// {about}\npub const {name}: usize = {value};")?;
        }
        for record in self.records {
            emit_rust(record, &mut rust)?;
        }
        fs::write(out_dir.join("abi.rs"), rust).context("cannot write abi.rs")
    }
}

impl Record {
    /// Whether its last field has a variable number of words.
    fn is_open(&self) -> bool {
        self.fields.iter().any(|(_, words, _)| *words == 0)
    }
}

fn emit_c(record: &Record, c: &mut String) -> std::fmt::Result {
    writeln!(
        c,
        "\n/* {} */\nstruct netto_{} {{",
        record.about, record.name
    )?;
    for (field, words, about) in record.fields {
        let array = match words {
            0 => "[]".to_owned(),
            1 => String::new(),
            _ => format!("[{words}]"),
        };
        writeln!(c, "\t__u64 {field}{array}; /* {about} */")?;
    }
    // Records of different CPUs must not share a cache line; prefetchers fetch lines in pairs,
    // hence 128 bytes.
    if record.is_open() {
        writeln!(c, "}};")
    } else {
        writeln!(c, "}} __attribute__((aligned(128)));")
    }
}

fn emit_rust(record: &Record, rust: &mut String) -> std::fmt::Result {
    let constant = record.name.to_uppercase();
    let mut offset = 0;
    for (field, words, about) in record.fields {
        let shown = match words {
            0 => "the rest",
            1 => "one word",
            _ => "several words",
        };
        let field = field.to_uppercase();
        writeln!(
            rust,
            "/// Offset in words: {about} ({shown})\n\
             pub const {constant}_{field}: usize = {offset};"
        )?;
        offset += words;
    }
    if record.is_open() {
        return Ok(());
    }
    let bytes = (offset * 8).next_multiple_of(128);
    writeln!(
        rust,
        "/// Bytes of one record.\npub const {constant}_BYTES: usize = {bytes};"
    )
}

/// The folder of headers for all programs.
fn headers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../sys/src/bpf")
}

/// Compiles `FOLDER/NAME.bpf.c` into the skeleton `NAME.skel.rs` in `out_dir`, and lets crates that
/// depend on this one find what is generated.
///
/// # Errors
/// The compiler's error, and its requirements.
pub fn compile(folder: &str, names: &[&str], out_dir: &Path) -> anyhow::Result<()> {
    println!("cargo::rerun-if-changed={folder}");
    for name in names {
        let source = Path::new(folder).join(format!("{name}.bpf.c"));
        builder(&source, out_dir)
            .build_and_generate(out_dir.join(format!("{name}.skel.rs")))
            .with_context(|| refusal(&source))?;
    }
    println!("cargo::metadata=generated={}", out_dir.display());
    Ok(())
}

/// A compiler that puts the object into `out_dir`.
fn builder(source: &Path, out_dir: &Path) -> SkeletonBuilder {
    let headers = headers();
    println!("cargo::rerun-if-changed={}", headers.display());
    let include = |path: &Path| {
        let mut argument = OsString::from("-I");
        argument.push(path);
        argument
    };
    let folders = [out_dir, headers.as_path()].map(include);
    // Version 3 of the instructions has the atomic operations that return the old value.
    let arguments = [
        "-mcpu=v3",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Wno-unused-parameter",
    ];
    // Objects name the lines of their source: those of every checkout alike.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3);
    let relative = root.map(|root| format!("-ffile-prefix-map={}=/netto", root.display()));
    let arguments = arguments.map(OsString::from).into_iter();
    let arguments = arguments.chain(relative.map(Into::into)).chain(folders);
    let name = source.file_stem().unwrap_or_default();
    let mut builder = SkeletonBuilder::new();
    builder
        .source(source)
        .obj(out_dir.join(name).with_extension("bpf.o"))
        .clang_args(arguments);
    builder
}

fn refusal(source: &Path) -> String {
    format!(
        "cannot compile {}; `cargo xtask setup` installs what it needs (clang, libelf and zlib \
         headers)",
        source.display()
    )
}
