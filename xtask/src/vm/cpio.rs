//! Writes a cpio archive in the "newc" format, which Linux unpacks as its first
//! file system. Pure: bytes in, bytes out.

/// Directories, as the kernel's `st_mode` has them.
const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const SYMLINK: u32 = 0o120_777;

/// An archive in the making.
#[derive(Debug, Default)]
pub struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    /// Adds a directory; its parent must have been added before.
    pub fn directory(&mut self, path: &str) {
        self.entry(path, DIRECTORY, &[]);
    }

    /// Adds a file that may be executed.
    pub fn file(&mut self, path: &str, content: &[u8]) {
        self.entry(path, PROGRAM, content);
    }

    /// Adds a symbolic link.
    pub fn link(&mut self, path: &str, target: &str) {
        self.entry(path, SYMLINK, target.as_bytes());
    }

    /// The whole archive.
    pub fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn entry(&mut self, path: &str, mode: u32, content: &[u8]) {
        self.entries += 1;
        // Inode, mode, owner, group, links, time, size, four device numbers, length of name, checksum.
        let fields = [
            self.entries,
            mode,
            0,
            0,
            1,
            0,
            content.len() as u32,
            0,
            0,
            0,
            0,
            path.len() as u32 + 1,
            0,
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes
                .extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(path.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    #[test]
    fn every_part_begins_at_a_multiple_of_four() {
        let mut archive = Archive::default();
        archive.file("abc", b"12345");
        let bytes = archive.finish();
        assert_eq!(bytes.len() % 4, 0);
        // Header 110, name 4, padded to 116, content 5, padded to 124.
        assert_eq!(&bytes[116..121], b"12345");
        assert_eq!(&bytes[124..130], b"070701");
    }

    #[test]
    fn another_program_reads_the_archive_and_finds_what_was_put_in() {
        let mut archive = Archive::default();
        archive.directory("bin");
        archive.file("bin/tool", b"content");
        archive.link("bin/alias", "tool");
        let busybox = crate::process::find_program("busybox");
        let (program, first) = match &busybox {
            Some(path) => (path.as_os_str(), Some("cpio")),
            None => ("cpio".as_ref(), None),
        };
        let Ok(mut reader) = Command::new(program)
            .args(first)
            .arg("-tv")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
        else {
            panic!("neither busybox nor cpio is here to read the archive");
        };
        reader
            .stdin
            .take()
            .unwrap()
            .write_all(&archive.finish())
            .unwrap();
        let listing = String::from_utf8(reader.wait_with_output().unwrap().stdout).unwrap();
        for expected in ["drwxr-xr-x", "bin/tool", "bin/alias -> tool"] {
            assert!(listing.contains(expected), "no {expected:?} in {listing}");
        }
    }
}
