//! Finds out by trying what this host allows, and describes remedies.
//!
//! Only gathers facts; `analysis::plan` draws the conclusions.

use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr;

use anyhow::{Context, bail};
use libbpf_rs::libbpf_sys::{BPF_PROG_TYPE_SOCKET_FILTER, bpf_prog_load};

use super::btf;
use super::files;
use super::perf::SamplingEvent;
use super::preemption;
use super::sockets;
use super::system::{self, Roots};
use metrics_common::COMPONENTS;
use netto_analysis::classify::Classifier;
use netto_analysis::found::FoundSymbols;
use netto_analysis::plan::{Facts, SOCKET_FUNCTIONS};

/// The kernel's BTF, below `/sys`.
const BTF: &str = "kernel/btf/vmlinux";
/// Who may open perf events, below `/proc`.
const PARANOID: &str = "sys/kernel/perf_event_paranoid";

/// Gathers the facts, and the classifier if symbols can be read.
///
/// # Errors
/// BTF cannot be read.
pub fn gather(roots: &Roots, frequency_hz: u64) -> anyhow::Result<(Facts, Option<Classifier>)> {
    let type_information = roots.sys_root.join(BTF);
    if !type_information.exists() {
        let lack = format!(
            "the kernel has no type information (there is no {}), which netto's BPF programs need; \
             run a kernel built with CONFIG_DEBUG_INFO_BTF=y",
            type_information.display()
        );
        return Ok((Facts::without_programs(lack), None));
    }
    if !has_fetching_atomics() {
        let lack = format!(
            "Linux {} has no atomic operations that return the old value, which netto's BPF programs \
             need; run a kernel from 5.12 on",
            system::kernel_release()
        );
        return Ok((Facts::without_programs(lack), None));
    }
    let names: Vec<&str> = SOCKET_FUNCTIONS
        .iter()
        .map(|function| function.name)
        .collect();
    let existing =
        btf::functions_among(&names).context("cannot read the kernel's type information (BTF)")?;
    let mut socket_functions = SOCKET_FUNCTIONS.to_vec();
    socket_functions.retain(|function| existing.contains(function.name));

    let fentry = match socket_functions.first() {
        Some(function) => sockets::try_load(*function).map_err(|error| format!("{error:#}")),
        None => Err("this kernel has none of the functions to hook".to_owned()),
    };
    let has_kprobes = roots
        .sys_root
        .join("bus/event_source/devices/kprobe")
        .exists();
    let kprobe = match (&fentry, socket_functions.first()) {
        _ if !has_kprobes => Err("has no kprobes (CONFIG_KPROBE_EVENTS)".to_owned()),
        // A function that exists but is refused (lockdown=confidentiality) matters only if it is
        // needed as a replacement.
        (Err(_), Some(function)) => {
            sockets::try_kprobe(*function).map_err(|error| format!("refuses kprobes ({error:#})"))
        }
        _ => Ok(()),
    };
    let (symbols, classifier) = match read_symbols(roots) {
        Ok(classifier) => (Ok(()), Some(classifier)),
        Err(error) => (Err(format!("{error:#}")), None),
    };
    let has_symbols = match &classifier {
        Some(classifier) => classifier.has_symbols().to_vec(),
        None => vec![false; COMPONENTS.len()],
    };
    let is_realtime = roots.is_realtime();
    let tracepoints = if is_realtime {
        preemption::programs_are_whole().map_err(|error| format!("{error:#}"))
    } else {
        // No task preempts a softirq, nor a context switch: what runs in one is whole.
        Ok(())
    };
    let stacks = try_sampling(roots, frequency_hz).map_err(|error| format!("{error:#}"));
    let facts = Facts {
        programs: Ok(()),
        fentry,
        kprobe,
        socket_functions,
        stacks,
        symbols,
        has_symbols,
        is_realtime,
        tracepoints,
    };
    Ok((facts, classifier))
}

/// Whether the kernel knows the youngest instructions of netto's programs, by loading one. `true` if
/// it refuses the program for another reason, such as lacking privileges: later ones tell that.
fn has_fetching_atomics() -> bool {
    // r0 = 0; *(r10 - 8) = r0; r0 = fetch_and_add(r10 - 8, r0); return r0
    const PROGRAM: [u64; 4] = [0xb7, 0xfff8_0a7b, 0x1_fff8_0adb, 0x95];
    // SAFETY: an instruction has the size of a word, and no stricter alignment; they live during the
    // call, and their number is theirs; the texts end with 0; without options libbpf takes its own.
    let descriptor = unsafe {
        bpf_prog_load(
            BPF_PROG_TYPE_SOCKET_FILTER,
            c"netto_atomics".as_ptr(),
            c"Dual MIT/GPL".as_ptr(),
            PROGRAM.as_ptr().cast(),
            PROGRAM.len() as u64,
            ptr::null_mut(),
        )
    };
    if descriptor >= 0 {
        // SAFETY: the descriptor is new, and nothing else owns it.
        drop(unsafe { OwnedFd::from_raw_fd(descriptor) });
    }
    descriptor != -libc::EINVAL
}

/// Reads the kernel's symbols.
///
/// # Errors
/// Why they cannot be used, and the remedy.
pub fn read_symbols(roots: &Roots) -> anyhow::Result<Classifier> {
    Ok(Classifier::new(roots.kallsyms()?)?)
}

/// The kernel functions that the rules of each component name.
///
/// # Errors
/// As [`read_symbols`].
pub fn read_found_symbols(roots: &Roots) -> anyhow::Result<FoundSymbols> {
    Ok(FoundSymbols::read(roots.kallsyms()?)?)
}

fn try_sampling(roots: &Roots, frequency_hz: u64) -> anyhow::Result<()> {
    // Any online CPU will do; a wrong list is reported elsewhere.
    let online = roots.online_cpus().unwrap_or_default();
    let cpu = online.first().copied().unwrap_or(0);
    match SamplingEvent::open(cpu, frequency_hz) {
        Ok(_) => Ok(()),
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            bail!(
                "the kernel refuses to sample {frequency_hz} times a second; lower --frequency or raise \
                 sysctl kernel.perf_event_max_sample_rate"
            )
        }
        Err(error) => bail!(
            "the kernel refuses to open a sampling event ({error}); {}",
            remedy(roots)
        ),
    }
}

/// Who may open perf events on this host.
fn remedy(roots: &Roots) -> String {
    match files::read_number(&roots.proc_root.join(PARANOID)) {
        // A patch of Debian and Ubuntu; mainline kernels know no more than 2.
        Ok(level @ 3..) => format!(
            "run as root or with CAP_SYS_ADMIN, or set sysctl kernel.perf_event_paranoid from {level} \
             to 2, with which CAP_PERFMON is enough"
        ),
        _ => "run as root or with CAP_PERFMON".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_kernel_that_refuses_events_to_cap_perfmon_is_recognised() {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots {
            proc_root: folder.path().into(),
            sys_root: folder.path().into(),
        };
        let setting = folder.path().join(PARANOID);
        fs::create_dir_all(setting.parent().unwrap()).unwrap();
        for (level, capability) in [
            ("-1", "CAP_PERFMON"),
            ("2", "CAP_PERFMON"),
            ("3", "CAP_SYS_ADMIN"),
        ] {
            fs::write(&setting, format!("{level}\n")).unwrap();
            let remedy = remedy(&roots);
            assert!(
                remedy.contains(&format!("root or with {capability}")),
                "{level}: {remedy}"
            );
        }
    }
}
