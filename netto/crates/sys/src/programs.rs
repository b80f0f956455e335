//! The kernel's BPF programs: their names, and where their code is. Listing them takes CAP_SYS_ADMIN.

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::io::{self, ErrorKind};
use std::mem::size_of_val;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

use libbpf_rs::btf::{Btf, BtfType, TypeId};
use libbpf_rs::libbpf_sys::{
    self, bpf_func_info, bpf_obj_get_info_by_fd, bpf_prog_get_fd_by_id, bpf_prog_get_next_id,
    bpf_prog_info, bpf_prog_query_opts as QueryOptions, libbpf_bpf_attach_type_str,
    libbpf_bpf_prog_type_str,
};

use super::bpf_stats::information;
use super::files;

/// Names of this length may have been cut off.
const LONGEST_NAME: usize = 15;
/// Most functions read of a program.
const MOST_FUNCTIONS: u32 = 1024;
/// Most programs read of one hook.
const MOST_ATTACHED: u32 = 64;

/// A program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoadedProgram {
    /// Its number.
    pub id: u32,
    /// Its name, in full where it has type information.
    pub name: String,
    /// Its type, by libbpf's name.
    pub kind: &'static str,
    /// The hash of its instructions.
    pub tag: [u8; 8],
    /// Addresses `[start, end)` of its functions; empty where the kernel hides them.
    pub functions: Vec<(u64, u64)>,
}

/// The number of the first program after this one; `None` if it is the last.
///
/// # Errors
/// The kernel's refusal.
pub fn next(after: u32) -> io::Result<Option<u32>> {
    let mut next = 0;
    // SAFETY: `next` is a valid word to write to.
    let result = unsafe { bpf_prog_get_next_id(after, &raw mut next) };
    match absent(result)? {
        None => Ok(None),
        // Numbers only wrap around after two billion programs.
        Some(_) => Ok((next > after).then_some(next)),
    }
}

/// How often a program has run while the kernel counted; `None` if it is gone.
///
/// # Errors
/// The kernel's refusal.
pub fn runs(id: u32) -> io::Result<Option<u64>> {
    let info = open(id)?.and_then(|program| information(&program));
    Ok(info.map(|(info, _)| info.run_cnt))
}

/// A program by its number; `None` if it is gone.
///
/// # Errors
/// The kernel's refusal.
pub fn read(id: u32) -> io::Result<Option<LoadedProgram>> {
    let Some(program) = open(id)? else {
        return Ok(None);
    };
    let Some((sizes, _)) = information(&program) else {
        return Err(io::Error::last_os_error());
    };
    let most = |count: u32| count.min(MOST_FUNCTIONS);
    let count = most(sizes.nr_jited_ksyms.min(sizes.nr_jited_func_lens));
    let mut starts = vec![0_u64; count as usize];
    let mut lengths = vec![0_u32; count as usize];
    let mut first = bpf_func_info::default();
    let has_types = sizes.nr_func_info > 0 && sizes.func_info_rec_size > 0;
    let mut info = bpf_prog_info {
        nr_jited_ksyms: count,
        jited_ksyms: starts.as_mut_ptr() as u64,
        nr_jited_func_lens: count,
        jited_func_lens: lengths.as_mut_ptr() as u64,
        nr_func_info: u32::from(has_types),
        func_info_rec_size: size_of_val(&first) as u32,
        func_info: (&raw mut first) as u64,
        ..bpf_prog_info::default()
    };
    let mut bytes = size_of_val(&info) as u32;
    // SAFETY: the descriptor is open. The kernel writes at most `bytes` bytes to `info`, which is as
    // large, and at most the stated numbers of elements behind the pointers in it, which are those
    // of the vectors, and one record of its stated size; all outlive the call.
    let result = unsafe {
        bpf_obj_get_info_by_fd(program.as_raw_fd(), (&raw mut info).cast(), &raw mut bytes)
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    let short = info.name.iter().map(|byte| *byte as u8);
    let short: Vec<u8> = short.take_while(|byte| *byte != 0).collect();
    let mut name = String::from_utf8_lossy(&short).into_owned();
    if name.len() == LONGEST_NAME && has_types {
        name = full_name(id, first.type_id).unwrap_or(name);
    }
    let is_shown = info.jited_ksyms != 0 && info.jited_func_lens != 0 && info.jited_prog_len > 0;
    let functions = starts.into_iter().zip(lengths);
    let functions = functions.map(|(start, length)| (start, start.saturating_add(length.into())));
    Ok(Some(LoadedProgram {
        id,
        name,
        kind: kind(info.type_),
        tag: info.tag,
        functions: if is_shown {
            functions.filter(|(start, _)| *start != 0).collect()
        } else {
            Vec::new()
        },
    }))
}

/// The programs that this process holds.
pub fn own() -> BTreeSet<u32> {
    let folder = std::fs::read_dir(Path::new("/proc/self/fdinfo"));
    let entries = folder.into_iter().flatten().flatten();
    let texts = entries.filter_map(|entry| files::read(&entry.path()).ok());
    texts
        .filter_map(|text| {
            let line = text.lines().find_map(|line| line.strip_prefix("prog_id:"));
            line?.trim().parse().ok()
        })
        .collect()
}

/// The name of a way of attaching, by its number: `tcx_ingress`.
pub fn attach_name(number: u32) -> &'static str {
    // SAFETY: the function takes any number.
    named(unsafe { libbpf_bpf_attach_type_str(number) })
}

/// The programs that are attached in this way to an interface of this thread's network namespace, by
/// its number, or to a control group, by a descriptor of its folder; none where the kernel does not
/// know the way.
pub fn attached(target: u32, way: u32) -> Vec<u32> {
    let mut ids = vec![0; MOST_ATTACHED as usize];
    let mut options = QueryOptions {
        sz: size_of::<QueryOptions>() as _,
        prog_ids: ids.as_mut_ptr(),
        ..QueryOptions::default()
    };
    options.__bindgen_anon_1.prog_cnt = MOST_ATTACHED;
    // SAFETY: the kernel writes at most the stated number of words to `ids`, which is as long.
    let result = unsafe { libbpf_sys::bpf_prog_query_opts(target as i32, way, &raw mut options) };
    // SAFETY: both members of the union are the same word.
    let count = unsafe { options.__bindgen_anon_1.prog_cnt };
    ids.truncate(if result == 0 { count as usize } else { 0 });
    ids
}

fn kind(number: u32) -> &'static str {
    // SAFETY: the function takes any number.
    named(unsafe { libbpf_bpf_prog_type_str(number) })
}

fn named(name: *const std::ffi::c_char) -> &'static str {
    if name.is_null() {
        return "unknown";
    }
    // SAFETY: libbpf's names are constants that end in zero.
    unsafe { CStr::from_ptr(name) }
        .to_str()
        .unwrap_or("unknown")
}

fn open(id: u32) -> io::Result<Option<OwnedFd>> {
    // SAFETY: the call takes no pointer.
    let descriptor = absent(unsafe { bpf_prog_get_fd_by_id(id) })?;
    // SAFETY: the kernel has just returned this descriptor, and nothing else owns it.
    Ok(descriptor.map(|descriptor| unsafe { OwnedFd::from_raw_fd(descriptor) }))
}

/// The result of a call of libbpf, which is `None` if there is no such program.
fn absent(result: i32) -> io::Result<Option<i32>> {
    if result >= 0 {
        return Ok(Some(result));
    }
    let error = io::Error::from_raw_os_error(-result);
    match error.kind() {
        ErrorKind::NotFound => Ok(None),
        _ => Err(error),
    }
}

fn full_name(program: u32, function: u32) -> Option<String> {
    let types = Btf::from_prog_id(program).ok()?;
    let function = types.type_by_id::<BtfType<'_>>(TypeId::from(function))?;
    Some(function.name()?.to_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_libbpfs() {
        assert_eq!(
            [kind(6), kind(3), kind(9_999)],
            ["xdp", "sched_cls", "unknown"]
        );
        assert_eq!(attach_name(46), "tcx_ingress");
        assert_eq!(attached(u32::MAX >> 1, 46), [0_u32; 0]);
    }

    #[test]
    fn programs_are_listed_in_order_where_the_kernel_lists_them() {
        let mut last = 0;
        for _ in 0..10 {
            match next(last) {
                Ok(Some(id)) => {
                    assert!(id > last);
                    last = id;
                    if let Some(program) = read(id).unwrap() {
                        assert_eq!(program.id, id);
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
                    return;
                }
            }
        }
        let last = (u32::MAX >> 1) - 1;
        assert_eq!(next(last).unwrap(), None);
        assert_eq!(read(last).unwrap(), None);
    }
}
