//! The address family of socket calls: stacks of Linux 6.18, most of them recorded under loops over
//! one family each.

use super::*;

const GENERIC: [&str; 4] = [
    "import_ubuf < __sys_sendto < __x64_sys_sendto < do_syscall_64",
    "security_socket_recvmsg < sock_recvmsg < __sys_recvfrom < do_syscall_64",
    "inode_init_once < sock_alloc_inode < alloc_inode < sock_alloc < __sock_create < __sys_socket < do_syscall_64",
    "sock_poll < do_sys_poll < __x64_sys_poll < do_syscall_64",
];
const INTERNET: [(&str, &str); 4] = [
    (
        "udp_sendmsg < __sys_sendto < __x64_sys_sendto < do_syscall_64",
        "send_datagram",
    ),
    (
        "__skb_recv_udp < udp_recvmsg < sock_recvmsg < __sys_recvfrom < do_syscall_64",
        "receive_protocol",
    ),
    (
        "sk_alloc < inet_create < __sock_create < __sys_socket < do_syscall_64",
        "connections",
    ),
    (
        "datagram_poll < udp_poll < sock_poll < do_sys_poll < do_syscall_64",
        "socket_poll",
    ),
];
const LOCAL: [&str; 4] = [
    "unix_dgram_sendmsg < __sys_sendto < __x64_sys_sendto < do_syscall_64",
    "__unix_dgram_recvmsg < sock_recvmsg < __sys_recvfrom < do_syscall_64",
    "sk_alloc < unix_create1 < unix_create < __sock_create < __sys_socket < do_syscall_64",
    "unix_dgram_poll < sock_poll < do_sys_poll < do_syscall_64",
];
const IN_NETWORKING: [&str; 4] = [
    "send_socket",
    "receive_socket",
    "connections",
    "socket_poll",
];

fn kernel() -> Kernel {
    let internet = INTERNET.map(|(stack, _)| stack);
    Kernel::with(&[GENERIC, internet, LOCAL].concat())
}

#[test]
fn a_call_whose_family_no_stack_has_shown_is_not_networking() {
    let mut kernel = kernel();
    for stack in GENERIC {
        assert_eq!(kernel.classify(None, stack), Some("socket_unknown"));
    }
    // The stacks of one call tell nothing of another.
    kernel.classify(None, INTERNET[0].0);
    assert_eq!(kernel.classify(None, GENERIC[0]), Some("send_socket"));
    for stack in &GENERIC[1..] {
        assert_eq!(kernel.classify(None, stack), Some("socket_unknown"));
    }
}

#[test]
fn a_loop_over_local_sockets_is_not_networking_at_all() {
    let mut kernel = kernel();
    for (local, generic) in LOCAL.iter().zip(GENERIC) {
        for stack in [local, generic, local, generic, generic] {
            assert_eq!(kernel.classify(None, stack), Some("local_ipc"), "{stack}");
        }
    }
}

#[test]
fn a_loop_over_internet_sockets_is_networking_down_to_the_system_call() {
    let mut kernel = kernel();
    for (((internet, part), generic), generic_part) in
        INTERNET.iter().zip(GENERIC).zip(IN_NETWORKING)
    {
        assert_eq!(kernel.classify(None, internet), Some(*part));
        assert_eq!(kernel.classify(None, generic), Some(generic_part));
    }
}

#[test]
fn where_families_mix_the_shared_instructions_are_divided_as_the_others_are() {
    let mut kernel = kernel();
    for number in 0..1000 {
        kernel.classify(
            None,
            if number % 4 == 0 {
                LOCAL[2]
            } else {
                INTERNET[2].0
            },
        );
    }
    let local = (0..1000).filter(|_| kernel.classify(None, GENERIC[2]) == Some("local_ipc"));
    let local = local.count();
    // The newest count most.
    assert!((240..=260).contains(&local), "{local} of 1000");
}

#[test]
fn where_the_clock_knows_the_call_it_is_not_guessed() {
    let mut kernel = kernel();
    kernel.classify(None, LOCAL[0]);
    let owner = |kernel: &mut Kernel, source| kernel.classify(Some(source), GENERIC[0]);
    assert_eq!(owner(&mut kernel, Source::SocketSend), Some("send_socket"));
    assert_eq!(
        owner(&mut kernel, Source::LocalIpc),
        None,
        "its own, without parts"
    );
}

#[test]
fn the_protocol_that_a_call_reaches_by_a_jump_stands_for_its_family() {
    check(
        None,
        &[
            (
                "__ip4_datagram_connect < ip4_datagram_connect < __sys_connect < do_syscall_64",
                Some("connections"),
            ),
            (
                "do_tcp_setsockopt < do_sock_setsockopt < __sys_setsockopt < do_syscall_64",
                Some("connections"),
            ),
            (
                "tcp_get_info < do_tcp_getsockopt < do_sock_getsockopt < __sys_getsockopt",
                Some("connections"),
            ),
            (
                "packet_snd < packet_sendmsg < __sys_sendto < do_syscall_64",
                Some("send_datagram"),
            ),
            (
                "netlink_release < __sock_release < sock_close < __fput",
                Some("local_ipc"),
            ),
        ],
    );
}
