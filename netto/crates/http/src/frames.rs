//! Checks WebSocket frames by their headers before any payload is buffered: the library checks a
//! frame's length only when all of it has arrived.
//!
//! It stands in front of the library's decoder and passes on received bytes up to the first header
//! that breaks the rules (RFC 6455, section 5).

use std::io;
use std::pin::Pin;

use actix_web::error::PayloadError;
use actix_web::web::{self, Bytes};
use actix_web::{FromRequest, HttpRequest, dev};
use actix_ws::{CloseCode, ProtocolError};
use futures_util::{Stream, StreamExt};

/// Largest message of a client; netto expects none.
pub const MAX_DATA_BYTES: usize = 1024;

/// Largest control frame (RFC 6455, section 5.5).
const MAX_CONTROL_BYTES: u64 = 125;

/// Longest header: two bytes, an eight-byte length, a four-byte mask.
const MAX_HEADER_BYTES: usize = 14;

/// Why a frame is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameRefusal {
    /// The frame is longer than netto accepts.
    #[error("frame too large")]
    TooLong,
    /// The frame is not masked, as frames of clients must be.
    #[error("frame without a mask")]
    Unmasked,
    /// A reserved bit is set; netto offers no extension.
    #[error("reserved bits are set")]
    ReservedBits,
    /// The opcode is unknown.
    #[error("unknown kind of frame")]
    UnknownOpcode,
    /// A control frame is fragmented or too long.
    #[error("control frame too large, or in pieces")]
    BadControl,
    /// A continuation without a message, or a new message within a fragmented one.
    #[error("pieces of messages out of order")]
    OutOfOrder,
}

impl FrameRefusal {
    /// The close code sent to the client.
    pub fn close_code(self) -> CloseCode {
        match self {
            FrameRefusal::TooLong => CloseCode::Size,
            _ => CloseCode::Protocol,
        }
    }

    /// The refusal behind a read error of the library.
    pub fn of(error: &ProtocolError) -> Option<FrameRefusal> {
        let ProtocolError::Io(error) = error else {
            return None;
        };
        match error.get_ref()?.downcast_ref()? {
            PayloadError::Io(error) => error.get_ref()?.downcast_ref().copied(),
            _ => None,
        }
    }
}

impl From<FrameRefusal> for PayloadError {
    fn from(refusal: FrameRefusal) -> Self {
        PayloadError::Io(io::Error::new(io::ErrorKind::InvalidData, refusal))
    }
}

/// Puts the check in front of a WebSocket's payload.
///
/// # Errors
/// The signature is the library's; this returns none.
pub async fn checked(
    request: &HttpRequest,
    payload: web::Payload,
) -> Result<web::Payload, actix_web::Error> {
    let mut check = FrameCheck::default();
    let mut refused = None;
    let frames = payload.into_inner().map(move |bytes| {
        let bytes = bytes?;
        // Nothing passes behind the first wrong header.
        refused = refused.or_else(|| check.feed(&bytes).err());
        refused.map_or(Ok(bytes), |refusal| Err(refusal.into()))
    });
    let boxed: Pin<Box<dyn Stream<Item = Result<Bytes, PayloadError>>>> = Box::pin(frames);
    web::Payload::from_request(request, &mut dev::Payload::from(boxed)).await
}

/// Follows a stream of frames: where each begins, and whether it is allowed.
#[derive(Debug, Default)]
pub struct FrameCheck {
    header: Vec<u8>,
    /// Remaining bytes of the current frame's payload.
    left: u64,
    /// Bytes of the current fragmented message so far; `None` outside of one.
    message: Option<u64>,
}

impl FrameCheck {
    /// Takes the next bytes of the stream.
    ///
    /// # Errors
    /// The rule that the first wrong header breaks; the check is of no use after it.
    pub fn feed(&mut self, mut bytes: &[u8]) -> Result<(), FrameRefusal> {
        while !bytes.is_empty() {
            let skipped =
                usize::try_from(self.left).map_or(bytes.len(), |left| left.min(bytes.len()));
            self.left -= skipped as u64;
            bytes = &bytes[skipped..];
            let Some((&next, rest)) = bytes.split_first() else {
                break;
            };
            self.header.push(next);
            bytes = rest;
            self.judge()?;
        }
        Ok(())
    }

    /// Checks as much of the header as has arrived; each rule as early as possible.
    fn judge(&mut self) -> Result<(), FrameRefusal> {
        let header = &self.header;
        let (is_last, opcode) = (header[0] & 0x80 != 0, header[0] & 0x0f);
        if header[0] & 0x70 != 0 {
            return Err(FrameRefusal::ReservedBits);
        }
        let is_control = match opcode {
            0x0..=0x2 => false,
            0x8..=0xa => true,
            _ => return Err(FrameRefusal::UnknownOpcode),
        };
        if is_control && !is_last {
            return Err(FrameRefusal::BadControl);
        }
        if !is_control && (opcode == 0) != self.message.is_some() {
            return Err(FrameRefusal::OutOfOrder);
        }
        let Some(&second) = header.get(1) else {
            return Ok(());
        };
        if second & 0x80 == 0 {
            return Err(FrameRefusal::Unmasked);
        }
        let short = u64::from(second & 0x7f);
        if is_control && short > MAX_CONTROL_BYTES {
            return Err(FrameRefusal::BadControl);
        }
        let extended = match short {
            126 => header.get(2..4),
            127 => header.get(2..10),
            _ => Some(&[][..]),
        };
        let Some(extended) = extended else {
            return Ok(());
        };
        let length = match extended {
            [] => short,
            bytes => bytes
                .iter()
                .fold(0, |length: u64, byte| length << 8 | u64::from(*byte)),
        };
        let message = length.saturating_add(self.message.unwrap_or(0));
        if !is_control && message > MAX_DATA_BYTES as u64 {
            return Err(FrameRefusal::TooLong);
        }
        let whole = MAX_HEADER_BYTES - 8 + extended.len();
        if header.len() == whole {
            self.header.clear();
            self.left = length;
            if !is_control {
                self.message = (!is_last).then_some(message);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(first: u8, length: u64) -> Vec<u8> {
        let mut bytes = vec![first];
        match length {
            0..=125 => bytes.push(0x80 | length as u8),
            126..=0xffff => {
                bytes.push(0x80 | 126);
                bytes.extend_from_slice(&(length as u16).to_be_bytes());
            }
            _ => {
                bytes.push(0x80 | 127);
                bytes.extend_from_slice(&length.to_be_bytes());
            }
        }
        bytes.extend_from_slice(&[1, 2, 3, 4]);
        bytes
    }

    fn whole(first: u8, length: u64) -> Vec<u8> {
        let mut bytes = frame(first, length);
        bytes.extend(std::iter::repeat_n(0x5a, length as usize));
        bytes
    }

    fn judged(bytes: &[u8]) -> Result<(), FrameRefusal> {
        FrameCheck::default().feed(bytes)
    }

    #[test]
    fn what_clients_say_goes_through() {
        let bytes = [
            whole(0x8a, 8),
            whole(0x89, 0),
            whole(0x82, 1024),
            whole(0x01, 200),
            whole(0x8a, 125),
            whole(0x80, 824),
            whole(0x88, 2),
        ]
        .concat();
        assert_eq!(judged(&bytes), Ok(()));
    }

    #[test]
    fn each_rule_is_told_by_the_header_alone() {
        for (bytes, refusal) in [
            (frame(0x82, 1 << 40), FrameRefusal::TooLong),
            (frame(0x82, 1025), FrameRefusal::TooLong),
            (frame(0x82, u64::MAX), FrameRefusal::TooLong),
            (frame(0x8a, 126), FrameRefusal::BadControl),
            (frame(0x09, 1), FrameRefusal::BadControl),
            (frame(0xc2, 1), FrameRefusal::ReservedBits),
            (frame(0x83, 1), FrameRefusal::UnknownOpcode),
            (frame(0x8f, 1), FrameRefusal::UnknownOpcode),
            (frame(0x80, 1), FrameRefusal::OutOfOrder),
            (
                [whole(0x02, 1), frame(0x82, 1)].concat(),
                FrameRefusal::OutOfOrder,
            ),
            (
                [whole(0x02, 1000), frame(0x00, 25)].concat(),
                FrameRefusal::TooLong,
            ),
            (vec![0x82, 0x01], FrameRefusal::Unmasked),
        ] {
            assert_eq!(judged(&bytes), Err(refusal), "{bytes:x?}");
        }
    }

    proptest! {
        /// However the stream is split, each byte is judged as if it came whole.
        #[test]
        fn the_verdict_is_the_same_however_the_stream_is_cut(
            frames in prop::collection::vec((any::<u8>(), 0u64..2000), 0..8),
            cuts in prop::collection::vec(1usize..50, 1..200),
        ) {
            let bytes: Vec<u8> = frames.iter().flat_map(|(first, length)| whole(*first, *length)).collect();
            let mut check = FrameCheck::default();
            let mut rest = &bytes[..];
            let mut verdict = Ok(());
            for cut in cuts.iter().cycle() {
                if rest.is_empty() || verdict.is_err() {
                    break;
                }
                let (piece, after) = rest.split_at((*cut).min(rest.len()));
                verdict = check.feed(piece);
                rest = after;
            }
            prop_assert_eq!(verdict, judged(&bytes));
        }

        /// For any bytes, at most one message passes after a header.
        #[test]
        fn nothing_panics_and_little_is_kept(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut check = FrameCheck::default();
            let _ = check.feed(&bytes);
            prop_assert!(check.left <= MAX_DATA_BYTES as u64);
            prop_assert!(check.header.len() < MAX_HEADER_BYTES);
        }
    }
}
