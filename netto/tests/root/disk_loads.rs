//! Loads on files: blocks at random places, read through the page cache or past it, or written through;
//! and a file that the page cache loses again and again.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use metrics_common::random::SplitMix64;
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};

use crate::loads::paced;

const BLOCK: usize = 4_096;

/// A file with its blocks, and room for one of them.
struct Blocks {
    file: File,
    count: u64,
    random: SplitMix64,
    room: Vec<u8>,
    from: usize,
}

impl Blocks {
    fn open(path: &Path, flags: i32) -> Result<Self> {
        let mut options = File::options();
        options.read(true).write(true).custom_flags(flags);
        let file = options.open(path)?;
        let count = file.metadata()?.size() / BLOCK as u64;
        ensure!(count > 0, "{} has no block", path.display());
        // What goes past the page cache needs an aligned place.
        let room = vec![7_u8; 2 * BLOCK];
        Ok(Blocks {
            file,
            count,
            random: SplitMix64(28),
            from: room.as_ptr().align_offset(BLOCK),
            room,
        })
    }

    fn next_place(&mut self) -> (u64, &mut [u8], &File) {
        let place = self.random.below(self.count) * BLOCK as u64;
        let room = &mut self.room[self.from..self.from + BLOCK];
        (place, room, &self.file)
    }
}

/// Reads blocks, `cached` or `direct`.
pub fn read(path: &Path, how: &str, per_second: u64) -> Result<()> {
    let mut blocks = match how {
        "cached" => Blocks::open(path, 0)?,
        "direct" => Blocks::open(path, libc::O_DIRECT)?,
        other => bail!("{other:?} is no way to read"),
    };
    paced(per_second, || {
        let (place, room, file) = blocks.next_place();
        Ok(file.read_exact_at(room, place)?)
    })
}

/// Writes blocks through to the device.
pub fn write(path: &Path, per_second: u64) -> Result<()> {
    let mut blocks = Blocks::open(path, libc::O_DIRECT | libc::O_DSYNC)?;
    paced(per_second, || {
        let (place, room, file) = blocks.next_place();
        Ok(file.write_all_at(room, place)?)
    })
}

/// Lets the page cache lose what it has of a file, ten times a second.
pub fn forget_again(path: &Path) -> Result<()> {
    let file = File::open(path)?;
    loop {
        // Length 0 means the whole file.
        posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)
            .context("the page cache keeps it")?;
        std::thread::sleep(Duration::from_millis(100));
    }
}
