//! Bodies of prepares with one message in its usual form, read as `doors/http/messages.py` reads them.
//! None for what that reader has to look at: whatever it refuses, and whatever two readers of JSON
//! could take for different things.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::http::{Half, IMMUNITY_S_MAX, is_printable, is_reserved};
use crate::json::Text;
use crate::read::plain_name;

/// A message with more is the loop's.
const HEADERS_MAX: usize = 64;
/// That reader calls itself for each level of a value, and ends somewhere.
const DEPTH_MAX: usize = 64;
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const NO_DIGIT: u8 = 64;
const VALUES: [u8; 256] = {
    let mut values = [NO_DIGIT; 256];
    let mut at = 0;
    while at < DIGITS.len() {
        values[DIGITS[at] as usize] = at as u8;
        at += 1;
    }
    values
};

/// Borrowed where nothing had to be decoded.
type Piece<'a> = Cow<'a, [u8]>;

/// One message for a new transaction.
pub struct Prepare<'a> {
    group: Piece<'a>,
    name: Option<Piece<'a>>,
    immunity_s: Option<u32>,
    message: Message<'a>,
}

struct Message<'a> {
    topic: Piece<'a>,
    key: Option<Piece<'a>>,
    value: Piece<'a>,
    headers: Vec<(Piece<'a>, Piece<'a>)>,
}

pub fn read(body: &[u8]) -> Option<Prepare<'_>> {
    serde_json::from_str(std::str::from_utf8(body).ok()?).ok()
}

impl Prepare<'_> {
    /// As what it is stored.
    pub fn half<'p>(&'p self, host: &'p [u8]) -> Option<Half<'p>> {
        let Message { topic, key, value, headers } = &self.message;
        Some(Half {
            host,
            is_json: true,
            topic: std::str::from_utf8(topic).ok()?,
            group: plain_name(&self.group)?,
            name: self.name.as_ref().map_or(Some(None), |name| plain_name(name).map(Some))?,
            immunity_s: self.immunity_s,
            key: key.as_deref(),
            value,
            headers: headers.iter().map(|(name, value)| (&**name, &**value)).collect(),
        })
    }
}

fn odd<E: Error>() -> E {
    E::custom("for the other reader")
}

/// Of a key that stands twice that reader takes the last one.
fn once<T, E: Error>(place: &mut Option<T>, found: T) -> Result<(), E> {
    if place.replace(found).is_some() { Err(odd()) } else { Ok(()) }
}

/// Implements `Deserialize` by a visitor with the functions given: objects are no arrays here.
macro_rules! read_as {
    ($kind:ident, $how:ident, $what:literal, $($visit:item)+) => {
        impl<'de: 'a, 'a> Deserialize<'de> for $kind<'a> {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Seen;
                impl<'de> Visitor<'de> for Seen {
                    type Value = $kind<'de>;

                    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                        formatter.write_str($what)
                    }

                    $($visit)+
                }
                deserializer.$how(Seen)
            }
        }
    };
}

read_as! {
    Prepare, deserialize_map, "a prepare",
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut group, mut messages) = (None, None);
        let (mut name, mut immunity_s) = (None, None);
        // A key with an escape in it is none of these: it cannot be borrowed.
        while let Some(key) = map.next_key::<&'de str>()? {
            match key {
                "producer_group" => once(&mut group, map.next_value()?)?,
                "messages" => once(&mut messages, map.next_value()?)?,
                "transaction_id" => once(&mut name, map.next_value()?)?,
                "immunity_seconds" => once(&mut immunity_s, map.next_value()?)?,
                _ => return Err(odd()),
            }
        }
        let (Some(Text(group)), Some(Single(message))) = (group, messages) else {
            return Err(odd());
        };
        let name: Option<Text<'de>> = name.flatten();
        let immunity_s: Option<u32> = immunity_s.flatten();
        if immunity_s.is_some_and(|seconds| seconds > IMMUNITY_S_MAX) {
            return Err(odd());
        }
        Ok(Prepare { group, name: name.map(|Text(name)| name), immunity_s, message })
    }
}

/// The only one of a list.
struct Single<'a>(Message<'a>);

read_as! {
    Single, deserialize_seq, "one message",
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        match (list.next_element()?, list.next_element::<IgnoredAny>()?) {
            (Some(message), None) => Ok(Single(message)),
            _ => Err(odd()),
        }
    }
}

read_as! {
    Message, deserialize_map, "a message",
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut topic, mut key, mut key_base64, mut headers) = (None, None, None, None);
        let (mut value, mut value_base64, mut partition) = (None, None, None);
        while let Some(name) = map.next_key::<&'de str>()? {
            match name {
                "topic" => once(&mut topic, map.next_value()?)?,
                "key" => once(&mut key, map.next_value()?)?,
                "key_base64" => once(&mut key_base64, map.next_value()?)?,
                "value" => once(&mut value, map.next_value::<&'de RawValue>()?)?,
                "value_base64" => once(&mut value_base64, map.next_value()?)?,
                "headers" => once(&mut headers, map.next_value()?)?,
                "partition" => once(&mut partition, map.next_value::<Option<IgnoredAny>>()?)?,
                _ => return Err(odd()),
            }
        }
        let (Some(Text(topic)), None) = (topic, partition.flatten()) else {
            return Err(odd());
        };
        let key = match (key.flatten(), key_base64.flatten()) {
            (None, None) => None,
            (Some(Text(key)), None) => Some(key),
            (None, Some(Base64(key))) => Some(key),
            _ => return Err(odd()),
        };
        let value = match (value, value_base64.flatten()) {
            (Some(raw), None) => value_of(raw.get()).ok_or_else(odd)?,
            (None, Some(Base64(value))) => value,
            _ => return Err(odd()),
        };
        if key.as_ref().is_some_and(|key| key.is_empty()) {
            return Err(odd()); // not the same as none, and seldom meant
        }
        let Headers(headers) = headers.flatten().unwrap_or_default();
        Ok(Message { topic, key, value, headers })
    }
}

#[derive(Default)]
struct Headers<'a>(Vec<(Piece<'a>, Piece<'a>)>);

impl<'a> Headers<'a> {
    fn put<E: Error>(&mut self, Text(name): Text<'a>, value: Piece<'a>) -> Result<(), E> {
        let is_good = !name.is_empty() && name.iter().all(is_printable) && !is_reserved(&name);
        if !is_good || self.0.len() == HEADERS_MAX {
            return Err(odd());
        }
        self.0.push((name, value));
        Ok(())
    }
}

read_as! {
    Headers, deserialize_any, "headers",
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut headers = Headers::default();
        while let Some((name, HeaderValue(value))) = map.next_entry::<Text<'de>, _>()? {
            if headers.0.iter().any(|(other, _)| *other == name.0) {
                return Err(odd());
            }
            headers.put(name, value)?;
        }
        Ok(headers)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut headers = Headers::default();
        while let Some((name, HeaderValue(value))) = list.next_element()? {
            headers.put(name, value)?;
        }
        Ok(headers)
    }
}

struct HeaderValue<'a>(Piece<'a>);

read_as! {
    HeaderValue, deserialize_any, "a text or base64",
    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(HeaderValue(Cow::Borrowed(text.as_bytes())))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(HeaderValue(Cow::Owned(text.as_bytes().to_vec())))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(key) = map.next_key::<&'de str>()? {
            match key {
                "base64" => once(&mut found, map.next_value()?)?,
                _ => return Err(odd()),
            }
        }
        let Base64(value) = found.ok_or_else(odd)?;
        Ok(HeaderValue(value))
    }
}

/// What a text in base64 says.
struct Base64<'a>(Piece<'a>);

impl<'de: 'a, 'a> Deserialize<'de> for Base64<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Text(text) = Text::deserialize(deserializer)?;
        Ok(Base64(Cow::Owned(from_base64(&text).ok_or_else(odd)?)))
    }
}

/// With padding, and nothing in the bits that mean nothing.
fn from_base64(text: &[u8]) -> Option<Vec<u8>> {
    let padding = text.iter().rev().take(2).take_while(|letter| **letter == b'=').count();
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let text = &text[..text.len() - padding];
    let mut found = Vec::with_capacity(text.len() / 4 * 3 + 3);
    for piece in text.chunks(4) {
        let mut bits = 0u32;
        for letter in piece {
            let value = VALUES[usize::from(*letter)];
            if value == NO_DIGIT {
                return None;
            }
            bits = bits << 6 | u32::from(value);
        }
        let missing = 4 - piece.len();
        bits <<= 6 * missing;
        let [_, bytes @ ..] = bits.to_be_bytes();
        let (bytes, rest) = bytes.split_at(3 - missing);
        if rest.iter().any(|byte| *byte != 0) {
            return None;
        }
        found.extend_from_slice(bytes);
    }
    Some(found)
}

/// The bytes of a value, given its JSON without blanks around it.
fn value_of(raw: &str) -> Option<Piece<'_>> {
    let bytes = raw.as_bytes();
    match bytes {
        b"null" => None, // a tombstone
        [b'"', text @ .., b'"'] if !text.contains(&b'\\') => Some(Cow::Borrowed(text)),
        [b'"', ..] => serde_json::from_str(raw).ok().map(|Text(text)| text),
        [b'{' | b'[', ..] if !is_plain(bytes) => None,
        _ => Some(Cow::Borrowed(bytes)),
    }
}

/// Whether an object or a list is not too deep, and each of its texts has a meaning: a surrogate
/// that stands alone has none, and not every reader looks for it where a value is passed on.
fn is_plain(json: &[u8]) -> bool {
    let (mut depth, mut at) = (0, 0);
    while let Some(byte) = json.get(at) {
        at += 1;
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            b'"' => match after_text(json, at) {
                Some(after) => at = after,
                None => return false,
            },
            _ => {}
        }
        if depth > DEPTH_MAX {
            return false;
        }
    }
    true
}

/// Where a text that begins at `at` has ended.
fn after_text(json: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += json.get(at..)?.iter().position(|byte| matches!(byte, b'"' | b'\\'))? + 1;
        if json[at - 1] == b'"' {
            return Some(at);
        }
        at += 1;
        if json.get(at - 1) != Some(&b'u') {
            continue;
        }
        match unit(json, at)? {
            0xdc00..=0xdfff => return None,
            0xd800..=0xdbff => {
                let is_pair = json.get(at + 4..at + 6) == Some(b"\\u")
                    && matches!(unit(json, at + 6), Some(0xdc00..=0xdfff));
                if !is_pair {
                    return None;
                }
                at += 10;
            }
            _ => at += 4,
        }
    }
}

/// Four hexadecimal digits.
fn unit(json: &[u8], at: usize) -> Option<u32> {
    let digits = std::str::from_utf8(json.get(at..at + 4)?).ok()?;
    u32::from_str_radix(digits, 16).ok()
}
