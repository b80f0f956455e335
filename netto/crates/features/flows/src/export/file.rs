//! A file of IPFIX messages, one behind the other (RFC 5655). An existing one is continued, and
//! nothing else is ever written to.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufReader, Read, Seek};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use netto_sys::{files, locks};

use super::Ready;
use super::ipfix::{self, Header};

/// See the head of this file.
#[derive(Debug)]
pub(super) struct FileSink {
    path: PathBuf,
    file: File,
    /// Where the next message begins.
    end: u64,
    is_new: bool,
}

impl FileSink {
    /// Opens or creates it, and locks it for this process.
    ///
    /// # Errors
    /// It cannot be written, or holds something else.
    pub(super) fn open(path: &Path) -> anyhow::Result<FileSink> {
        let name = path.display();
        let mut options = OpenOptions::new();
        let (file, metadata) =
            files::open_to_write(options.read(true).write(true), path, "--flows-export")?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => {
                let holder = locks::holder_of(Path::new("/proc"), &metadata);
                let holder =
                    holder.map_or("another process".to_owned(), |holder| holder.to_string());
                bail!("{name} is being written by {holder}; choose another file");
            }
            // Not every file system has locks.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        let end = whole_bytes(&file, metadata.len());
        let end = end.with_context(|| format!("{name} exists, and flows cannot be added to it"))?;
        if end < metadata.len() {
            tracing::info!("{name}: the last message was cut off, and is removed");
            file.set_len(end)
                .with_context(|| format!("cannot shorten {name}"))?;
        }
        Ok(FileSink {
            path: path.to_owned(),
            file,
            end,
            is_new: true,
        })
    }

    fn is_in_place(&self) -> io::Result<bool> {
        let metadata = self.file.metadata()?;
        let is_same =
            |there: fs::Metadata| (there.dev(), there.ino()) == (metadata.dev(), metadata.ino());
        Ok(metadata.len() == self.end && fs::symlink_metadata(&self.path).is_ok_and(is_same))
    }

    /// Begins another file if this one was moved away or shortened.
    pub(super) fn prepare(&mut self) -> io::Result<Ready> {
        if !self.is_in_place()? {
            let error = |error: anyhow::Error| io::Error::other(format!("{error:#}"));
            // This one's lock would keep a shortened file from being opened again.
            self.file.unlock()?;
            *self = FileSink::open(&self.path).map_err(error)?;
        }
        Ok(if std::mem::take(&mut self.is_new) {
            Ready::Anew
        } else {
            Ready::GoesOn
        })
    }

    /// Adds a message, or nothing.
    pub(super) fn send(&mut self, message: &[u8]) -> io::Result<()> {
        let written = self.file.write_all_at(message, self.end);
        match written {
            Ok(()) => self.end += message.len() as u64,
            // The part that was written must not be taken for a message.
            Err(_) => self.file.set_len(self.end)?,
        }
        written
    }
}

/// How much of a file of this length is whole messages.
fn whole_bytes(file: &File, length: u64) -> anyhow::Result<u64> {
    let mut reader = BufReader::new(file);
    reader.rewind().context("cannot read it")?;
    let mut at = 0;
    loop {
        let mut begin = Vec::new();
        reader.by_ref().take(4).read_to_end(&mut begin)?;
        match ipfix::header(&begin) {
            Header::Message(bytes) if at + u64::from(bytes) <= length => {
                reader.seek_relative(i64::from(bytes) - begin.len() as i64)?;
                at += u64::from(bytes);
            }
            Header::Message(_) | Header::Cut => return Ok(at),
            Header::Foreign => bail!("what begins at byte {at} is no IPFIX message; move it away"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A message without sets.
    const EMPTY: [u8; 16] = [0, 10, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];

    fn said(path: &Path) -> String {
        format!("{:#}", FileSink::open(path).unwrap_err())
    }

    #[test]
    fn a_file_of_messages_is_continued_behind_the_last_whole_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.ipfix");
        for before in [0, 1, 15, 16, 17, 31, 32] {
            let whole = [EMPTY, EMPTY].concat();
            fs::write(&path, &whole[..before]).unwrap();
            let mut sink = FileSink::open(&path).unwrap();
            assert_eq!(sink.prepare().unwrap(), Ready::Anew);
            sink.send(&EMPTY).unwrap();
            assert_eq!(sink.prepare().unwrap(), Ready::GoesOn);
            let expected = EMPTY.repeat(before / 16 + 1);
            assert_eq!(fs::read(&path).unwrap(), expected, "{before} bytes");
        }
    }

    #[test]
    fn a_file_that_is_moved_away_or_shortened_is_begun_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.ipfix");
        let mut sink = FileSink::open(&path).unwrap();
        let changes: [&dyn Fn(); 3] = [
            &|| fs::rename(&path, folder.path().join("old")).unwrap(),
            &|| fs::remove_file(&path).unwrap(),
            &|| {
                File::options()
                    .write(true)
                    .open(&path)
                    .unwrap()
                    .set_len(0)
                    .unwrap()
            },
        ];
        for change in changes {
            sink.prepare().unwrap();
            sink.send(&EMPTY).unwrap();
            change();
            assert_eq!(sink.prepare().unwrap(), Ready::Anew);
            sink.send(&EMPTY).unwrap();
            assert_eq!(fs::read(&path).unwrap(), EMPTY);
        }
    }

    #[test]
    fn nothing_is_written_to_what_is_no_file_of_messages() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        for content in [&b"a text"[..], &[0; 40], &[&EMPTY[..], b"text"].concat()] {
            fs::write(&path, content).unwrap();
            assert!(
                said(&path).contains("is no IPFIX message"),
                "{}",
                said(&path)
            );
            assert_eq!(fs::read(&path).unwrap(), content);
        }
        assert!(said(folder.path()).contains("cannot open"));
        assert!(said(Path::new("/dev/null")).contains("no regular file"));
        assert!(said(&folder.path().join("no/file")).contains("cannot open"));
        let link = folder.path().join("link");
        symlink(folder.path().join("y"), &link).unwrap();
        assert!(
            said(&link).contains("is a symbolic link"),
            "{}",
            said(&link)
        );
    }

    #[test]
    fn two_processes_do_not_write_to_one_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.ipfix");
        let _first = FileSink::open(&path).unwrap();
        assert!(
            said(&path).contains("is being written by"),
            "{}",
            said(&path)
        );
    }
}
