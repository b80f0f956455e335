//! What netto needs from the system, and which Debian package brings it.
//!
//! Pure: says what is missing when told what is there. Installing is `setup`'s part.

/// How to tell that something is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// A program in PATH.
    Program(&'static str),
    /// A file at one of these places.
    File(&'static [&'static str]),
}

/// One thing that the system must have.
#[derive(Debug, Clone, Copy)]
pub struct Need {
    /// How to tell that it is there.
    pub sign: Sign,
    /// The Debian and Ubuntu package that brings it.
    pub package: &'static str,
    /// What it is for, to be read after "needed for".
    pub purpose: &'static str,
}

const fn program(name: &'static str, package: &'static str, purpose: &'static str) -> Need {
    Need {
        sign: Sign::Program(name),
        package,
        purpose,
    }
}

const fn file(
    places: &'static [&'static str],
    package: &'static str,
    purpose: &'static str,
) -> Need {
    Need {
        sign: Sign::File(places),
        package,
        purpose,
    }
}

/// To build netto.
pub const BUILD: &[Need] = &[
    program("clang", "clang", "compiling the BPF programs"),
    program("cc", "gcc", "compiling and linking"),
    program("make", "make", "building libbpf"),
    program("pkg-config", "pkg-config", "finding libelf"),
    file(&["/usr/include/stdio.h"], "libc6-dev", "compiling libbpf"),
    file(
        &["/usr/include/linux/bpf.h"],
        "linux-libc-dev",
        "compiling libbpf",
    ),
    file(
        &["/usr/include/libelf.h", "/usr/local/include/libelf.h"],
        "libelf-dev",
        "libbpf",
    ),
    file(
        &["/usr/include/zlib.h", "/usr/local/include/zlib.h"],
        "zlib1g-dev",
        "libbpf",
    ),
];

/// To test netto with real traffic and a real browser.
pub const TEST: &[Need] = &[
    program("ip", "iproute2", "network namespaces in the tests"),
    program("iperf3", "iperf3", "traffic in the tests"),
    program("nft", "nftables", "firewall rules in the tests"),
    program("ethtool", "ethtool", "switching offloads in the tests"),
    program("tcpdump", "tcpdump", "reading packets in the tests"),
    program("nfcapd", "nfdump", "collecting IPFIX in the tests"),
    program("tshark", "tshark", "reading IPFIX in the tests"),
    program("wg", "wireguard-tools", "a tunnel in the tests"),
    program("setpriv", "util-linux", "tests without permission"),
    program(
        "unshare",
        "util-linux",
        "a browser that leaves nothing behind",
    ),
    program("chromium", "chromium", "testing the dashboard"),
    program("chromedriver", "chromium-driver", "testing the dashboard"),
    program("curl", "curl", "fetching what tests the dashboard"),
    program("python3", "python3", "what reads exports in the tests"),
    program(
        "systemd-analyze",
        "systemd",
        "checking the service in the tests",
    ),
    program("jq", "jq", "the commands of the pages in the tests"),
    program("tshark", "tshark", "reading packets in the tests"),
];

/// To test netto at length.
pub const LONG_TEST: &[Need] = &[
    program("bpftrace", "bpftrace", "a plain script beside netto"),
    program("tcpreplay", "tcpreplay", "another sender beside netto's"),
    program("haproxy", "haproxy", "a load balancer that asks for scores"),
    program("mkfs.ext4", "e2fsprogs", "disks of the tests' own"),
];

/// To test netto on other kernels, in virtual machines.
pub const GUESTS: &[Need] = &[
    program(
        "qemu-system-x86_64",
        "qemu-system-x86",
        "testing on other kernels",
    ),
    program("busybox", "busybox-static", "the shell of the test guests"),
    program("strip", "binutils", "programs that fit into test guests"),
    program("xz", "xz-utils", "unpacking kernel modules for test guests"),
];

/// To test netto in guests of arm64, beside what the other guests need.
pub const ARM64_GUESTS: &[Need] = &[
    program(
        "qemu-system-aarch64",
        "qemu-system-arm",
        "testing on kernels of arm64",
    ),
    program(
        "aarch64-linux-gnu-gcc",
        "gcc-aarch64-linux-gnu",
        "compiling and linking for arm64",
    ),
];

/// To measure what netto costs.
pub const BENCH: &[Need] = &[
    program("ip", "iproute2", "network namespaces in the benchmark"),
    program("iperf3", "iperf3", "bulk TCP in the benchmark"),
    program("setpriv", "util-linux", "loads that end with the benchmark"),
    program("chromium", "chromium", "measuring the dashboard"),
    program("chromedriver", "chromium-driver", "measuring the dashboard"),
];

/// To make packages and to try them.
pub const DIST: &[Need] = &[
    program("git", "git", "the time of the files in packages"),
    program("debootstrap", "debootstrap", "linking with an old glibc"),
    program("buildah", "buildah", "making the image"),
    program("objdump", "binutils", "looking at what the binary asks for"),
    program("capsh", "libcap2-bin", "trying packages without privileges"),
    program("curl", "curl", "trying packages"),
    program("rpm", "rpm", "trying the .rpm"),
    program("umoci", "umoci", "trying the image"),
    program("podman", "podman", "running the image"),
    program("runc", "runc", "running the image"),
    program("python3", "python3", "trying the chart"),
];

/// The needs that are not met, given a way to look for a sign.
pub fn missing<'a>(
    needs: impl IntoIterator<Item = &'a Need>,
    is_there: impl Fn(Sign) -> bool,
) -> Vec<&'a Need> {
    needs
        .into_iter()
        .filter(|need| !is_there(need.sign))
        .collect()
}

/// The packages that bring those of these programs that tests and guests need on this machine.
pub fn with_programs<'a>(programs: impl IntoIterator<Item = &'a &'a str>) -> Vec<&'static str> {
    let all = || TEST.iter().chain(GUESTS);
    let need_of = |program: &&str| all().find(|need| name(need.sign) == *program);
    let needs = programs.into_iter().filter_map(need_of);
    needs.map(|need| need.package).collect()
}

/// The sign as a person would name it.
pub fn name(sign: Sign) -> &'static str {
    match sign {
        Sign::Program(name) => name,
        Sign::File(places) => places.first().copied().unwrap_or("a file"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_not_there_is_missing() {
        let found = missing(BUILD, |sign| sign != Sign::Program("clang"));
        let packages: Vec<&str> = found.iter().map(|need| need.package).collect();
        assert_eq!(packages, ["clang"]);
    }

    #[test]
    fn a_program_is_in_its_package() {
        assert_eq!(with_programs(&["no-such", "wg"]), ["wireguard-tools"]);
    }

    #[test]
    fn nothing_is_missing_where_everything_is_there() {
        assert!(missing(BUILD.iter().chain(TEST).chain(GUESTS), |_| true).is_empty());
    }

    #[test]
    fn no_package_name_could_be_taken_for_an_option_by_apt() {
        for need in BUILD
            .iter()
            .chain(TEST)
            .chain(LONG_TEST)
            .chain(BENCH)
            .chain(GUESTS)
            .chain(ARM64_GUESTS)
            .chain(DIST)
        {
            assert!(
                need.package
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.+".contains(&b))
                    && !need.package.starts_with('-'),
                "{}",
                need.package
            );
        }
    }
}
