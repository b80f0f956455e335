//! The parser of the programs, for packets from files.

use netto_sys::packet::{self, Parsed};

pub(crate) use netto_sys::packet::Headers;

use crate::flow::{Frame, Packet};

/// Parses a frame of this length, of which these bytes were captured, and tells whether its ports are missing
/// in part.
pub(crate) fn parse_capture(captured: &[u8], frame_bytes: u32, headers: Headers) -> (Frame, bool) {
    let (parsed, is_cut) = packet::parse_capture(captured, frame_bytes, headers);
    (frame(parsed), is_cut)
}

/// Parses a frame of this length as the programs do, of which these bytes are there.
#[cfg(test)]
pub(crate) fn parse(captured: &[u8], frame_bytes: u32, headers: Headers) -> Frame {
    frame(packet::parse(
        captured,
        frame_bytes,
        headers,
        packet::Load::InPlace,
    ))
}

fn frame(parsed: Parsed) -> Frame {
    match parsed {
        Parsed::Packet(packet) => Frame::Packet(Packet(packet)),
        Parsed::Other => Frame::Other,
        Parsed::Malformed => Frame::Malformed,
    }
}

#[cfg(test)]
mod tests;
