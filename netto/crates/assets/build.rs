//! Embeds the compressed dashboard in the binary, so that one file is enough for a host. Reads
//! `www` and the output of xtask; compiles nothing itself.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};
use brotli::BrotliCompress;
use brotli::enc::BrotliEncoderParams;
use libdeflater::{CompressionLvl, Compressor, Crc};

/// Markup and style, from the repository.
const PAGE_FILES: &[&str] = &["index.html", "style.css", "boot.js", "favicon.svg"];
/// The output of xtask's build of `web-frontend`.
const BUILT_FILES: &[&str] = &["netto_dashboard.js", "netto_dashboard_bg.wasm"];
/// The text around the name of a view, where the page includes its markup.
const PLACE: (&str, &str) = ("<!-- view: ", " -->");
/// At the end of a line that only the page for tests has.
const EXAMPLE: &str = "<!-- example -->";
/// Names the folder of [`BUILT_FILES`], if it is not `target/dashboard`.
const DASHBOARD_DIR: &str = "NETTO_DASHBOARD_DIR";

/// Served instead of the dashboard by a build without it.
const PLACEHOLDER: &str = "<!doctype html>\n<html lang=\"en\">\n<head>\n\
<meta charset=\"utf-8\">\n\
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
<meta name=\"color-scheme\" content=\"light dark\">\n\
<title>netto</title>\n</head>\n<body>\n\
<h1>netto is measuring, but has no dashboard</h1>\n\
<p>This netto was built without the dashboard. Build it with <code>cargo xtask build</code>.</p>\n\
<p>The measurements are at <a href=\"/metrics\">/metrics</a> (Prometheus) and \
<a href=\"/api/v1/snapshot\">/api/v1/snapshot</a> (JSON).</p>\n\
</body>\n</html>\n";

/// The page with the markup of each view inserted, in an element that can hide it.
fn with_views(page: &[u8], workspace_root: &Path) -> Result<Vec<u8>> {
    let page = std::str::from_utf8(page).context("index.html is not UTF-8")?;
    let has_example = env::var_os("CARGO_FEATURE_EXAMPLE").is_some();
    let lines = page.split_inclusive('\n');
    let page: String = lines
        .filter(|line| has_example || !line.contains(EXAMPLE))
        .collect();
    let mut rest = page.as_str();
    let mut whole = String::with_capacity(2 * rest.len());
    while let Some((before, after)) = rest.split_once(PLACE.0) {
        let (name, after) = after
            .split_once(PLACE.1)
            .context("index.html has a place for a view that does not end")?;
        let markup = workspace_root
            .join("web-frontend/src/views")
            .join(name)
            .join("view.html");
        println!("cargo:rerun-if-changed={}", markup.display());
        let text = fs::read_to_string(&markup)
            .with_context(|| format!("cannot read the markup of a view, {}", markup.display()))?;
        whole.push_str(before);
        let text = text.trim_end();
        write!(
            whole,
            "<div class=\"view\" data-view=\"{name}\">{text}</div>"
        )?;
        rest = after;
    }
    whole.push_str(rest);
    Ok(whole.into_bytes())
}

/// A style or a script without comments, indentation and empty lines, which browsers would download for
/// nothing.
fn without_comments(text: &[u8]) -> Result<Vec<u8>> {
    let mut rest = std::str::from_utf8(text).context("it is not UTF-8")?;
    let mut plain = String::with_capacity(rest.len());
    while let Some((before, after)) = rest.split_once("/*") {
        plain.push_str(before);
        let (_, after) = after.split_once("*/").context("a comment does not end")?;
        rest = after;
    }
    plain.push_str(rest);
    let lines = plain.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with("//"));
    Ok(lines
        .flat_map(|line| [line, "\n"])
        .collect::<String>()
        .into_bytes())
}

/// Writes `dashboard.rs` and the compressed files that it includes into `out_dir`.
///
/// The generated file defines `ASSETS: &[Asset]`; the including file defines `Asset` with the
/// fields `path`, `content_type`, `version`, `gzip` and `brotli`.
///
/// # Errors
/// When a file of the dashboard cannot be read, when `NETTO_DASHBOARD_DIR` names
/// a folder without a dashboard, or when `out_dir` cannot be written.
fn embed(out_dir: &Path, workspace_root: &Path) -> Result<()> {
    let files = match built_dashboard(workspace_root)? {
        Some(dashboard) => {
            let www = workspace_root.join("www");
            let page = PAGE_FILES.iter().map(|name| (*name, www.join(name)));
            let built = BUILT_FILES.iter().map(|name| (*name, dashboard.join(name)));
            page.chain(built)
                .map(|(name, path)| {
                    println!("cargo:rerun-if-changed={}", path.display());
                    let bytes = fs::read(&path).with_context(|| {
                        format!("cannot read the dashboard's {}", path.display())
                    })?;
                    let bytes = match name {
                        "index.html" => with_views(&bytes, workspace_root)?,
                        "style.css" | "netto_dashboard.js" => without_comments(&bytes)?,
                        _ => bytes,
                    };
                    Ok((name, bytes))
                })
                .collect::<Result<Vec<_>>>()?
        }
        None => vec![("index.html", PLACEHOLDER.as_bytes().to_vec())],
    };

    let mut code = format!("static FILES: [Asset; {}] = [\n", files.len());
    for (name, bytes) in files {
        let compressed = out_dir.join(format!("{name}.gz"));
        write(&compressed, &gzip(&bytes)?)?;
        let smaller = out_dir.join(format!("{name}.br"));
        write(&smaller, &brotli(&bytes)?)?;
        let mut crc = Crc::new();
        crc.update(&bytes);
        let version = format!("{:08x}-{:x}", crc.sum(), bytes.len());
        writeln!(
            code,
            "    Asset {{ path: {path:?}, content_type: {content_type:?}, version: {version:?}, \
             gzip: include_bytes!({compressed:?}), brotli: include_bytes!({smaller:?}) }},",
            path = format!("/{name}"),
            content_type = content_type(name)?,
        )?;
    }
    code.push_str("];\npub static ASSETS: &[Asset] = &FILES;\n");
    let generated = out_dir.join("dashboard.rs");
    write(&generated, code.as_bytes())
}

/// The folder of the built dashboard; `None` if it was not built. Tells cargo which paths to watch.
fn built_dashboard(workspace_root: &Path) -> Result<Option<PathBuf>> {
    println!("cargo:rerun-if-env-changed={DASHBOARD_DIR}");
    let is_whole = |dir: &Path| BUILT_FILES.iter().all(|name| dir.join(name).is_file());
    if let Some(dir) = env::var_os(DASHBOARD_DIR) {
        let dir = PathBuf::from(dir);
        if !is_whole(&dir) {
            bail!(
                "{DASHBOARD_DIR} is {}, but no dashboard is there: \
                 build it with `cargo xtask build`, or unset the variable",
                dir.display()
            );
        }
        return Ok(Some(dir));
    }

    let target = workspace_root.join("target");
    let dir = target.join("dashboard");
    if is_whole(&dir) {
        return Ok(Some(dir));
    }
    // Cargo treats a watched path that does not exist as changed, and would rebuild each time; an
    // empty folder avoids that. Without the usual target directory there is nothing to watch.
    if target.is_dir() && (dir.is_dir() || create_old(&dir).is_ok()) {
        println!("cargo:rerun-if-changed={}", dir.display());
    }
    Ok(None)
}

/// Creates a folder that looks older than this run of the build script; otherwise cargo would
/// repeat it once.
fn create_old(dir: &Path) -> io::Result<()> {
    fs::create_dir(dir)?;
    fs::File::open(dir)?.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1))
}

/// Compresses as far as gzip can: from another host, browsers accept nothing better without TLS.
fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut compressor = Compressor::new(CompressionLvl::best());
    let mut compressed = vec![0; compressor.gzip_compress_bound(bytes.len())];
    let length = compressor.gzip_compress(bytes, &mut compressed)?;
    compressed.truncate(length);
    Ok(compressed)
}

/// Compresses for browsers on the same host (or at the end of a tunnel), and with TLS.
fn brotli(mut bytes: &[u8]) -> Result<Vec<u8>> {
    let mut compressed = Vec::new();
    let parameters = BrotliEncoderParams {
        size_hint: bytes.len(),
        ..BrotliEncoderParams::default()
    };
    BrotliCompress(&mut bytes, &mut compressed, &parameters)?;
    Ok(compressed)
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

fn content_type(name: &str) -> Result<&'static str> {
    Ok(match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("wasm") => "application/wasm",
        _ => bail!("no content type is known for {name}"),
    })
}

fn main() -> Result<()> {
    let folder = |name| {
        env::var_os(name)
            .map(PathBuf::from)
            .with_context(|| format!("cargo sets {name}"))
    };
    println!("cargo:rerun-if-changed=build.rs");
    let workspace = folder("CARGO_MANIFEST_DIR")?.join("../../..");
    embed(&folder("OUT_DIR")?, &workspace)
}
