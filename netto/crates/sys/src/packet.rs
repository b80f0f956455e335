//! The parser of the programs (`packet.h`), compiled for this process.

use crate::abi;
pub use crate::abi::{
    FLOW_PACKET_DESTINATION, FLOW_PACKET_END, FLOW_PACKET_FRAGMENT, FLOW_PACKET_FRAGMENT_ID,
    FLOW_PACKET_IP_BYTES, FLOW_PACKET_PLACE, FLOW_PACKET_SOURCE, FLOW_PACKET_TALK,
    FLOW_PACKET_TCP_FLAGS, FLOW_PACKET_TOS, FLOW_PACKET_TTL, PACKET_FIRST_FRAGMENT,
    PACKET_LATER_FRAGMENT, PACKET_VERSIONS, PACKET_VLAN,
};

unsafe extern "C" {
    fn netto_packet_parse(
        frame: *const u8,
        captured: u32,
        frame_bytes: u32,
        is_inner: bool,
        is_copied: bool,
        packet: *mut u64,
    ) -> i32;
    fn netto_packet_of_capture(
        frame: *const u8,
        captured: u32,
        frame_bytes: u32,
        is_inner: bool,
        is_cut: *mut bool,
        packet: *mut u64,
    ) -> i32;
    fn netto_packet_ends(
        packet: *const u8,
        captured: u32,
        bytes: u32,
        ethertype: u32,
        is_copied: bool,
        ends: *mut u64,
    );
}

/// What flows are of where a packet is in a tunnel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Headers {
    /// The tunnel.
    #[default]
    Outer,
    /// The packet within it.
    Inner,
}

/// How the parser loads bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// In place, as programs at interfaces and sockets.
    InPlace,
    /// Copied, as programs at tracepoints.
    Copied,
}

/// What the parser says of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parsed {
    /// A packet of a flow, in the words of the programs.
    Packet([u64; FLOW_PACKET_END]),
    /// No IP packet.
    Other,
    /// A header is wrong or cut off.
    Malformed,
}

/// No header is behind the first 64 KiB.
fn first_bytes(captured: &[u8]) -> (&[u8], u32) {
    let first = &captured[..captured.len().min(usize::from(u16::MAX))];
    (first, first.len() as u32)
}

/// Parses a frame of this length, of which these bytes are there.
pub fn parse(captured: &[u8], frame_bytes: u32, headers: Headers, load: Load) -> Parsed {
    let mut packet = [0; FLOW_PACKET_END];
    let (captured, length) = first_bytes(captured);
    // SAFETY: the function reads at most `length` bytes of `captured`, which has as many, and writes
    // one record of FLOW_PACKET_END words, which `packet` has.
    let outcome = unsafe {
        netto_packet_parse(
            captured.as_ptr(),
            length,
            frame_bytes.max(length),
            headers == Headers::Inner,
            load == Load::Copied,
            packet.as_mut_ptr(),
        )
    };
    parsed(outcome, packet)
}

fn parsed(outcome: i32, packet: [u64; FLOW_PACKET_END]) -> Parsed {
    match outcome as usize {
        abi::PACKET_PARSED => Parsed::Packet(packet),
        abi::PACKET_OTHER => Parsed::Other,
        _ => Parsed::Malformed,
    }
}

/// Parses a frame of this length from a file, which may have been captured in part, and tells whether the
/// capture ends between its addresses and the end of its transport's header: what is missing counts as 0.
pub fn parse_capture(captured: &[u8], frame_bytes: u32, headers: Headers) -> (Parsed, bool) {
    let mut packet = [0; FLOW_PACKET_END];
    let mut is_cut = false;
    let (captured, length) = first_bytes(captured);
    // SAFETY: the function reads at most `length` bytes of `captured`, which has as many, and writes
    // one bool, and one record of FLOW_PACKET_END words, which `packet` has.
    let outcome = unsafe {
        netto_packet_of_capture(
            captured.as_ptr(),
            length,
            frame_bytes.max(length),
            headers == Headers::Inner,
            &raw mut is_cut,
            packet.as_mut_ptr(),
        )
    };
    (parsed(outcome, packet), is_cut)
}

/// The ends of the flow of an IP packet of this length and type, of which these bytes are there, as
/// `netto_analysis::tagged::FlowEnds::from_words` takes them; the last is 0 if they are not known.
pub fn ends(captured: &[u8], bytes: u32, ethertype: u16, load: Load) -> [u64; abi::ENDS_WORDS] {
    let mut ends = [0; abi::ENDS_WORDS];
    let (captured, length) = first_bytes(captured);
    // SAFETY: the function reads at most `length` bytes of `captured`, which has as many, and writes
    // ENDS_WORDS words, which `ends` has.
    unsafe {
        netto_packet_ends(
            captured.as_ptr(),
            length,
            bytes.max(length),
            ethertype.into(),
            load == Load::Copied,
            ends.as_mut_ptr(),
        );
    }
    ends
}
