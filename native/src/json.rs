//! Headers in the form of JSON, as RocketMQ's clients write them unless told otherwise.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};

use crate::frame::{Field, Form, Frame};

/// More than any request has.
const FIELDS_MAX: usize = 40;

#[derive(Deserialize)]
struct Header<'a> {
    code: i32,
    opaque: i32,
    #[serde(default)]
    flag: i32,
    #[serde(default, borrow)]
    remark: Option<Text<'a>>,
    #[serde(borrow, rename = "extFields")]
    fields: Fields<'a>,
}

struct Fields<'a>(Vec<Field<'a>>);

/// Borrowed where nothing is escaped.
pub struct Text<'a>(pub Cow<'a, [u8]>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Seen;
        impl<'de> Visitor<'de> for Seen {
            type Value = Text<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a text")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text.as_bytes())))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.as_bytes().to_vec())))
            }
        }
        deserializer.deserialize_str(Seen)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Seen;
        impl<'de> Visitor<'de> for Seen {
            type Value = Fields<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("named texts")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::with_capacity(16);
                while let Some((Text(name), Text(value))) = map.next_entry()? {
                    if fields.len() == FIELDS_MAX {
                        return Err(A::Error::custom("too many fields"));
                    }
                    fields.push((name, value));
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Seen)
    }
}

/// None for what the loop has to look at: a remark, values that are no texts, what does not parse.
pub fn read<'a>(header: &'a [u8], body: &'a [u8]) -> Option<Frame<'a>> {
    let text = std::str::from_utf8(header).ok()?;
    if !text.trim_start().starts_with('{') {
        return None; // serde takes an array for a struct
    }
    let found: Header<'a> = serde_json::from_str(text).ok()?;
    let Header { code, opaque, flag, remark, fields } = found;
    if remark.is_some_and(|Text(text)| !text.is_empty()) {
        return None; // why a transaction ends so is kept with its decision
    }
    Some(Frame { form: Form::Json, code, opaque, flag, fields: fields.0, body })
}
