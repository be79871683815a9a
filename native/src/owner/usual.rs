//! What a half record says, if it is of the form that nearly all have; None leaves it to
//! `wire/half.py`, which knows every form and what is wrong with it.

use crate::owner::record::{Parts, Span};

const FIXED: [&[u8]; 5] = [b"HALFHITCH", b"UNIQ_KEY", b"PGROUP", b"REAL_TOPIC", b"TRAN_MSG"];
const REAL_QID: &[u8] = b"REAL_QID";
/// System headers of a half, of which the usual one has none behind the fixed ones.
const UNUSUAL: [&[u8]; 4] = [
    b"CHECK_IMMUNITY_TIME_IN_SECONDS",
    b"TRANSACTION_CHECK_TIMES",
    b"TRAN_PREPARED_QUEUE_OFFSET",
    b"__transactionId__",
];
const RESERVED: &[u8] = b"HALFHITCH";
const VERSION: &[u8] = b"1";
const INDEX_MAX: u64 = 999;
const NAME_BYTES_MAX: usize = 255;
const DIGEST: &[u8] = b";d=";
const DIGITS: usize = 16;

/// Of a half of the usual form.
pub struct Usual {
    pub group: Span,
    pub transaction_id: Span,
    pub topic: Span,
    pub marker: Span,
    pub index: u32,
    pub digest: u64,
    pub partition: Option<i32>,
    /// So many headers are not the user's.
    pub system_count: usize,
}

pub fn read(parts: &Parts<'_>) -> Option<Usual> {
    let headers = parts.headers;
    if headers.len() < FIXED.len() {
        return None;
    }
    for (known, (name, _)) in FIXED.iter().zip(headers) {
        if parts.at(*name)? != *known {
            return None;
        }
    }
    let value = |place: usize| headers[place].1;
    let (marker, transaction_id, group, topic) = (value(0), value(1), value(2), value(3));
    let (index, digest) = marker_of(parts.at(marker)?)?;
    for name in [transaction_id, group] {
        let name = parts.at(name)?;
        if name.is_empty() || name.len() > NAME_BYTES_MAX || std::str::from_utf8(name).is_err() {
            return None;
        }
    }
    let topic_name = parts.at(topic)?;
    if topic_name.is_empty() || topic_name.contains(&0) || std::str::from_utf8(topic_name).is_err()
    {
        return None;
    }
    let mut system_count = FIXED.len();
    let mut partition = None;
    while let Some((name, value)) = headers.get(system_count) {
        let name = parts.at(*name)?;
        if name == REAL_QID {
            partition = Some(i32::try_from(number(parts.at(*value)?, 10)?).ok()?);
            system_count += 1;
            continue;
        }
        if UNUSUAL.contains(&name) || FIXED.contains(&name) || name.starts_with(RESERVED) {
            return None;
        }
        break;
    }
    Some(Usual { group, transaction_id, topic, marker, index, digest, partition, system_count })
}

/// `1;<index>;<born_ms>;<instance>;d=<digest>`: index and digest, which is 0 where there is none.
fn marker_of(marker: &[u8]) -> Option<(u32, u64)> {
    let mut pieces = marker.splitn(4, |byte| *byte == b';');
    let (version, index) = (pieces.next()?, pieces.next()?);
    pieces.next()?;
    pieces.next()?;
    if version != VERSION {
        return None;
    }
    let index = number(index, 19)?;
    if index > INDEX_MAX {
        return None;
    }
    let found = marker.windows(DIGEST.len()).rposition(|window| window == DIGEST);
    let digest = found.map_or(0, |at| digest_of(&marker[at + DIGEST.len()..]));
    Some((index as u32, digest))
}

fn digest_of(digits: &[u8]) -> u64 {
    if digits.len() != DIGITS || !digits.iter().all(u8::is_ascii_hexdigit) {
        return 0;
    }
    let text = std::str::from_utf8(digits).unwrap_or_default();
    u64::from_str_radix(text, 16).unwrap_or(0)
}

fn number(raw: &[u8], digits_max: usize) -> Option<u64> {
    if raw.is_empty() || raw.len() > digits_max || !raw.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(raw).ok()?.parse().ok()
}

/// The marker of the forwarded record: with how many messages its transaction has.
pub fn with_count(marker: &[u8], message_count: u32) -> Vec<u8> {
    let tail = DIGEST.len() + DIGITS;
    let at = match marker.len().checked_sub(tail) {
        Some(at) if marker[at..].starts_with(DIGEST) => at,
        _ => marker.len(),
    };
    let count = format!(";n={message_count}");
    [&marker[..at], count.as_bytes(), &marker[at..]].concat()
}
