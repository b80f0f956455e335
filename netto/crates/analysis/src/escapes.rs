//! Decodes bytes escaped as numbers, as in names of the kernel and systemd. Pure.

/// Decodes a text in which a byte may be written as `mark` followed by `digits` digits of this
/// radix; other text stays as it is.
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
