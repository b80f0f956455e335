//! The architectures of guests: what netto is compiled by for each, and the machine that runs it.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};

use super::system::{SHELL, System, TOOLS};
use crate::apt::Apt;
use crate::{packages, rustup, setup, sysroot};

/// An architecture that guests have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Architecture {
    /// x86-64: that of the machine.
    Amd64,
    /// ARM with 64 bits, emulated and compiled for.
    Arm64,
}

/// A machine of QEMU's. The kernel's messages go to the first serial port of its command line, and
/// what the guest says to one that is named to its first process.
#[derive(Debug)]
pub struct Machine {
    /// The program.
    pub program: &'static str,
    /// The machine and its CPUs.
    pub kind: &'static [&'static str],
    /// Begin of the kernel's command line.
    pub words: &'static str,
    /// Makes a serial port of standard output, after the first one.
    pub output: &'static [&'static str],
    /// CPUs, those that can come later among them.
    pub cpus: &'static str,
}

/// Names of the only architecture that is not the machine's.
const ARM64: &str = "arm64";
const ARM64_RUST: &str = "aarch64-unknown-linux-gnu";
const ARM64_GNU: &str = "aarch64-linux-gnu";

impl Architecture {
    /// What runs its guests.
    pub fn machine(self) -> Machine {
        match self {
            Architecture::Amd64 => Machine {
                program: "qemu-system-x86_64",
                kind: &["-cpu", "max"],
                words: "console=ttyS0 output=ttyS1",
                output: &["-serial", "stdio"],
                // More possible CPUs than present ones, as most firmware announces.
                cpus: "2,maxcpus=4",
            },
            Architecture::Arm64 => Machine {
                program: "qemu-system-aarch64",
                // A server's CPU: "max" would also sign pointers in every function, which is slow in QEMU.
                kind: &["-machine", "virt", "-cpu", "neoverse-n1"],
                words: "console=ttyAMA0 output=ttyS0",
                output: &[
                    "-chardev",
                    "stdio,id=output",
                    "-device",
                    "pci-serial,chardev=output",
                ],
                cpus: "2",
            },
        }
    }

    /// The packages of its kernels.
    ///
    /// # Errors
    /// The archives have none.
    pub fn apt(self, folder: &Path) -> Result<Apt> {
        match self {
            Architecture::Amd64 => Ok(Apt::native()),
            Architecture::Arm64 => Apt::foreign(ARM64, &folder.join("apt-arm64")),
        }
    }

    /// Fetches what compiles for it and runs it, and the system that its guests are made of.
    ///
    /// # Errors
    /// Something is not to be had.
    pub fn prepare(self, folder: &Path) -> Result<System> {
        if self == Architecture::Amd64 {
            return Ok(System::ThisMachine);
        }
        setup::ensure_needs(packages::ARM64_GUESTS, &[])?;
        let toolchain = rustup::sysroot()?;
        ensure!(
            rustup::has_target(&toolchain, ARM64_RUST)
                || rustup::add_target(&toolchain, ARM64_RUST),
            "netto cannot be compiled for arm64, because rustup cannot fetch the standard library \
             for it; type this to see why: rustup target add {ARM64_RUST}"
        );
        let place = folder.join("system-arm64");
        let wanted = packages::with_programs(TOOLS.iter().chain(&[SHELL]));
        sysroot::foreign(&place, &self.apt(folder)?, ARM64_GNU, &wanted)?;
        Ok(System::Unpacked {
            root: place,
            gnu: ARM64_GNU,
        })
    }

    /// Lets cargo compile for it.
    pub fn compile_for(system: &System, cargo: &mut Command) {
        let System::Unpacked { root, gnu } = system else {
            return;
        };
        let target = ARM64_RUST.replace('-', "_");
        let variable = |name: &str| format!("CARGO_TARGET_{}_{name}", target.to_uppercase());
        cargo
            .args(["--target", ARM64_RUST])
            .env(
                format!("CFLAGS_{target}"),
                format!("--sysroot={}", root.display()),
            )
            .env(variable("LINKER"), format!("{gnu}-gcc"))
            .env(
                variable("RUSTFLAGS"),
                format!("-Clink-arg=--sysroot={}", root.display()),
            );
    }

    /// The program that takes from a program what only debuggers read.
    pub fn strip(self) -> &'static str {
        match self {
            Architecture::Amd64 => "strip",
            Architecture::Arm64 => "aarch64-linux-gnu-strip",
        }
    }
}
