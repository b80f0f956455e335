//! Packs what was built. Every file has the commit's time and no owner, so that the same source
//! gives the same bytes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::{Dist, TARGET, tools};
use crate::{build, process, sysroot};

/// Packs everything.
pub fn all(dist: &Dist) -> Result<()> {
    manual(dist)?;
    sbom(dist)?;
    compress(dist)?;
    deb(dist, "1", &dist.out)?;
    rpm(dist, "1", &dist.out)?;
    image(dist)?;
    chart(dist)?;
    fs::copy(dist.files().join("netto-static"), static_binary(dist))
        .context("cannot copy the static binary")?;
    sums(dist)
}

/// The binary for systems without glibc.
pub fn static_binary(dist: &Dist) -> PathBuf {
    dist.out
        .join(format!("netto-{}-x86_64-linux-static", dist.version))
}

/// A file of this folder whose name ends so.
pub fn ending(folder: &Path, end: &str) -> Result<PathBuf> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut found: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.to_string_lossy().ends_with(end))
        .collect();
    ensure!(
        found.len() == 1,
        "{} has {} files …{end}",
        folder.display(),
        found.len()
    );
    found.pop().context("just counted")
}

/// Man pages and completions, by the program that shares netto's command line.
fn manual(dist: &Dist) -> Result<()> {
    let mut cargo = build::cargo_with_product(&dist.root)?;
    cargo.args(["run", "--quiet", "--package", "netto-manual", "--"]);
    process::run(cargo.arg(dist.files()))?;
    let man = dist.files().join("man");
    fs::create_dir_all(&man)?;
    for entry in fs::read_dir(dist.files())? {
        let page = entry?.path();
        if page.extension().is_some_and(|ending| ending == "1") {
            fs::rename(
                &page,
                man.join(page.file_name().context("a page has a name")?),
            )?;
        }
    }
    Ok(())
}

fn compress(dist: &Dist) -> Result<()> {
    let files = dist.files();
    fs::copy(dist.root.join("CHANGELOG.md"), files.join("CHANGELOG.md"))?;
    let mut gzip = dist.command("gzip");
    // --no-name leaves out name and time, so that equal files have equal archives.
    gzip.args(["-9", "--no-name", "--keep"])
        .args(["CHANGELOG.md", SBOM].map(|name| files.join(name)));
    process::run(&mut gzip)?;
    let mut pages = dist.command("gzip");
    pages
        .args(["-9", "--no-name", "--recursive"])
        .arg(files.join("man"));
    process::run(&mut pages)
}

/// The package for Debian and Ubuntu, of this revision.
pub fn deb(dist: &Dist, revision: &str, folder: &Path) -> Result<()> {
    let mut deb = dist.command(tools::program(&dist.tools, "cargo-deb"));
    deb.args([
        "--quiet",
        "--package",
        "netto",
        "--no-build",
        "--no-strip",
        "--target",
        TARGET,
    ])
    .args(["--deb-revision", revision, "--output"])
    .arg(folder);
    process::run(&mut deb)
}

/// The package for Fedora, RHEL and SUSE, of this release.
pub fn rpm(dist: &Dist, release: &str, folder: &Path) -> Result<()> {
    let mut rpm = dist.command(tools::program(&dist.tools, "cargo-generate-rpm"));
    rpm.args(["--package", "netto", "--target", TARGET])
        .args(["--source-date", &dist.epoch])
        .args(["--set-metadata", &format!("release = \"{release}\"")])
        .arg("--output")
        .arg(folder);
    process::run(&mut rpm)
}

/// The image, as an archive that podman, skopeo and containerd read.
fn image(dist: &Dist) -> Result<()> {
    let (files, context) = (dist.files(), dist.out.join("image"));
    fs::create_dir_all(&context)?;
    fs::copy(files.join("netto-static"), context.join("netto"))?;
    fs::copy(files.join(SBOM), context.join(SBOM))?;
    for name in ["LICENSE", "dist/NOTICE"] {
        let from = dist.root.join(name);
        fs::copy(
            &from,
            context.join(from.file_name().context("a file has a name")?),
        )?;
    }
    let name = format!("netto:{}", dist.version);
    // In a store of its own: the machine's images are not touched.
    let buildah = || {
        let mut command = dist.command("buildah");
        command
            .args(["--storage-driver", "vfs"])
            .arg("--root")
            .arg(dist.out.join("store"))
            .arg("--runroot")
            .arg(dist.out.join("store-run"));
        command
    };
    let mut build = buildah();
    build
        .args([
            "build",
            "--quiet",
            "--isolation",
            "chroot",
            "--timestamp",
            &dist.epoch,
        ])
        .args(["--tag", &name, "--label"])
        .arg(format!("org.opencontainers.image.version={}", dist.version))
        .args(["--label", "org.opencontainers.image.licenses=MIT"])
        .arg("--file")
        .arg(dist.root.join("dist/container/Containerfile"));
    process::run(build.arg(&context))?;
    let layout = dist.out.join("oci");
    let to = format!("oci:{}:{name}", layout.display());
    process::run(buildah().args(["push", "--quiet", &name, &to]))?;
    tar(
        dist,
        &layout,
        &[".".as_ref()],
        &format!("netto-{}-oci.tar", dist.version),
    )?;
    for folder in ["store", "store-run", "image"] {
        sysroot::remove(&dist.out.join(folder))?;
    }
    Ok(())
}

/// What `helm package` makes, but with one time for all files.
fn chart(dist: &Dist) -> Result<()> {
    let charts = dist.root.join("dist/helm");
    tar(
        dist,
        &charts,
        &["netto".as_ref()],
        &format!("netto-chart-{}.tgz", dist.version),
    )
}

fn tar(dist: &Dist, folder: &Path, what: &[&Path], name: &str) -> Result<()> {
    let mut tar = dist.command("tar");
    tar.args([
        "--sort=name",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
        "--format=gnu",
    ])
    .args(["--mode=u+rw,go=rX", &format!("--mtime=@{}", dist.epoch)]);
    if name.ends_with(".tgz") {
        tar.args(["--use-compress-program", "gzip -9 --no-name"]);
    }
    tar.arg("--create").arg("--file").arg(dist.out.join(name));
    process::run(tar.arg("--directory").arg(folder).args(what))
}

/// What netto is made of, with the licence of each part, in CycloneDX's form.
const SBOM: &str = "netto.cdx.json";

fn sbom(dist: &Dist) -> Result<()> {
    let mut list = dist.command(tools::program(&dist.tools, "cargo-cyclonedx"));
    list.args([
        "cyclonedx",
        "--manifest-path",
        "netto/Cargo.toml",
        "--format",
        "json",
    ])
    .args([
        "--no-build-deps",
        "--target",
        TARGET,
        "--override-filename",
        "dist-sbom",
    ]);
    process::run(&mut list)?;
    // cargo-cyclonedx writes a file beside the manifest of each crate; it names this machine's folder.
    for file in crate::tree::files(&dist.root)? {
        if file
            .file_name()
            .is_some_and(|name| name == "dist-sbom.json")
        {
            let whole = dist.root.join(&file);
            if file == Path::new("netto/dist-sbom.json") {
                let text = fs::read_to_string(&whole)?;
                let text = text.replace(&*dist.root.to_string_lossy(), "/netto");
                fs::write(dist.files().join(SBOM), &text)?;
                fs::write(
                    dist.out.join(format!("netto-{}.cdx.json", dist.version)),
                    &text,
                )?;
            }
            fs::remove_file(&whole)?;
        }
    }
    Ok(())
}

/// The checksum of each file that others get.
fn sums(dist: &Dist) -> Result<()> {
    let mut names: Vec<_> = fs::read_dir(&dist.out)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.is_file())
        .filter_map(|path| path.file_name().map(ToOwned::to_owned))
        .collect();
    names.sort();
    let mut sums = Command::new("sha256sum");
    sums.current_dir(&dist.out)
        .args(names)
        .stdout(Stdio::piped());
    let sums = process::output(&mut sums)?;
    fs::write(dist.out.join("SHA256SUMS"), sums + "\n").context("cannot write SHA256SUMS")
}
