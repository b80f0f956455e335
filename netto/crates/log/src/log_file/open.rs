//! The open file itself: its lock, content, length, digests and index.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::SystemTime;

use anyhow::{Context as _, anyhow, bail};
use netto_log_format::{
    self as log, Beginning, DigestBuilder, HEADER_BYTES, IndexBuilder, LOG_VERSION, LogError,
    LogReader, MAGIC,
};

use netto_sys::{files, locks};

/// See the head of this file.
pub(super) struct OpenFile {
    pub(super) file: File,
    /// Device and inode.
    pub(super) identity: (u64, u64),
    /// Length after the last write, bytes. A shorter file was truncated by another process.
    pub(super) length: u64,
    needs_header: bool,
    /// Blocks that are in no index yet.
    index: IndexBuilder,
    /// Blocks that are in no digest yet.
    digests: DigestBuilder,
    /// When the file was started, as far as known.
    pub(super) began: SystemTime,
}

impl OpenFile {
    /// Opens the file, or creates it.
    pub(super) fn open(path: &Path) -> anyhow::Result<OpenFile> {
        let mut options = OpenOptions::new();
        let (file, metadata) =
            files::open_to_write(options.read(true).append(true), path, "--log-file")
                .context("cannot use the log file")?;
        let mut open = OpenFile {
            file,
            identity: (metadata.dev(), metadata.ino()),
            length: 0,
            needs_header: true,
            index: IndexBuilder::default(),
            digests: DigestBuilder::default(),
            began: SystemTime::now(),
        };
        open.lock(path, &metadata)?;
        open.examine(path)?;
        if let (Ok(created), true) = (metadata.created(), open.length > 0) {
            open.began = created;
        }
        Ok(open)
    }

    /// Locks the file for this process; the lock ends with the open file.
    fn lock(&self, path: &Path, metadata: &fs::Metadata) -> anyhow::Result<()> {
        match self.file.try_lock() {
            Ok(()) => Ok(()),
            Err(TryLockError::WouldBlock) => {
                let holder = locks::holder_of(Path::new("/proc"), metadata).map_or_else(
                    || "another process that cannot be seen from here".to_owned(),
                    |holder| holder.to_string(),
                );
                bail!(
                    "the log file {} is being written by {holder}; \
                     end that, or choose another file with --log-file",
                    path.display()
                )
            }
            Err(TryLockError::Error(error)) => {
                tracing::warn!(
                    "the log file {} cannot be locked ({error}): \
                     nothing keeps another netto from writing to it, too",
                    path.display()
                );
                Ok(())
            }
        }
    }

    /// Checks what the file holds before anything is appended.
    fn examine(&mut self, path: &Path) -> anyhow::Result<()> {
        let cannot = |doing: &str| format!("cannot {doing} the log file {}", path.display());
        self.needs_header = false;
        self.file.rewind().with_context(|| cannot("read"))?;
        match LogReader::new(&self.file).map(|reader| reader.beginning()) {
            Ok(Beginning::Header) => {}
            Ok(Beginning::Damaged { zero_bytes }) => tracing::warn!(
                "the log file {} has lost its beginning ({zero_bytes} bytes of zeros are there \
                 instead); it is continued, and readable from its first whole block on",
                path.display()
            ),
            Err(LogError::NotALog) if self.is_part_of_header()? => {
                // A header cut during its write: the file holds nothing yet.
                self.file.set_len(0).with_context(|| cannot("empty"))?;
                self.needs_header = true;
            }
            Err(LogError::NotALog) => bail!(
                "{} exists and is not a netto log; move it away, or choose another with --log-file",
                path.display()
            ),
            Err(LogError::TooNew { major, .. }) => bail!(
                "{} is a netto log of format {major}, this netto writes format {}; \
                 choose another file with --log-file",
                path.display(),
                LOG_VERSION.0
            ),
            Err(error) => return Err(anyhow!(error).context(cannot("read"))),
        }
        // Even behind a cut block, readers find the next one by its marker.
        self.length = self
            .file
            .metadata()
            .with_context(|| cannot("examine"))?
            .len();
        self.index = IndexBuilder::new(self.length);
        self.digests = DigestBuilder::default();
        Ok(())
    }

    fn is_part_of_header(&mut self) -> io::Result<bool> {
        let mut found = Vec::with_capacity(HEADER_BYTES);
        self.file.rewind()?;
        (&self.file)
            .take(HEADER_BYTES as u64)
            .read_to_end(&mut found)?;
        Ok(found.len() < HEADER_BYTES && (MAGIC.starts_with(&found) || found.starts_with(MAGIC)))
    }

    /// Detects truncation; `true` if so.
    pub(super) fn look_again(&mut self, path: &Path) -> anyhow::Result<bool> {
        let length = self.length_now()?;
        if length >= self.length {
            return Ok(false);
        }
        tracing::info!(
            "the log file {} was truncated by another process; starting it anew",
            path.display()
        );
        self.examine(path)?;
        self.began = SystemTime::now();
        Ok(true)
    }

    fn length_now(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Appends whole blocks; `false` if the file was truncated meanwhile.
    pub(super) fn append(&mut self, blocks: &[u8]) -> io::Result<bool> {
        self.length = self.length_now()?;
        // Before the blocks: an index if the last one is far, a header if there is none, and the
        // digest of the blocks before if they are enough.
        let mut bytes = Vec::with_capacity(blocks.len());
        let begins_index = self.index.is_full();
        if begins_index {
            bytes.extend(self.index.index(self.length));
        }
        if self.needs_header {
            bytes.extend(log::file_header());
        }
        let before = self.length + bytes.len() as u64;
        let digests = self.digests.due(before);
        bytes.extend_from_slice(&digests);
        bytes.extend_from_slice(blocks);
        self.file.write_all(&bytes)?;
        self.needs_header = false;
        if begins_index {
            self.index = IndexBuilder::new(before);
        }
        self.index.wrote(before, &digests);
        self.digests.written();
        let behind = before + digests.len() as u64;
        self.index.wrote(behind, blocks);
        self.digests.wrote(behind, blocks);
        let length = self.length_now()?;
        let expected = self.length + bytes.len() as u64;
        self.length = expected;
        if length >= expected {
            return Ok(true);
        }
        if length <= bytes.len() as u64 {
            // It holds nothing but this, without a beginning.
            self.file.set_len(0)?;
        }
        Ok(false)
    }

    /// Finishes the file: adds a digest and an index, if there is room, and synchronizes it so that
    /// it survives a power cut.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        if self.length_now()? == self.length {
            self.digests.end();
            let (at, digests) = (self.length, self.digests.due(self.length));
            if self.leave(&digests)? {
                self.index.wrote(at, &digests);
                self.digests.written();
            }
            if self.leave(&self.index.index(self.length))? {
                self.index = IndexBuilder::new(self.length);
            }
        }
        self.file.sync_all()
    }

    /// Writes data that is optional for readers; `false`, and nothing written, if there is no room.
    fn leave(&mut self, bytes: &[u8]) -> io::Result<bool> {
        let written = self.file.write_all(bytes).is_ok();
        if written {
            self.length += bytes.len() as u64;
        } else {
            self.cut()?;
        }
        Ok(written)
    }

    /// Removes the part of a block that was written before the disk was full.
    pub(super) fn cut(&mut self) -> io::Result<()> {
        // Never extend: that would fill the file with zeros.
        if self.length_now()? > self.length {
            self.file.set_len(self.length)?;
        }
        Ok(())
    }
}
