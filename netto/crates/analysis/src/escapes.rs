//! Bytes that are written as numbers, as the kernel and systemd do in names. Pure.

/// A text in which a byte may be this mark and so many digits of this radix; what only looks like
/// that stays as it is.
pub fn unescaped(text: &[u8], mark: &[u8], digits: usize, radix: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let number = rest
            .strip_prefix(mark)
            .and_then(|rest| rest.get(..digits))
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, radix).ok());
        match number {
            Some(byte) => {
                bytes.push(byte);
                rest = &rest[mark.len() + digits..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    bytes
}
