//! The newest snapshots as a log.
//!
//! Each piece is made when the client has read the one before, from bytes shared with the ring.

use actix_web::web::Bytes;
use netto_log_format::{self as log, Block, LogError};

use netto_pipeline::recent::{Recent, RecentSnapshot};

/// The ring as a log file, in pieces.
pub fn pieces(recent: &Recent) -> impl Iterator<Item = Result<Bytes, LogError>> + Unpin + use<> {
    let entries: Vec<RecentSnapshot> = recent.entries().cloned().collect();
    let mut described: Option<Bytes> = None;
    let blocks = entries.into_iter().flat_map(move |entry| {
        let place = |hello: &Bytes| hello.as_ptr();
        let is_known = described.as_ref().map(place) == Some(place(&entry.hello));
        let hello = (!is_known).then(|| entry.hello.clone());
        described = Some(entry.hello.clone());
        let hello = hello.into_iter().map(|hello| plain_block(&hello, None));
        let snapshot = move || plain_block(&entry.snapshot, Some(entry.time_unix_ns()));
        hello.chain(std::iter::once_with(snapshot))
    });
    let header = std::iter::once_with(|| Ok(Bytes::from(log::file_header())));
    header.chain(blocks)
}

/// A Hello, or a snapshot with its time, as an uncompressed block of its own: it is made when the
/// client reads it, and compression would cost the daemon CPU to save only the client's disk.
fn plain_block(message: &Bytes, time_unix_ns: Option<u64>) -> Result<Bytes, LogError> {
    let mut block = Block::default();
    match time_unix_ns {
        Some(time_unix_ns) => block.push_snapshot(message.to_vec(), time_unix_ns)?,
        None => block.push_hello(message.to_vec())?,
    }
    Ok(block.close_plain().into())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use metrics_common::codec::{ServerMessage, encode_snapshot};
    use metrics_common::{Snapshot, fixture};
    use netto_log_format::LogReader;

    use super::*;

    #[test]
    fn a_dump_is_a_log_in_which_each_description_stands_once() {
        let first = Arc::new(fixture::info());
        let second = Arc::new(fixture::info());
        let mut recent = Recent::default();
        for (sequence, info) in (1..).zip([&first, &first, &second, &second]) {
            let snapshot = Snapshot {
                sequence,
                ..Snapshot::default()
            };
            let bytes = encode_snapshot(&snapshot).unwrap();
            recent.push(info, &bytes, sequence).unwrap();
        }
        let bytes: Vec<u8> = pieces(&recent).flat_map(|piece| piece.unwrap()).collect();
        let mut reader = LogReader::new(bytes.as_slice()).unwrap();
        let kinds: Vec<String> = reader
            .by_ref()
            .map(|message| match message.unwrap() {
                ServerMessage::Hello(_) => "hello".to_owned(),
                ServerMessage::Snapshot(snapshot) => snapshot.sequence.to_string(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(kinds, ["hello", "1", "2", "hello", "3", "4"]);
        assert_eq!(reader.damaged_stretches(), 0);
    }
}
