//! Reads MessagePack that [`encode`](super::encode) has written. Pure.
//!
//! Each field is read as its own type. `rmp-serde` instantiates the reading of every kind of value for
//! every type: with it, a third of the page and of this crate's compiled code did nothing else.

use std::fmt::Display;

use serde::de::{self, Deserialize, DeserializeSeed, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;

/// Deepest nesting of arrays and maps in a message; none needs ten. Each level uses the stack, which a
/// hostile message could exhaust.
pub(super) const MAX_DEPTH: u32 = 32;
const NIL: u8 = 0xc0;

/// Why bytes are not a valid message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The message ends inside a value.
    #[error("the message is cut short")]
    Cut,
    /// Nested deeper than [`MAX_DEPTH`].
    #[error("the message is nested too deeply")]
    TooDeep,
    /// A value of another kind than the field, or of a kind that is never written.
    #[error("a value of the wrong kind")]
    WrongKind,
    /// A field is missing, or there twice. Only on the page, whose download has no room for the fields'
    /// names; elsewhere [`Invalid`](Self::Invalid) names the field.
    #[cfg(target_arch = "wasm32")]
    #[error("a field is missing, or there twice")]
    Fields,
    /// A value rejected by its type.
    #[error("{0}")]
    Invalid(Box<str>),
}

impl de::Error for DecodeError {
    // The default implementations would add the description of every type, value and field to the page,
    // and format it wherever a value is read: 20 kB of its download.
    fn invalid_type(_: de::Unexpected<'_>, _: &dyn de::Expected) -> Self {
        DecodeError::WrongKind
    }

    fn invalid_value(_: de::Unexpected<'_>, _: &dyn de::Expected) -> Self {
        DecodeError::WrongKind
    }

    fn invalid_length(_: usize, _: &dyn de::Expected) -> Self {
        DecodeError::WrongKind
    }

    fn unknown_variant(_: &str, _: &'static [&'static str]) -> Self {
        DecodeError::WrongKind
    }

    #[cfg(target_arch = "wasm32")]
    fn missing_field(_: &'static str) -> Self {
        DecodeError::Fields
    }

    #[cfg(target_arch = "wasm32")]
    fn duplicate_field(_: &'static str) -> Self {
        DecodeError::Fields
    }

    fn custom<T: Display>(message: T) -> Self {
        DecodeError::Invalid(message.to_string().into())
    }
}

/// Reads a `T`.
///
/// # Errors
/// If the bytes are something else.
pub(super) fn decode<'de, T: Deserialize<'de>>(bytes: &'de [u8]) -> Result<T, DecodeError> {
    T::deserialize(&mut Decoder {
        bytes,
        levels_left: MAX_DEPTH,
    })
}

/// A value without its content.
enum Token<'de> {
    Nil,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Text(&'de str),
    Bytes(&'de [u8]),
    Array(u32),
    Map(u32),
}

struct Decoder<'de> {
    bytes: &'de [u8],
    levels_left: u32,
}

impl<'de> Decoder<'de> {
    fn take(&mut self, length: u32) -> Result<&'de [u8], DecodeError> {
        let (taken, rest) = self
            .bytes
            .split_at_checked(length as usize)
            .ok_or(DecodeError::Cut)?;
        self.bytes = rest;
        Ok(taken)
    }

    /// A big-endian integer of this many bytes.
    fn unsigned(&mut self, width: u32) -> Result<u64, DecodeError> {
        let bytes = self.take(width)?.iter();
        Ok(bytes.fold(0, |value, &byte| value << 8 | u64::from(byte)))
    }

    /// A length of at most four bytes.
    fn length(&mut self, width: u32) -> Result<u32, DecodeError> {
        self.unsigned(width).map(|length| length as u32)
    }

    fn text(&mut self, length: u32) -> Result<Token<'de>, DecodeError> {
        let text = std::str::from_utf8(self.take(length)?);
        text.map(Token::Text).map_err(de::Error::custom)
    }

    fn token(&mut self) -> Result<Token<'de>, DecodeError> {
        let marker = self.unsigned(1)? as u8;
        Ok(match marker {
            0x00..=0x7f => Token::Unsigned(marker.into()),
            0x80..=0x8f => Token::Map((marker & 0x0f).into()),
            0x90..=0x9f => Token::Array((marker & 0x0f).into()),
            0xa0..=0xbf => self.text((marker & 0x1f).into())?,
            NIL => Token::Nil,
            0xc2 | 0xc3 => Token::Bool(marker == 0xc3),
            0xc4..=0xc6 => {
                let length = self.length(1 << (marker - 0xc4))?;
                Token::Bytes(self.take(length)?)
            }
            0xca => Token::Float(f32::from_bits(self.unsigned(4)? as u32).into()),
            0xcb => Token::Float(f64::from_bits(self.unsigned(8)?)),
            0xcc..=0xcf => Token::Unsigned(self.unsigned(1 << (marker - 0xcc))?),
            0xd0..=0xd3 => {
                let width = 1 << (marker - 0xd0);
                let unused_bits = 64 - 8 * width;
                Token::Signed(((self.unsigned(width)? << unused_bits) as i64) >> unused_bits)
            }
            0xd9..=0xdb => {
                let length = self.length(1 << (marker - 0xd9))?;
                self.text(length)?
            }
            0xdc | 0xdd => Token::Array(self.length(2 << (marker - 0xdc))?),
            0xde | 0xdf => Token::Map(self.length(2 << (marker - 0xde))?),
            0xe0..=0xff => Token::Signed((marker as i8).into()),
            // Unused, and extensions, which are never written.
            0xc1 | 0xc7..=0xc9 | 0xd4..=0xd8 => return Err(DecodeError::WrongKind),
        })
    }

    /// Skips a value with its content.
    fn skip(&mut self) -> Result<(), DecodeError> {
        let mut values_left = 1_u64;
        while values_left > 0 {
            values_left -= 1;
            values_left += match self.token()? {
                Token::Array(length) => length.into(),
                Token::Map(length) => 2 * u64::from(length),
                _ => 0,
            };
        }
        Ok(())
    }

    /// Reads the content of an array or a map with this many entries.
    fn inside<T>(
        &mut self,
        entries_left: u32,
        read: impl FnOnce(Entries<'_, 'de>) -> Result<T, DecodeError>,
    ) -> Result<T, DecodeError> {
        self.levels_left = self
            .levels_left
            .checked_sub(1)
            .ok_or(DecodeError::TooDeep)?;
        let value = read(Entries {
            decoder: self,
            entries_left,
        })?;
        self.levels_left += 1;
        Ok(value)
    }

    fn integer<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, DecodeError> {
        match self.token()? {
            Token::Unsigned(value) => visitor.visit_u64(value),
            Token::Signed(value) => visitor.visit_i64(value),
            _ => Err(DecodeError::WrongKind),
        }
    }
}

/// Defines `Deserializer` methods that differ only in their name.
macro_rules! alike {
    ($decoder:ident, $visitor:ident, [$($method:ident($($argument:ty),*))*] => $body:expr) => {
        $(
            fn $method<V: Visitor<'de>>(
                self,
                $(_: $argument,)*
                $visitor: V,
            ) -> Result<V::Value, DecodeError> {
                let $decoder = self;
                $body
            }
        )*
    };
}

impl<'de> de::Deserializer<'de> for &mut Decoder<'de> {
    type Error = DecodeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match self.token()? {
            Token::Nil => visitor.visit_unit(),
            Token::Bool(value) => visitor.visit_bool(value),
            Token::Unsigned(value) => visitor.visit_u64(value),
            Token::Signed(value) => visitor.visit_i64(value),
            Token::Float(value) => visitor.visit_f64(value),
            Token::Text(text) => visitor.visit_borrowed_str(text),
            Token::Bytes(bytes) => visitor.visit_borrowed_bytes(bytes),
            Token::Array(length) => self.inside(length, |entries| visitor.visit_seq(entries)),
            Token::Map(length) => self.inside(length, |entries| visitor.visit_map(entries)),
        }
    }

    alike!(decoder, visitor, [
        deserialize_i8() deserialize_i16() deserialize_i32() deserialize_i64()
        deserialize_u8() deserialize_u16() deserialize_u32() deserialize_u64()
    ] => decoder.integer(visitor));

    alike!(decoder, visitor, [deserialize_f32() deserialize_f64()] => {
        visitor.visit_f64(match decoder.token()? {
            Token::Float(value) => value,
            Token::Unsigned(value) => value as f64,
            Token::Signed(value) => value as f64,
            _ => return Err(DecodeError::WrongKind),
        })
    });

    alike!(decoder, visitor, [
        deserialize_str() deserialize_string() deserialize_identifier()
    ] => match decoder.token()? {
        Token::Text(text) => visitor.visit_borrowed_str(text),
        _ => Err(DecodeError::WrongKind),
    });

    alike!(decoder, visitor, [deserialize_bytes() deserialize_byte_buf()] => {
        match decoder.token()? {
            Token::Bytes(bytes) => visitor.visit_borrowed_bytes(bytes),
            _ => Err(DecodeError::WrongKind),
        }
    });

    alike!(decoder, visitor, [
        deserialize_seq() deserialize_tuple(usize) deserialize_tuple_struct(&'static str, usize)
    ] => match decoder.token()? {
        Token::Array(length) => decoder.inside(length, |entries| visitor.visit_seq(entries)),
        _ => Err(DecodeError::WrongKind),
    });

    alike!(decoder, visitor, [
        deserialize_map() deserialize_struct(&'static str, &'static [&'static str])
    ] => match decoder.token()? {
        Token::Map(length) => decoder.inside(length, |entries| visitor.visit_map(entries)),
        _ => Err(DecodeError::WrongKind),
    });

    alike!(decoder, visitor, [deserialize_option()] => {
        if decoder.bytes.first() == Some(&NIL) {
            decoder.bytes = &decoder.bytes[1..];
            return visitor.visit_none();
        }
        visitor.visit_some(decoder)
    });

    alike!(decoder, visitor, [
        deserialize_newtype_struct(&'static str)
    ] => visitor.visit_newtype_struct(decoder));

    alike!(decoder, visitor, [
        deserialize_enum(&'static str, &'static [&'static str])
    ] => match decoder.token()? {
        Token::Text(name) => visitor.visit_enum(name.into_deserializer()),
        Token::Map(1) => decoder.inside(1, |entries| visitor.visit_enum(entries)),
        _ => Err(DecodeError::WrongKind),
    });

    alike!(decoder, visitor, [deserialize_ignored_any()] => {
        decoder.skip()?;
        visitor.visit_unit()
    });

    forward_to_deserialize_any! { bool char unit unit_struct }

    /// As the encoder: an address is its bytes, and no text.
    fn is_human_readable(&self) -> bool {
        false
    }
}

/// The content of an array or a map, or the value of an enum's variant.
struct Entries<'a, 'de> {
    decoder: &'a mut Decoder<'de>,
    entries_left: u32,
}

impl<'de> de::SeqAccess<'de> for Entries<'_, 'de> {
    type Error = DecodeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, DecodeError> {
        let Some(entries_left) = self.entries_left.checked_sub(1) else {
            return Ok(None);
        };
        self.entries_left = entries_left;
        seed.deserialize(&mut *self.decoder).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.entries_left as usize)
    }
}

impl<'de> de::MapAccess<'de> for Entries<'_, 'de> {
    type Error = DecodeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, DecodeError> {
        de::SeqAccess::next_element_seed(self, seed)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(
        &mut self,
        seed: V,
    ) -> Result<V::Value, DecodeError> {
        seed.deserialize(&mut *self.decoder)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.entries_left as usize)
    }
}

impl<'de> de::EnumAccess<'de> for Entries<'_, 'de> {
    type Error = DecodeError;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(
        self,
        seed: V,
    ) -> Result<(V::Value, Self), DecodeError> {
        Ok((seed.deserialize(&mut *self.decoder)?, self))
    }
}

impl<'de> de::VariantAccess<'de> for Entries<'_, 'de> {
    type Error = DecodeError;

    fn unit_variant(self) -> Result<(), DecodeError> {
        Err(DecodeError::WrongKind)
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(
        self,
        seed: T,
    ) -> Result<T::Value, DecodeError> {
        seed.deserialize(self.decoder)
    }

    fn tuple_variant<V: Visitor<'de>>(
        self,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        de::Deserializer::deserialize_tuple(self.decoder, length, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        de::Deserializer::deserialize_struct(self.decoder, "", fields, visitor)
    }
}
