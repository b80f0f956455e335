//! Every reader stands its corpus and seeded mutations of it.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::{fs, panic};

use metrics_common::random::SplitMix64;
use netto_fuzz::{READERS, Reader};

/// Mutations of each input of a corpus.
const MUTATIONS: u64 = 50;

/// The inputs of a reader's corpus, by name.
fn corpus(reader: &Reader) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let files = fs::read_dir(folder.join(reader.name)).unwrap();
    let mut paths: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    paths.sort();
    paths
        .into_iter()
        .map(|path| (path.clone(), fs::read(&path).unwrap()))
        .collect()
}

/// Reads the bytes; a panic names the input and the mutation that makes it.
fn stands(reader: &Reader, bytes: &[u8], path: &Path, seed: u64) {
    let read = panic::catch_unwind(|| (reader.read)(bytes));
    assert!(
        read.is_ok(),
        "{} panics at mutation {seed} of {}",
        reader.name,
        path.display()
    );
}

/// Up to four changes: a byte, a stretch that is cut out, one that is repeated.
fn mutated(bytes: &[u8], seed: u64) -> Vec<u8> {
    let mut random = SplitMix64(seed);
    let mut below = |end: usize| (random.next_u64() % end.max(1) as u64) as usize;
    let mut bytes = bytes.to_vec();
    for _ in 0..=below(4) {
        let (from, what) = (below(bytes.len()), below(3));
        let to = (from + 1 + below(16)).min(bytes.len());
        match what {
            _ if bytes.is_empty() => bytes.push(below(256) as u8),
            0 => bytes[from] = below(256) as u8,
            1 => drop(bytes.drain(from..to)),
            _ => bytes.extend_from_within(from..to),
        }
    }
    bytes
}

#[test]
fn every_reader_stands_its_corpus_and_mutations_of_it() {
    for reader in READERS {
        let corpus = corpus(reader);
        assert!(!corpus.is_empty(), "{} has no corpus", reader.name);
        for (path, bytes) in &corpus {
            stands(reader, bytes, path, 0);
            for seed in 1..=MUTATIONS {
                stands(reader, &mutated(bytes, seed), path, seed);
            }
        }
    }
}

#[test]
fn every_corpus_has_a_reader_and_stays_small() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name();
        let reader = READERS.iter().find(|reader| *reader.name == *name);
        let reader = reader.unwrap_or_else(|| panic!("no reader for {}", name.display()));
        let bytes: usize = corpus(reader).iter().map(|(_, bytes)| bytes.len()).sum();
        assert!(bytes <= 32 << 10, "{}: {bytes} bytes", reader.name);
    }
}
