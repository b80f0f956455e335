//! Stand-in until the dashboard's own build step: one page that says nothing yet.

use std::io::Write;

fn main() -> std::io::Result<()> {
    let out = std::env::var("OUT_DIR").map_err(std::io::Error::other)?;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(b"<!doctype html><title>netto</title><h1>netto</h1>")?;
    std::fs::write(format!("{out}/index.html.gz"), gzip.finish()?)?;
    std::fs::write(
        format!("{out}/dashboard.rs"),
        "pub static ASSETS: &[Asset] = &[Asset { path: \"/index.html\", content_type: \"text/html; charset=utf-8\", etag: \"\\\"1\\\"\", gzip: include_bytes!(concat!(env!(\"OUT_DIR\"), \"/index.html.gz\")) }];\n",
    )?;
    println!("cargo::rerun-if-changed=build.rs");
    Ok(())
}
