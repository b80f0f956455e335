//! Reads a log as this version of the vocabulary does, and says what it has found in it.

use std::fs::File;

use metrics_common::codec::ServerMessage;
use metrics_common::log::LogReader;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("which log?")?;
    let mut reader = LogReader::new(File::open(path)?)?;
    let (mut snapshots, mut costs, mut ticks) = (0, 0, 0);
    for message in reader.by_ref() {
        if let ServerMessage::Snapshot(snapshot) = message? {
            snapshots += 1;
            costs += u32::from(snapshot.sections.has("cost"));
            ticks += u32::from(snapshot.sections.has("ticks"));
        }
    }
    println!(
        "snapshots {snapshots} cost {costs} ticks {ticks} unknown {} damaged {}",
        reader.unknown_messages(),
        reader.damaged_stretches()
    );
    Ok(())
}
