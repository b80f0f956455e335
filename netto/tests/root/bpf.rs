//! Small BPF programs for the tests, written here instruction by instruction, so
//! that a virtual machine needs neither clang nor an object file to load them.

use std::os::fd::{AsFd, AsRawFd, RawFd};

use anyhow::{Context, Result, bail};
use libbpf_rs::{
    AsRawLibbpf, Link, MapCore, MapFlags, MapHandle, MapType, Object, ObjectBuilder, Xdp, XdpFlags,
    libbpf_sys,
};

/// Additions in a program: some microseconds, so that its packets' cost is its own.
const WORK: usize = 12_000;
/// The verdict of an XDP program that drops a packet.
const XDP_DROP: i32 = 1;
/// The verdict of an XDP program that lets a packet pass.
pub const XDP_PASS: i32 = 2;
/// The verdict of a tcx program that has nothing to say.
pub const TCX_NEXT: i32 = -1;

/// Attaches a program that lets every packet pass after some work, or hands it to
/// another CPU.
///
/// `how` is `xdp-generic`, `tcx`, `xdp-cpumap`, `xdp-drop`, which lets none pass, `xdp-pass`, which does
/// nothing else, or `cgroup-skb`, for what the group of this folder sends. Meant for a process of its own: the program
/// stays for as long as the process (tcx), the device (XDP) or the group.
pub fn attach(how: &str, device: &str) -> Result<Object> {
    if how == "cgroup-skb" {
        return attach_to_group(device);
    }
    let index = device_index(device)?;
    // The program keeps the map, once it is loaded.
    let mut cpus = None;
    let (section, code) = match how {
        "xdp-generic" => ("xdp", working(XDP_PASS)),
        "xdp-drop" => ("xdp", idle(XDP_DROP)),
        "xdp-pass" => ("xdp", idle(XDP_PASS)),
        "xdp-cpumap" => {
            let map = cpus.insert(cpumap()?);
            ("xdp", redirecting(map.as_fd().as_raw_fd()))
        }
        "tcx" => return attach_tcx(device, &working(TCX_NEXT)),
        _ => bail!("a program cannot be attached by {how:?}"),
    };
    let object = load(section, &code)?;
    let mode = match how {
        "xdp-generic" => XdpFlags::SKB_MODE,
        _ => XdpFlags::DRV_MODE,
    };
    attach_xdp(&object, index, mode).with_context(|| format!("cannot attach by {how}"))?;
    Ok(object)
}

fn attach_xdp(object: &Object, index: i32, mode: XdpFlags) -> Result<()> {
    let program = object.progs().next().context("the object has no program")?;
    Ok(Xdp::new(program.as_fd()).attach(index, mode)?)
}

/// Attaches a program to a device's received packets by generic XDP, as long as the device is there.
pub fn attach_xdp_generic(device: &str, code: &[u8]) -> Result<Object> {
    let index = device_index(device)?;
    let object = load("xdp", code)?;
    attach_xdp(&object, index, XdpFlags::SKB_MODE).context("cannot attach by generic XDP")?;
    Ok(object)
}

/// Attaches a program to a device's received packets, for the lifetime of the process.
pub fn attach_tcx(device: &str, code: &[u8]) -> Result<Object> {
    let index = device_index(device)?;
    let object = load("tcx/ingress", code)?;
    let program = object.progs().next().context("the object has no program")?;
    let raw = program.as_libbpf_object().as_ptr();
    // SAFETY: `raw` is the loaded program that `object` owns; null options mean the defaults.
    let link = unsafe { libbpf_sys::bpf_program__attach_tcx(raw, index, std::ptr::null()) };
    if link.is_null() {
        return Err(std::io::Error::last_os_error()).context("cannot attach by tcx");
    }
    Ok(object)
}

/// Attaches a program to what a control group sends, without a link.
fn attach_to_group(folder: &str) -> Result<Object> {
    const PASS: i32 = 1;
    let group = std::fs::File::open(folder).with_context(|| format!("no group {folder}"))?;
    let object = load("cgroup_skb/egress", &working(PASS))?;
    let program = object.progs().next().context("the object has no program")?;
    let (program, group) = (program.as_fd().as_raw_fd(), group.as_raw_fd());
    let (way, flags) = (
        libbpf_sys::BPF_CGROUP_INET_EGRESS,
        libbpf_sys::BPF_F_ALLOW_MULTI,
    );
    // SAFETY: the call takes no pointer.
    match unsafe { libbpf_sys::bpf_prog_attach(program, group, way, flags) } {
        0 => Ok(object),
        error => Err(std::io::Error::from_raw_os_error(-error))
            .with_context(|| format!("cannot attach to {folder}")),
    }
}

/// A program at a tracepoint, until dropped.
pub struct Attached {
    _link: Link,
    _object: Object,
}

/// Attaches a program that does nothing, to a section's hook such as `raw_tp/softirq_entry`.
pub fn attach_empty(section: &'static str) -> Result<Attached> {
    let object = load_empty(section)?;
    Ok(Attached {
        _link: attach_to_its_hook(&object)?,
        _object: object,
    })
}

/// Attaches a program that adds for a while, to a section's hook.
pub fn attach_working(section: &'static str) -> Result<Attached> {
    let object = load(section, &working(0))?;
    Ok(Attached {
        _link: attach_to_its_hook(&object)?,
        _object: object,
    })
}

/// Loads a program that does nothing, for a section's hook.
pub fn load_empty(section: &'static str) -> Result<Object> {
    load(section, &idle(0))
}

/// Attaches the program of an object to the hook of its section, until dropped.
pub fn attach_to_its_hook(object: &Object) -> Result<Link> {
    let program = object
        .progs_mut()
        .next()
        .context("the object has no program")?;
    program
        .attach()
        .with_context(|| format!("cannot attach to {}", program.section().display()))
}

fn load(section: &'static str, code: &[u8]) -> Result<Object> {
    let elf = object_file(section, "nettotest_work", code);
    ObjectBuilder::default()
        .open_memory(&elf)
        .context("libbpf does not understand the test's object")?
        .load()
        .context("the kernel refuses the test's program")
}

/// A map of CPUs that packets can be redirected to; its only entry is CPU 0.
fn cpumap() -> Result<MapHandle> {
    const QUEUED_PACKETS: u32 = 256;
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
        ..Default::default()
    };
    let map = MapHandle::create(MapType::Cpumap, Some("nettotest_cpus"), 4, 4, 1, &options)
        .context("the kernel refuses a map of CPUs")?;
    map.update(&[0; 4], &QUEUED_PACKETS.to_ne_bytes(), MapFlags::ANY)
        .context("CPU 0 cannot be redirected to")?;
    Ok(map)
}

fn device_index(device: &str) -> Result<i32> {
    let path = format!("/sys/class/net/{device}/ifindex");
    std::fs::read_to_string(&path)
        .with_context(|| format!("no device {device}: {path}"))?
        .trim()
        .parse()
        .with_context(|| format!("{path} holds no number"))
}

/// One instruction: operation, destination register, immediate value.
fn instruction(operation: u8, register: u8, value: i32) -> [u8; 8] {
    let mut bytes = [operation, register, 0, 0, 0, 0, 0, 0];
    bytes[4..].copy_from_slice(&value.to_le_bytes());
    bytes
}

const MOVE: u8 = 0xb7;
const EXIT: u8 = 0x95;

/// A program that redirects to the first entry of a map, or else lets pass.
fn redirecting(map: RawFd) -> Vec<u8> {
    const LOAD_WIDE: u8 = 0x18;
    const OF_A_MAP: u8 = 1 << 4;
    const CALL: u8 = 0x85;
    const REDIRECT_MAP: i32 = 51;
    [
        instruction(LOAD_WIDE, 1 | OF_A_MAP, map),
        instruction(0, 0, 0),
        instruction(MOVE, 2, 0),
        instruction(MOVE, 3, XDP_PASS),
        instruction(CALL, 0, REDIRECT_MAP),
        instruction(EXIT, 0, 0),
    ]
    .concat()
}

/// A program that adds for a while, then returns the verdict.
fn working(verdict: i32) -> Vec<u8> {
    const ADD: u8 = 0x07;
    let mut code = instruction(MOVE, 0, 0).to_vec();
    for step in 0..WORK {
        code.extend(instruction(ADD, 0, step as i32));
    }
    code.extend(instruction(MOVE, 0, verdict));
    code.extend(instruction(EXIT, 0, 0));
    code
}

/// A program that only gives its verdict.
fn idle(verdict: i32) -> Vec<u8> {
    [instruction(MOVE, 0, verdict), instruction(EXIT, 0, 0)].concat()
}

/// One section of an ELF file.
#[derive(Default)]
struct Section {
    name: &'static str,
    kind: u32,
    flags: u64,
    link: u32,
    info: u32,
    entry_bytes: u64,
    data: Vec<u8>,
}

const HEADER_BYTES: usize = 64;
const SECTION_HEADER_BYTES: u16 = 64;
const SYMBOL_BYTES: u64 = 24;
const PROGBITS: u32 = 1;
const SYMTAB: u32 = 2;
const STRTAB: u32 = 3;
const ALLOCATED_CODE: u64 = 0x6;
const ALLOCATED_DATA: u64 = 0x3;
const MACHINE_BPF: u16 = 247;
const GLOBAL_FUNCTION: u8 = 0x12;

/// The least ELF file that libbpf takes for a BPF object (`man 5 elf`): one
/// function in one section, a licence, and the symbol that names the function.
fn object_file(section: &'static str, function: &str, code: &[u8]) -> Vec<u8> {
    let names = format!("\0{function}\0{section}\0license\0.symtab\0.strtab\0");
    let mut symbols = vec![0; SYMBOL_BYTES as usize];
    symbols.extend(1_u32.to_le_bytes()); // name: the first one
    symbols.extend([GLOBAL_FUNCTION, 0]);
    symbols.extend(1_u16.to_le_bytes()); // section
    symbols.extend(0_u64.to_le_bytes()); // value
    symbols.extend((code.len() as u64).to_le_bytes());
    let sections = [
        Section::default(),
        Section {
            name: section,
            kind: PROGBITS,
            flags: ALLOCATED_CODE,
            data: code.to_vec(),
            ..Section::default()
        },
        Section {
            name: "license",
            kind: PROGBITS,
            flags: ALLOCATED_DATA,
            data: b"GPL\0".to_vec(),
            ..Section::default()
        },
        Section {
            name: ".symtab",
            kind: SYMTAB,
            link: 4,
            info: 1, // the first global symbol
            entry_bytes: SYMBOL_BYTES,
            data: symbols,
            ..Section::default()
        },
        Section {
            name: ".strtab",
            kind: STRTAB,
            data: names.clone().into_bytes(),
            ..Section::default()
        },
    ];
    assemble(&sections, &names)
}

/// Header, then the sections' data, then their headers.
fn assemble(sections: &[Section], names: &str) -> Vec<u8> {
    let mut data = Vec::new();
    let mut headers = Vec::new();
    for section in sections {
        data.resize(data.len().next_multiple_of(8), 0);
        // Every name stands whole between two zeros.
        let name = match section.name {
            "" => 0,
            name => names.find(&format!("\0{name}\0")).map_or(0, |at| at + 1),
        };
        headers.extend((name as u32).to_le_bytes());
        headers.extend(section.kind.to_le_bytes());
        headers.extend(section.flags.to_le_bytes());
        headers.extend(0_u64.to_le_bytes()); // address
        headers.extend(((HEADER_BYTES + data.len()) as u64).to_le_bytes());
        headers.extend((section.data.len() as u64).to_le_bytes());
        headers.extend(section.link.to_le_bytes());
        headers.extend(section.info.to_le_bytes());
        headers.extend(8_u64.to_le_bytes()); // alignment
        headers.extend(section.entry_bytes.to_le_bytes());
        data.extend(&section.data);
    }
    data.resize(data.len().next_multiple_of(8), 0);
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    file.extend(1_u16.to_le_bytes()); // relocatable
    file.extend(MACHINE_BPF.to_le_bytes());
    file.extend(1_u32.to_le_bytes()); // version
    file.extend([0_u8; 16]); // entry point, program headers
    file.extend(((HEADER_BYTES + data.len()) as u64).to_le_bytes());
    file.extend(0_u32.to_le_bytes()); // flags
    file.extend((HEADER_BYTES as u16).to_le_bytes());
    file.extend([0_u8; 4]); // program headers: size, count
    file.extend(SECTION_HEADER_BYTES.to_le_bytes());
    file.extend((sections.len() as u16).to_le_bytes());
    file.extend((sections.len() as u16 - 1).to_le_bytes()); // section of the names
    file.extend(data);
    file.extend(headers);
    file
}
