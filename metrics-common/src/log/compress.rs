//! zstd, where it is there: the reader in a browser does without, and says so.
//!
//! zstd and none of the pure Rust ones because a day of a large host is read at once: its literals
//! are read several times as fast as deflate's, and LZ4 has no code for literals at all, which is
//! what differences between intervals are. The reference implementation in C is kept out of
//! WebAssembly by the feature `compression`.

use crate::packed::Damaged;

/// Further levels cost three times as much for each per cent.
#[cfg(feature = "compression")]
const LEVEL: i32 = 9;

/// Makes bytes fewer.
#[derive(Default)]
pub(super) struct Compressor {
    #[cfg(feature = "compression")]
    context: Option<zstd::bulk::Compressor<'static>>,
}

impl Compressor {
    /// The bytes compressed; `None` if that is not possible.
    #[cfg(feature = "compression")]
    pub(super) fn compress(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        if self.context.is_none() {
            let mut context = zstd::bulk::Compressor::new(LEVEL).ok()?;
            // How long it is and whether it is whole is known already.
            context.include_contentsize(false).ok()?;
            context.include_checksum(false).ok()?;
            self.context = Some(context);
        }
        self.context.as_mut()?.compress(bytes).ok()
    }

    #[cfg(not(feature = "compression"))]
    pub(super) fn compress(&mut self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

/// The inverse of [`Compressor`].
#[derive(Default)]
pub(super) struct Decompressor {
    #[cfg(feature = "compression")]
    context: Option<zstd::bulk::Decompressor<'static>>,
}

impl Decompressor {
    /// What was compressed, which is so many bytes.
    ///
    /// # Errors
    /// If it is something else.
    #[cfg(feature = "compression")]
    pub(super) fn decompress(&mut self, bytes: &[u8], length: usize) -> Result<Vec<u8>, Damaged> {
        if self.context.is_none() {
            self.context = zstd::bulk::Decompressor::new().ok();
        }
        let context = self.context.as_mut().ok_or(Damaged)?;
        let found = context.decompress(bytes, length).map_err(|_| Damaged)?;
        (found.len() == length).then_some(found).ok_or(Damaged)
    }

    #[cfg(not(feature = "compression"))]
    pub(super) fn decompress(&mut self, _: &[u8], _: usize) -> Result<Vec<u8>, Damaged> {
        Err(Damaged)
    }
}

impl std::fmt::Debug for Decompressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Decompressor")
    }
}
