//! Paths of real hosts, and impossible ones.

use netto_analysis::escapes::{ELLIPSIS, LONGEST_SHOWN_BYTES, is_confusing};
use proptest::prelude::*;

use super::*;

const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const INNER: &str = "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210";
const UID: &str = "11111111-2222-3333-4444-555555555555";
const UID_IN_SLICE: &str = "11111111_2222_3333_4444_555555555555";

/// Container and runtime of a path in which `ID` and so on stand for these.
fn container_of(path: &str) -> (String, &'static str) {
    let names = names(filled(path).as_bytes());
    (names.container, names.runtime)
}

fn filled(path: &str) -> String {
    let path = path.replace("SLICED", UID_IN_SLICE).replace("UID", UID);
    path.replace("INNER", INNER).replace("ID", ID)
}

#[test]
fn each_runtime_has_its_way_to_name_a_container() {
    for (path, runtime) in [
        ("/docker/ID", "docker"),
        ("/system.slice/docker-ID.scope", "docker"),
        ("/system.slice/docker-ID.scope/init.scope", "docker"),
        ("/docker/ID/system.slice/nginx.service", "docker"),
        (
            "/kubepods.slice/kubepods-podSLICED.slice/cri-containerd-ID.scope",
            "containerd",
        ),
        ("/kubepods/besteffort/podUID/ID", "containerd"),
        ("/system.slice/nerdctl-ID.scope", "containerd"),
        (
            "/kubepods.slice/kubepods-podSLICED.slice/crio-ID.scope",
            "cri-o",
        ),
        ("/kubepods/podUID/crio-ID", "cri-o"),
        ("/machine.slice/libpod-ID.scope", "podman"),
        ("/machine.slice/libpod-ID.scope/container", "podman"),
        ("/machine.slice/libpod-conmon-ID.scope", "podman"),
        ("/libpod_parent/libpod-ID", "podman"),
        (
            "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-ID.scope",
            "podman",
        ),
        ("/nobody-knows/ID", ""),
    ] {
        assert_eq!(container_of(path), (ID.to_owned(), runtime), "{path}");
    }
}

#[test]
fn containers_and_machines_with_names_have_these() {
    for (path, name, runtime) in [
        (
            "/lxc.payload.web-1/system.slice/ssh.service",
            "web-1",
            "lxc",
        ),
        ("/lxc/web-1", "web-1", "lxc"),
        ("/lxc.payload/web-1", "web-1", "lxc"),
        (
            "/machine.slice/systemd-nspawn@web\\x2d1.service/payload",
            "web-1",
            "systemd-nspawn",
        ),
        (
            "/machine.slice/machine-web\\x2d1.scope",
            "web-1",
            "systemd-nspawn",
        ),
        (
            "/machine.slice/machine-qemu\\x2d3\\x2dguest.scope",
            "qemu-3-guest",
            "libvirt",
        ),
    ] {
        assert_eq!(container_of(path), (name.to_owned(), runtime), "{path}");
    }
}

#[test]
fn what_only_looks_like_a_container_is_none() {
    for path in [
        "/",
        "",
        "/docker",
        "/docker/buildx",
        "/system.slice/docker.service",
        "/system.slice/docker-0123.scope",
        "/kubepods.slice/kubepods-podSLICED.slice/crio-conmon-ID.scope",
        "/lxc",
        "/lxc.payload.",
        "/lxc.monitor.web-1",
        "/machine.slice/machine-.scope",
        "/machine.slice/systemd-nspawn@.service",
        "/of/anybody/ID/below",
        "/short/IDa",
    ] {
        assert_eq!(container_of(path), (String::new(), ""), "{path}");
    }
}

#[test]
fn of_containers_in_containers_the_innermost_counts() {
    let kind = "/docker/ID/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/\
                kubelet-kubepods-burstable-podSLICED.slice/cri-containerd-INNER.scope";
    assert_eq!(container_of(kind), (INNER.to_owned(), "containerd"));
    assert_eq!(names(filled(kind).as_bytes()).pod_uid, UID);
    assert_eq!(
        container_of("/lxc.payload.a/docker/ID"),
        (ID.to_owned(), "docker")
    );
}

#[test]
fn pods_have_one_identity_however_their_path_is_written() {
    for path in [
        "/kubepods.slice/kubepods-podSLICED.slice",
        "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podSLICED.slice/crio-ID.scope",
        "/kubepods/burstable/podUID/ID",
        "/kubepods/podUID",
        "/docker/ID/kubelet/kubepods/besteffort/podUID/INNER",
    ] {
        assert_eq!(names(filled(path).as_bytes()).pod_uid, UID, "{path}");
    }
    // A pod of a file on the node, whose identity is a hash.
    let hash = "0123456789abcdef0123456789abcdef";
    let path =
        format!("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{hash}.slice");
    assert_eq!(names(path.as_bytes()).pod_uid, hash);
    for none in [
        "/podUID",
        "/kubepods/podracer",
        "/kubepods/pod",
        "/kubepods/burstable",
    ] {
        assert_eq!(names(filled(none).as_bytes()).pod_uid, "", "{none}");
    }
}

#[test]
fn the_unit_is_the_innermost_that_is_no_slice_else_the_innermost_slice() {
    for (path, unit) in [
        ("/", ""),
        ("/system.slice", "system.slice"),
        ("/system.slice/nginx.service", "nginx.service"),
        (
            "/user.slice/user-1000.slice/user@1000.service/app.slice/x.service",
            "x.service",
        ),
        (
            "/user.slice/user-1000.slice/user@1000.service/app.slice",
            "user@1000.service",
        ),
        (
            "/user.slice/user-1000.slice/session-3.scope",
            "session-3.scope",
        ),
        ("/user.slice/user-1000.slice", "user-1000.slice"),
        ("/system.slice/_cpu.service", "cpu.service"),
        ("/system.slice/.service", "system.slice"),
        ("/system.slice/a.service/worker", "a.service"),
    ] {
        assert_eq!(names(path.as_bytes()).unit, unit, "{path}");
    }
}

#[test]
fn odd_bytes_are_escaped_and_text_is_left_alone() {
    for (bytes, text) in [
        (&b"/web/\xc3\xa4"[..], "/web/ä"),
        (b"a\xffb", "a\\xffb"),
        (b"a\\xffb", "a\\\\xffb"),
        (b"\x1b[2J\n\x7f", "\\x1b[2J\\x0a\\x7f"),
        // Turns the direction of a text around.
        ("a\u{202e}b".as_bytes(), "a\\xe2\\x80\\xaeb"),
        // A control of eight bits.
        ("\u{9b}".as_bytes(), "\\xc2\\x9b"),
    ] {
        assert_eq!(shown(bytes), text);
    }
}

#[test]
fn of_a_long_name_beginning_and_end_are_shown() {
    let long = format!("/first/{}/last", "x".repeat(4000));
    let text = shown(long.as_bytes());
    assert!(text.starts_with("/first/x") && text.ends_with("x/last") && text.contains(ELLIPSIS));
    assert_eq!(text.len(), LONGEST_SHOWN_BYTES);
    // An escape is whole or not there.
    let text = shown(&[0xff; 1000]);
    assert!(
        text.replace("\\xff", "") == ELLIPSIS && text.len() > LONGEST_SHOWN_BYTES - 8,
        "{text}"
    );
}

/// Decodes displayed text to bytes.
fn read_back(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("\\\\") {
            bytes.push(b'\\');
            rest = after;
        } else if let Some(digits) = rest.strip_prefix("\\x") {
            bytes.push(u8::from_str_radix(&digits[..2], 16).unwrap());
            rest = &digits[2..];
        } else {
            bytes.extend(c.encode_utf8(&mut [0; 4]).as_bytes());
            rest = &rest[c.len_utf8()..];
        }
    }
    bytes
}

/// Bytes that are likely to be part of something known.
fn any_path() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..80),
        "/?(docker|lxc|kubepods|machine|libpod|crio|pod|_|x2d)[-./_@\\\\]"
            .prop_map(String::into_bytes),
        "(\\.slice|\\.scope|\\.service|[0-9a-f]{64}|[0-9a-f]{32}|\\\\x.{0,2})/?"
            .prop_map(String::into_bytes),
    ];
    proptest::collection::vec(part, 0..12).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn whatever_the_path_all_that_is_shown_is_short_and_harmless(path in any_path()) {
        let names = names(&path);
        for text in [names.container, names.pod_uid, names.unit, shown(&path)] {
            prop_assert!(text.len() <= LONGEST_SHOWN_BYTES);
            prop_assert!(!text.contains(is_confusing), "{text:?}");
        }
    }

    #[test]
    fn no_two_short_names_are_shown_alike(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        prop_assert_eq!(read_back(&shown(&bytes)), bytes);
    }
}
