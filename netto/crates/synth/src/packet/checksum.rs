//! The checksums of the Internet's protocols, RFC 1071, and of SCTP, CRC-32C.

/// A sum of big-endian words that is not folded yet.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sum(u64);

impl Sum {
    /// Adds bytes; an odd one at the end counts as if a zero followed.
    pub fn bytes(self, bytes: &[u8]) -> Self {
        let mut sum = self.0;
        let (words, rest) = bytes.as_chunks::<4>();
        for word in words {
            sum += u64::from(u32::from_be_bytes(*word));
        }
        for pair in rest.chunks(2) {
            let low = pair.get(1).copied().unwrap_or_default();
            sum += u64::from(u16::from_be_bytes([pair[0], low]));
        }
        Sum(sum)
    }

    /// Adds a number.
    pub fn number(self, number: u32) -> Self {
        Sum(self.0 + u64::from(number))
    }

    /// The checksum.
    pub fn finish(self) -> [u8; 2] {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        (!(sum as u16)).to_be_bytes()
    }
}

const CRC32C: [u32; 256] = crc32c_table();

const fn crc32c_table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 {
                (crc >> 1) ^ 0x82f6_3b78
            } else {
                crc >> 1
            };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}

/// CRC-32C, in the order of bytes in which SCTP sends it.
pub fn crc32c(bytes: &[u8]) -> [u8; 4] {
    let crc = bytes.iter().fold(!0_u32, |crc, byte| {
        (crc >> 8) ^ CRC32C[((crc ^ u32::from(*byte)) & 0xff) as usize]
    });
    (!crc).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values_come_out() {
        // RFC 1071's example, and the check value of CRC-32C.
        let sum = Sum::default().bytes(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        assert_eq!(sum.finish(), (!0xddf2_u16).to_be_bytes());
        assert_eq!(crc32c(b"123456789"), 0xe306_9283_u32.to_le_bytes());
        let odd = Sum::default().bytes(&[0x12, 0x34, 0x56]).finish();
        assert_eq!(odd, (!(0x1234_u16 + 0x5600)).to_be_bytes());
    }
}
