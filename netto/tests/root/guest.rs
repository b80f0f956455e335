//! Which tests `cargo xtask vm` runs in its guests when it is not told.
//!
//! A guest has neither a browser nor iperf3, and its time is not a machine's: what is
//! chosen here counts, or shows a part that nothing but its own workload reaches.

use crate::trial;

/// Begin of the names of all tests that are run in guests.
pub const SELECTION: &[&str] = &[
    "kernels::",
    "counting::",
    "changes::",
    "hidden::what_wireguard",
    "idle::",
    "owners::who_does_not",
    "latency::every_point",
    "latency::the_clock_is_set",
    "ticks::no_timer",
    "ticks::a_tc_program",
    "packets::those_over",
    "packets::those_for",
    "packets::an_interface",
    "running::no_program_is_left_in_the_kernel_after_sigterm",
    "paths::udp_to_this_host_is_local_delivery_behind_a_firewall_too",
    "paths::frames_over_a_bridge_are_bridging",
    "paths::ipv4_through_a_router_is_forwarding",
    "paths::ipv6_through_a_router_is_forwarding",
];

/// Whether this is one of xtask's guests.
pub fn is_one() -> bool {
    std::env::var("NETTO_TESTS").is_ok_and(|value| value == "guest")
}

/// Whether a test is run in guests.
pub fn is_selected(name: &str) -> bool {
    trial::is_named(name, SELECTION)
}
