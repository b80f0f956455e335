//! Compression of blocks.
//!
//! zstd was chosen because a day of a large host is read at once. Its literals decode several times
//! as fast as deflate's, and LZ4 does not encode literals at all, of which differences between
//! intervals consist.

use metrics_common::packed::Damaged;

/// Each further level costs three times as much for one per cent.
const LEVEL: i32 = 9;

/// Compresses bytes.
#[derive(Default)]
pub(super) struct Compressor {
    context: Option<zstd::bulk::Compressor<'static>>,
}

impl Compressor {
    /// The compressed bytes; `None` on failure.
    pub(super) fn compress(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        if self.context.is_none() {
            let mut context = zstd::bulk::Compressor::new(LEVEL).ok()?;
            // The length and a checksum are stored in the block's head.
            context.include_contentsize(false).ok()?;
            context.include_checksum(false).ok()?;
            self.context = Some(context);
        }
        self.context.as_mut()?.compress(bytes).ok()
    }
}

/// The inverse of [`Compressor`].
#[derive(Default)]
pub(super) struct Decompressor {
    context: Option<zstd::bulk::Decompressor<'static>>,
}

impl Decompressor {
    /// Uncompresses bytes to this length.
    ///
    /// # Errors
    /// If the input is invalid, or of another length.
    pub(super) fn decompress(&mut self, bytes: &[u8], length: usize) -> Result<Vec<u8>, Damaged> {
        if self.context.is_none() {
            self.context = zstd::bulk::Decompressor::new().ok();
        }
        let context = self.context.as_mut().ok_or(Damaged)?;
        let found = context.decompress(bytes, length).map_err(|_| Damaged)?;
        (found.len() == length).then_some(found).ok_or(Damaged)
    }
}

impl std::fmt::Debug for Decompressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Decompressor")
    }
}
