//! The two requests of a transaction, read as the interpreted door reads them; None sends a
//! request to that door, which knows every form, every option and every error.

use std::borrow::Cow;

use crate::frame::Frame;
use crate::inflate;

pub const SEND_V2: i32 = 310;
pub const END: i32 = 37;
const ONE_WAY: i32 = 2;
const PROPERTIES_BYTES_MAX: usize = 32_767;
const NAME_BYTES_MAX: usize = 255;
const HEADERS_MAX: usize = 64;

/// A half message of the usual kind.
pub struct Send<'a> {
    pub group: &'a [u8],
    pub topic: &'a [u8],
    pub queue_id: i32,
    pub transaction_id: &'a str,
    pub keys: Option<&'a [u8]>,
    pub immunity_s: Option<&'a [u8]>,
    /// Properties that become headers, in their order.
    pub headers: Vec<(&'a [u8], &'a [u8])>,
    /// With zlib.
    is_compressed: bool,
    /// Of key and user headers together.
    pub size_bytes: usize,
}

impl Send<'_> {
    /// As the application gave it. One of more bytes than that is none, however it is compressed.
    pub fn body<'b>(&self, raw: &'b [u8], bytes_max: usize) -> Option<Cow<'b, [u8]>> {
        if self.is_compressed {
            return Some(Cow::Owned(inflate::zlib(raw, bytes_max)?));
        }
        (raw.len() <= bytes_max).then_some(Cow::Borrowed(raw))
    }
}

/// One way, said by the producer on its own account.
pub struct End<'a> {
    pub group: &'a [u8],
    pub transaction_id: &'a str,
    pub is_commit: bool,
    pub partition: i32,
    pub half_offset: i64,
    pub seal: i64,
}

/// Fields by their letters: each at most once, and none that is not known here.
pub fn send<'a>(frame: &'a Frame<'_>) -> Option<Send<'a>> {
    if frame.flag != 0 {
        return None;
    }
    let mut found: [Option<&'a [u8]>; 14] = [None; 14];
    for (name, value) in &frame.fields {
        let place = match name.as_ref() {
            [letter @ b'a'..=b'm'] => usize::from(letter - b'a'),
            b"n" | b"bname" => 13,
            _ => return None,
        };
        if found[place].replace(value.as_ref()).is_some() {
            return None;
        }
    }
    let [group, topic, _, queues, queue, sys, born, flag, properties, again, _, _, batch, _] =
        found;
    let (group, topic, properties) = (group?, topic?, properties?);
    if group.is_empty()
        || topic.is_empty()
        || flag? != b"0"
        || !is_number(born?)
        || !is_small(queues.unwrap_or(b"0"))
        || !is_small(again.unwrap_or(b"0"))
        || batch.is_some_and(|yes| yes != b"false")
        || properties.len() > PROPERTIES_BYTES_MAX
    {
        return None;
    }
    let is_compressed = match sys? {
        b"4" | b"0" => false,
        b"5" | b"1" | b"773" | b"769" => true, // with zlib, said or unsaid
        _ => return None,
    };
    let send = read_properties(properties, group, topic, small(queue?)?)?;
    Some(Send { is_compressed, ..send })
}

fn read_properties<'a>(
    raw: &'a [u8],
    group: &'a [u8],
    topic: &'a [u8],
    queue_id: i32,
) -> Option<Send<'a>> {
    let (mut transaction_id, mut keys, mut immunity_s) = (None, None, None);
    let (mut is_transactional, mut has_group) = (false, false);
    let mut headers: Vec<(&[u8], &[u8])> = Vec::with_capacity(8);
    let mut size_bytes = 0;
    for piece in raw.strip_suffix(b"\x02").unwrap_or(raw).split(|byte| *byte == 2) {
        let at = piece.iter().position(|byte| *byte == 1)?;
        let (name, value) = (&piece[..at], &piece[at + 1..]);
        if name.is_empty() || value.is_empty() {
            return None;
        }
        match name {
            b"UNIQ_KEY" => once(&mut transaction_id, value)?,
            b"TRAN_MSG" if !is_transactional && value == b"true" => is_transactional = true,
            b"PGROUP" if !has_group => has_group = true,
            b"CHECK_IMMUNITY_TIME_IN_SECONDS" => {
                let digits = value.iter().all(u8::is_ascii_digit);
                if !digits || value.len() > 5 || (value.len() > 1 && value[0] == b'0') {
                    return None;
                }
                once(&mut immunity_s, value)?;
            }
            _ => {
                if !is_header(name) || headers.len() >= HEADERS_MAX {
                    return None;
                }
                if headers.iter().any(|(other, _)| *other == name) {
                    return None; // of two with one name the last counts, in the place of the first
                }
                if name == b"KEYS" {
                    keys = Some(value);
                    size_bytes += value.len();
                }
                size_bytes += name.len() + value.len();
                headers.push((name, value));
            }
        }
    }
    let transaction_id = plain_name(transaction_id?)?;
    is_transactional.then_some(Send {
        group,
        topic,
        queue_id,
        transaction_id,
        keys,
        immunity_s,
        headers,
        is_compressed: false,
        size_bytes,
    })
}

/// Names that mean something to Half Hitch, or that it refuses, are for that door.
fn is_header(name: &[u8]) -> bool {
    const TWINS: [&[u8]; 12] = [
        b"DELAY",
        b"TIMER_DELAY_MS",
        b"TIMER_DELAY_SEC",
        b"TIMER_DELIVER_MS",
        b"REAL_TOPIC",
        b"REAL_QID",
        b"TRAN_MSG",
        b"PGROUP",
        b"TRANSACTION_CHECK_TIMES",
        b"TRAN_PREPARED_QUEUE_OFFSET",
        b"__transactionId__",
        b"ROCKETMQ_FLAG",
    ];
    name.iter().all(|byte| (0x20..0x7f).contains(byte))
        && !name.starts_with(b"HALFHITCH")
        && !TWINS.contains(&name)
}

fn once<'a>(place: &mut Option<&'a [u8]>, value: &'a [u8]) -> Option<()> {
    if place.replace(value).is_some() { None } else { Some(()) }
}

/// Request 37, one way and not out of a check.
pub fn end<'a>(frame: &'a Frame<'_>) -> Option<End<'a>> {
    if frame.flag != ONE_WAY {
        return None;
    }
    let mut found: [Option<&'a [u8]>; 9] = [None; 9];
    for (name, value) in &frame.fields {
        let place = match name.as_ref() {
            b"producerGroup" => 0,
            b"tranStateTableOffset" => 1,
            b"commitLogOffset" => 2,
            b"commitOrRollback" => 3,
            b"fromTransactionCheck" => 4,
            b"msgId" => 5,
            b"transactionId" => 6,
            b"topic" => 7,
            b"bname" => 8,
            _ => return None,
        };
        if found[place].replace(value.as_ref()).is_some() {
            return None;
        }
    }
    let [group, state, position, decided, checked, message, transaction, _, _] = found;
    if checked.is_some_and(|yes| yes != b"false") {
        return None;
    }
    let seal = number(state?)?;
    let position = number(position?)?;
    let named = transaction.filter(|id| !id.is_empty()).or(message)?;
    Some(End {
        group: group.filter(|name| !name.is_empty())?,
        transaction_id: plain_name(named)?,
        is_commit: match decided? {
            b"8" => true,
            b"12" => false,
            _ => return None,
        },
        partition: (position >> 48) as i32, // of 60 bits
        half_offset: position & 0xffff_ffff_ffff,
        seal,
    })
}

/// ASCII without control characters, and nothing that JSON writes differently.
pub fn plain_name(raw: &[u8]) -> Option<&str> {
    let is_plain = |byte: &u8| (0x20..0x7f).contains(byte) && *byte != b'"' && *byte != b'\\';
    if raw.is_empty() || raw.len() > NAME_BYTES_MAX || !raw.iter().all(is_plain) {
        return None;
    }
    std::str::from_utf8(raw).ok()
}

fn is_number(raw: &[u8]) -> bool {
    !raw.is_empty() && raw.len() <= 18 && raw.iter().all(u8::is_ascii_digit)
}

fn is_small(raw: &[u8]) -> bool {
    is_number(raw) && raw.len() <= 9
}

fn number(raw: &[u8]) -> Option<i64> {
    if !is_number(raw) {
        return None;
    }
    Some(raw.iter().fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0')))
}

fn small(raw: &[u8]) -> Option<i32> {
    if is_small(raw) { number(raw)?.try_into().ok() } else { None }
}
