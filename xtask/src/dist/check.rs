//! What was made, tried as others would: symbols, packages in a Debian 11, the image's binary in
//! an empty root, the chart against the schemas of Kubernetes.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::{Dist, pack, tools};
use crate::{process, sysroot};

/// The newest glibc that the packages' binary may ask for.
const GLIBC: (u32, u32) = (2, 31);

/// Everything.
pub fn all(dist: &Dist) -> Result<()> {
    tools::install_for_checks(&dist.tools)?;
    licences(dist)?;
    symbols(dist)?;
    package(dist, ".deb", pack::deb, include_str!("debian.sh"))?;
    package(dist, ".rpm", pack::rpm, include_str!("rpm.sh"))?;
    image(dist)?;
    chart(dist)?;
    eprintln!("xtask: what was made is as it should be");
    Ok(())
}

/// The versions of glibc in the output of `objdump -T`.
fn versions(symbols: &str) -> impl Iterator<Item = (u32, u32)> {
    let named = symbols.split("GLIBC_").skip(1);
    named.filter_map(|rest| {
        let mut parts = rest.split(|c: char| !c.is_ascii_digit());
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    })
}

/// The libraries in the output of `objdump -p`.
fn libraries(headers: &str) -> Vec<&str> {
    let lines = headers
        .lines()
        .filter_map(|line| line.trim().strip_prefix("NEEDED"));
    lines.map(str::trim).collect()
}

/// Dependencies are what deny.toml allows. Advisories are left to those who reach their database.
fn licences(dist: &Dist) -> Result<()> {
    // cargo-deny looks at crates for other systems too, which no build here has downloaded.
    process::run(dist.command("cargo").args(["fetch", "--locked", "--quiet"]))?;
    let mut deny = dist.command(dist.tools.join("python/bin/cargo-deny"));
    deny.args([
        "--locked",
        "--offline",
        "check",
        "bans",
        "licenses",
        "sources",
    ]);
    process::run(&mut deny)
}

fn symbols(dist: &Dist) -> Result<()> {
    let binary = dist.files().join("netto");
    let dump = |flag, file: &Path| process::output(Command::new("objdump").arg(flag).arg(file));
    let newest = versions(&dump("-T", &binary)?)
        .max()
        .context("it asks for no glibc")?;
    ensure!(
        newest <= GLIBC,
        "netto asks for glibc {newest:?}, beyond {GLIBC:?}"
    );
    let headers = dump("-p", &binary)?;
    let of_glibc = [
        "libc.so",
        "libm.so",
        "libdl.so",
        "libpthread.so",
        "librt.so",
        "ld-linux",
        "libgcc_s.so",
    ];
    for library in libraries(&headers) {
        ensure!(
            of_glibc.iter().any(|name| library.starts_with(name)),
            "netto asks for {library}, which is not everywhere"
        );
    }
    let headers = dump("-p", &dist.files().join("netto-static"))?;
    ensure!(
        libraries(&headers).is_empty(),
        "the static netto asks for libraries"
    );
    eprintln!(
        "xtask: netto asks for glibc {}.{} and {:?}",
        newest.0,
        newest.1,
        libraries(&dump("-p", &binary)?)
    );
    Ok(())
}

/// Runs a script with this folder as its first argument; what it mounts ends with it.
fn script(text: &str, root: &Path, further: &[&Path]) -> Result<()> {
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "--propagation", "private", "sh", "-euc"])
        .args([&format!("{}{text}", include_str!("start.sh")), "sh"])
        .arg(root)
        .args(further);
    let shown = root.display();
    let output = command.output().context("cannot start unshare")?;
    let stdout = String::from_utf8_lossy(&output.stdout);
    eprint!("{stdout}");
    if !output.status.success() {
        bail!("in {shown}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

/// A package's life in a Debian 11 of its own, up to a newer one.
fn package(
    dist: &Dist,
    ending: &str,
    pack: fn(&Dist, &str, &Path) -> Result<()>,
    life: &str,
) -> Result<()> {
    let (root, newer) = (dist.out.join("root"), dist.out.join("newer"));
    sysroot::copy(&sysroot::base(&dist.tools)?, &root)?;
    fs::create_dir_all(&newer)?;
    pack(dist, "2", &newer)?;
    let (first, second) = (
        pack::ending(&dist.out, ending)?,
        pack::ending(&newer, ending)?,
    );
    script(life, &root, &[&first, &second])?;
    sysroot::remove(&root)?;
    sysroot::remove(&newer)
}

/// The image's layer in an empty root, where nothing else is that the binary could need, and the image as
/// podman runs it.
fn image(dist: &Dist) -> Result<()> {
    let root = dist.out.join("container");
    sysroot::remove(&root)?;
    let image = format!("{}:netto:{}", dist.out.join("oci").display(), dist.version);
    let mut unpack = Command::new("umoci");
    process::run(unpack.args(["unpack", "--image", &image]).arg(&root))?;
    let unit = dist.root.join("dist/systemd/netto.service");
    script(include_str!("image.sh"), &root.join("rootfs"), &[&unit])?;
    sysroot::remove(&root)?;
    let archive = dist.out.join(format!("netto-{}-oci.tar", dist.version));
    let name = format!("localhost/netto:{}", dist.version);
    let further = [&archive, Path::new(&name), &unit];
    script(include_str!("container.sh"), &root, &further)?;
    sysroot::remove(&root)
}

/// What Helm is told that the cluster is.
const KUBERNETES: &str = "1.34";
/// Versions whose schemas the chart is held against: from the first that it says it is for.
const SCHEMAS: [&str; 3] = ["1.25.0", "1.34.0", "1.37.0"];
/// The kind of an operator, of which Kubernetes has no schema.
const FOREIGN: &str = "ServiceMonitor";
/// Values that switch everything on.
const ALL: [&str; 6] = [
    "config.owners=process",
    "webConfig.secretName=web",
    "serviceMonitor.enabled=true,serviceMonitor.endpoint.scheme=https",
    "networkPolicy.enabled=true",
    "address=$(HOST_IP)",
    "priorityClassName=system-node-critical",
];

fn chart(dist: &Dist) -> Result<()> {
    let chart = dist.root.join("dist/helm/netto");
    let schemas = dist.out.join("schemas");
    for version in SCHEMAS {
        kubeconform_schemas(dist, version, &schemas.join(version))?;
    }
    let helm = || dist.command(tools::program(&dist.tools, "helm"));
    process::run(helm().args(["lint", "--strict"]).arg(&chart))?;
    for (name, values) in [("defaults", &[][..]), ("everything", &ALL[..])] {
        let mut template = helm();
        template
            .args(["template", "netto", "--kube-version", KUBERNETES])
            .arg(&chart);
        for value in values {
            template.args(["--set", value]);
        }
        let text = process::output(&mut template)?;
        let (foreign, others): (Vec<&str>, Vec<&str>) = text
            .split("\n---\n")
            .partition(|part| part.contains(&format!("\nkind: {FOREIGN}")));
        let policies = others
            .iter()
            .filter(|part| part.contains("\nkind: NetworkPolicy"))
            .count();
        let wanted = usize::from(!values.is_empty());
        ensure!(
            foreign.len() == wanted && policies == wanted,
            "{name}: {} service monitors and {policies} network policies instead of {wanted}",
            foreign.len()
        );
        let file = dist.out.join(format!("manifests-{name}.yaml"));
        fs::write(&file, others.join("\n---\n"))?;
        let mut validate = dist.command(dist.tools.join("python/bin/kubernetes-validate"));
        validate.arg("--strict").arg(&file);
        process::run(&mut validate)?;
        fs::write(&file, &text)?;
        for version in SCHEMAS {
            let mut conform = dist.command(tools::program(&dist.tools, "kubeconform"));
            let kinds = "{{ .ResourceKind }}{{ .KindSuffix }}.json";
            conform
                .args(["-strict", "-summary", "-skip", FOREIGN])
                .args(["-kubernetes-version", version, "-schema-location"])
                .arg(schemas.join(version).join(kinds))
                .arg(&file);
            process::run(&mut conform)?;
        }
        fs::remove_file(&file)?;
    }
    sysroot::remove(&schemas)
}

/// The schemas that kubernetes-validate brings along, for kubeconform: there they refer to each other by
/// addresses that only that program understands, here by the names of their files.
fn kubeconform_schemas(dist: &Dist, version: &str, to: &Path) -> Result<()> {
    let mut find = dist.command(dist.tools.join("python/bin/python"));
    find.args([
        "-c",
        "import kubernetes_validate as own; print(own.__path__[0])",
    ]);
    let from = Path::new(&process::output(&mut find)?)
        .join(format!("kubernetes-json-schema/v{version}-local-strict"));
    fs::create_dir_all(to)?;
    let files = fs::read_dir(&from).with_context(|| format!("no schemas in {}", from.display()))?;
    for file in files {
        let file = file?;
        let text = fs::read_to_string(file.path())?;
        let text = by_file_names(&text)
            .with_context(|| format!("{} is no schema", file.path().display()))?;
        fs::write(to.join(file.file_name()), text)?;
    }
    Ok(())
}

/// A schema that refers to others by their files: without an address of its own.
fn by_file_names(schema: &str) -> Result<String> {
    let text = schema.replace("\"/api/_definitions.json", "\"_definitions.json");
    let mut schema: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&text)?;
    schema.remove("$id");
    Ok(serde_json::to_string(&schema)?)
}

/// Makes everything a second time, from a clone in another place, and compares.
pub fn twice(dist: &Dist) -> Result<()> {
    let clone = dist.root.join("target/dist-again");
    sysroot::remove(&clone)?;
    let mut git = Command::new("git");
    git.args(["clone", "--quiet", "--no-hardlinks"])
        .arg(&dist.root)
        .arg(&clone);
    process::run(&mut git)?;
    let again = Dist::of(&clone, &dist.tools)?;
    again.make()?;
    let sums = |dist: &Dist| {
        let file = dist.out.join("SHA256SUMS");
        fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))
    };
    let (first, second) = (sums(dist)?, sums(&again)?);
    ensure!(first == second, "two builds differ:\n{first}\n{second}");
    eprintln!("xtask: two builds are the same:\n{first}");
    sysroot::remove(&clone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_finds_the_others_beside_it() {
        let schema = r##"{"$id":"https://kubernetes.io/api/x/v1","properties":{"a":{"$ref":"/api/_definitions.json#/$defs/b"}}}"##;
        assert_eq!(
            by_file_names(schema).unwrap(),
            r##"{"properties":{"a":{"$ref":"_definitions.json#/$defs/b"}}}"##
        );
        assert!(by_file_names("[]").is_err());
    }

    #[test]
    fn versions_and_libraries_are_read_as_objdump_writes_them() {
        let symbols = "\
0000000000000000      DF *UND*\t0000000000000000 (GLIBC_2.2.5) getenv
0000000000000000      DF *UND*\t0000000000000000 (GLIBC_2.34) __libc_start_main
0000000000000000      DF *UND*\t0000000000000000 (GCC_3.0) _Unwind_Resume
";
        assert_eq!(versions(symbols).collect::<Vec<_>>(), [(2, 2), (2, 34)]);
        let headers = "Dynamic Section:\n  NEEDED               libm.so.6\n  SONAME  x\n";
        assert_eq!(libraries(headers), ["libm.so.6"]);
    }
}
