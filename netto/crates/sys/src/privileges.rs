//! What this process may do: no more than measuring needs, and in the threads that serve HTTP
//! next to nothing.
//!
//! Capabilities, seccomp filters and Landlock rules belong to a thread and go on to those that it
//! starts (capabilities(7), seccomp(2), landlock(7)). docs/SECURITY.md says what is kept and why.

use std::fmt;

use anyhow::Context;
pub use caps::Capability;
use caps::{CapSet, CapsHashSet};
use landlock::{ABI, Access, AccessFs, Ruleset, RulesetAttr, RulesetStatus};
use nix::sys::prctl;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

/// What measuring needs, also long after the start.
pub const NEEDED: [Capability; 7] = [
    // Attaching probes in windows and at a reload.
    Capability::CAP_BPF,
    Capability::CAP_PERFMON,
    // Addresses in /proc/kallsyms, which is read anew when modules come.
    Capability::CAP_SYSLOG,
    // The list of BPF programs, network namespaces, and perf events where a distribution's
    // kernel asks for it (Debian's and Ubuntu's perf_event_paranoid of 3 and 4).
    Capability::CAP_SYS_ADMIN,
    // Sockets and control groups of other users' processes in /proc.
    Capability::CAP_SYS_PTRACE,
    Capability::CAP_DAC_READ_SEARCH,
    // XDP and tc programs that count flows.
    Capability::CAP_NET_ADMIN,
];

/// System calls that serving HTTP never needs, and an intruder would.
const DENIED: [libc::c_long; 33] = [
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_finit_module,
    libc::SYS_fsopen,
    libc::SYS_init_module,
    libc::SYS_io_uring_setup,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_move_mount,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
];

/// Lowers this thread's capabilities to those of measuring and to these, for good; with a log also to
/// write into folders of other users. To be called before there are other threads.
///
/// # Errors
/// The kernel refuses.
pub fn keep_needed(
    has_log: bool,
    more: impl IntoIterator<Item = Capability>,
) -> anyhow::Result<()> {
    prctl::set_no_new_privs().context("cannot set no_new_privs")?;
    let for_log = has_log.then_some(Capability::CAP_DAC_OVERRIDE);
    keep(&NEEDED.into_iter().chain(for_log).chain(more).collect())
}

fn keep(wanted: &CapsHashSet) -> anyhow::Result<()> {
    let held = caps::read(None, CapSet::Permitted)?;
    let kept: CapsHashSet = held.intersection(wanted).copied().collect();
    // Without CAP_SETPCAP there is nothing to lower the bounding set with, and no new privileges
    // come by it either (no_new_privs).
    if held.contains(&Capability::CAP_SETPCAP) {
        for other in caps::read(None, CapSet::Bounding)?.difference(wanted) {
            caps::drop(None, CapSet::Bounding, *other)?;
        }
    }
    caps::clear(None, CapSet::Ambient)?;
    caps::clear(None, CapSet::Inheritable)?;
    caps::set(None, CapSet::Effective, &kept)?;
    caps::set(None, CapSet::Permitted, &kept)?;
    Ok(())
}

/// What holds a thread that serves HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confinement {
    /// What the kernel does not enforce, with the reasons.
    pub lacks: Vec<String>,
}

impl fmt::Display for Confinement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HTTP is served without capabilities, files and privileged system calls")?;
        if !self.lacks.is_empty() {
            write!(f, ", except: {}", self.lacks.join("; "))?;
        }
        Ok(())
    }
}

/// Takes from this thread, and those that it starts, all capabilities, the right to open files,
/// and system calls that change the host; each as far as the kernel has it.
pub fn confine() -> Confinement {
    let steps = [
        (
            "no_new_privs",
            prctl::set_no_new_privs().map_err(Into::into),
        ),
        ("capabilities", keep(&CapsHashSet::new())),
        ("Landlock", forbid_files()),
        ("seccomp", forbid_calls()),
    ];
    let lacks = steps.into_iter().filter_map(|(what, step)| {
        let error = step.err()?;
        Some(format!("{what}: {error:#}"))
    });
    Confinement {
        lacks: lacks.collect(),
    }
}

/// A thread that does one thing, for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duty {
    /// Talks to others, and opens files that anybody may open (those of the resolver).
    Send,
    /// Writes files, also into folders of other users.
    Write,
}

/// Takes from this thread, and those that it starts, what its duty does not need. What the kernel
/// refuses is warned of.
pub fn confine_to(duty: Duty) {
    let needed = match duty {
        Duty::Send => None,
        Duty::Write => Some(Capability::CAP_DAC_OVERRIDE),
    };
    let confined = prctl::set_no_new_privs()
        .map_err(Into::into)
        .and_then(|()| keep(&needed.into_iter().collect()))
        .and_then(|()| forbid_calls());
    if let Err(error) = confined {
        tracing::warn!("a thread keeps privileges that it does not need: {error:#}");
    }
}

fn forbid_files() -> anyhow::Result<()> {
    let rules = Ruleset::default().handle_access(AccessFs::from_all(ABI::V1))?;
    let status = rules.create()?.restrict_self()?;
    anyhow::ensure!(
        status.ruleset != RulesetStatus::NotEnforced,
        "this kernel does not have it, or it is not among its `lsm=`"
    );
    Ok(())
}

fn forbid_calls() -> anyhow::Result<()> {
    let denied = DENIED.into_iter().map(|call| (call, Vec::new()));
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let filter = SeccompFilter::new(denied.collect(), SeccompAction::Allow, refused, arch)?;
    Ok(seccompiler::apply_filter(&BpfProgram::try_from(filter)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_confined_thread_has_no_capability_and_cannot_start_programs() {
        let outcome = std::thread::spawn(|| {
            let confinement = confine();
            // The kernel of the tests has no Landlock, perhaps.
            let lacks = confinement.lacks.iter();
            assert!(
                lacks.clone().all(|lack| lack.starts_with("Landlock: ")),
                "{confinement}"
            );
            assert!(caps::read(None, CapSet::Permitted).unwrap().is_empty());
            let error = std::process::Command::new("true").status().unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
            if lacks.count() == 0 {
                assert!(std::fs::File::open("/proc/self/status").is_err());
            }
        });
        outcome.join().unwrap();
        for (duty, kept) in [
            (Duty::Send, None),
            (Duty::Write, Some(Capability::CAP_DAC_OVERRIDE)),
        ] {
            let held = caps::read(None, CapSet::Permitted).unwrap();
            let confined = std::thread::spawn(move || {
                confine_to(duty);
                assert!(std::process::Command::new("true").status().is_err());
                assert!(std::fs::File::open("/proc/self/status").is_ok());
                caps::read(None, CapSet::Effective).unwrap()
            });
            let kept = kept.filter(|kept| held.contains(kept));
            assert_eq!(confined.join().unwrap(), kept.into_iter().collect());
        }
        // Other threads are as before.
        assert!(
            std::process::Command::new("true")
                .status()
                .unwrap()
                .success()
        );
    }
}
