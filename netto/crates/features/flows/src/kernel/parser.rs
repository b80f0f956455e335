//! The parser of the programs, for packets from files.

use netto_sys::packet::{self, Load, Parsed};

pub(crate) use netto_sys::packet::Headers;

use crate::flow::{Frame, Packet};

/// Parses a frame of this length, of which these bytes are there.
pub(crate) fn parse(captured: &[u8], frame_bytes: u32, headers: Headers) -> Frame {
    match packet::parse(captured, frame_bytes, headers, Load::InPlace) {
        Parsed::Packet(packet) => Frame::Packet(Packet(packet)),
        Parsed::Other => Frame::Other,
        Parsed::Malformed => Frame::Malformed,
    }
}

#[cfg(test)]
mod tests;
