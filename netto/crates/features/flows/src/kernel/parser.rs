//! The parser of the programs (`parse.h`), compiled for this process.

use crate::abi;
use crate::flow::{Frame, Packet};

unsafe extern "C" {
    fn netto_flows_parse(
        frame: *const u8,
        captured: u32,
        frame_bytes: u32,
        is_inner: bool,
        packet: *mut u64,
    ) -> i32;
}

/// What flows are of where a packet is in a tunnel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Headers {
    /// The tunnel.
    #[default]
    Outer,
    /// The packet within it.
    Inner,
}

/// Parses a frame of this length, of which these bytes are there.
pub(crate) fn parse(captured: &[u8], frame_bytes: u32, headers: Headers) -> Frame {
    let mut packet = [0; abi::FLOW_PACKET_END];
    // No header is behind the first 64 KiB.
    let captured = &captured[..captured.len().min(usize::from(u16::MAX))];
    let length = captured.len() as u32;
    // SAFETY: the function reads at most `length` bytes of `captured`, which has as many, and writes
    // one record of FLOW_PACKET_END words, which `packet` has.
    let outcome = unsafe {
        netto_flows_parse(
            captured.as_ptr(),
            length,
            frame_bytes.max(length),
            headers == Headers::Inner,
            packet.as_mut_ptr(),
        )
    };
    match outcome as usize {
        abi::FLOWS_PARSED => Frame::Packet(Packet(packet)),
        abi::FLOWS_OTHER => Frame::Other,
        _ => Frame::Malformed,
    }
}

#[cfg(test)]
mod tests;
