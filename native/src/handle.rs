//! Handles of transactions with one message, as `wire/handle.py` has them.

use blake2b_simd::Params;

const VERSION: u8 = 2;
const HEAD_BYTES: usize = 16;
const MAC_BYTES: usize = 16;
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The key that signs, and whose handles these are.
#[derive(PartialEq, Eq)]
pub struct Signer {
    key: Vec<u8>,
    person: Vec<u8>,
}

/// Where a transaction lies and whose it is.
pub struct Place<'a> {
    pub partition: u16,
    pub half_offset: u64,
    pub group: &'a str,
    pub transaction_id: &'a str,
    pub topic: &'a str,
}

/// A handle taken apart; the texts lie in `raw`.
pub struct Read {
    raw: Vec<u8>,
}

impl Signer {
    /// None: `key` or `person` cannot be one.
    pub fn new(key: Vec<u8>, person: Vec<u8>) -> Option<Signer> {
        ((1..=64).contains(&key.len()) && person.len() == 16).then_some(Signer { key, person })
    }

    /// Texts of at most 255 bytes each.
    pub fn encode(&self, place: &Place<'_>) -> String {
        let Place { partition, half_offset, group, transaction_id, topic } = place;
        let mut raw = Vec::with_capacity(HEAD_BYTES + 1 + MAC_BYTES + 128);
        raw.push(VERSION);
        raw.extend_from_slice(&partition.to_be_bytes());
        raw.extend_from_slice(&1u16.to_be_bytes());
        raw.extend_from_slice(&half_offset.to_be_bytes());
        raw.extend_from_slice(&[group.len() as u8, transaction_id.len() as u8, 1]);
        raw.extend_from_slice(group.as_bytes());
        raw.extend_from_slice(transaction_id.as_bytes());
        raw.push(topic.len() as u8);
        raw.extend_from_slice(topic.as_bytes());
        let mac = self.mac(&raw);
        raw.extend_from_slice(&mac);
        to_text(&raw)
    }

    /// None for one that this key has not signed, or that is not of this form.
    pub fn decode(&self, text: &[u8]) -> Option<Read> {
        let raw = from_text(text)?;
        let read = Read { raw };
        let place = read.place()?;
        let (body, mac) = read.raw.split_at(read.raw.len() - MAC_BYTES);
        let made = self.mac(body);
        let difference = made.iter().zip(mac).fold(0, |sum, (one, other)| sum | (one ^ other));
        let is_plain = to_text(&read.raw).as_bytes() == text;
        let _ = place;
        (difference == 0 && is_plain).then_some(read)
    }

    fn mac(&self, body: &[u8]) -> [u8; MAC_BYTES] {
        let mut params = Params::new();
        params.hash_length(MAC_BYTES).key(&self.key).personal(&self.person);
        let mut mac = [0; MAC_BYTES];
        mac.copy_from_slice(params.hash(body).as_bytes());
        mac
    }
}

impl Read {
    pub fn place(&self) -> Option<Place<'_>> {
        let raw = &self.raw;
        let body = raw.get(..raw.len().checked_sub(MAC_BYTES)?)?;
        let (head, texts) = body.split_at_checked(HEAD_BYTES)?;
        if head[0] != VERSION || head[3..5] != [0, 1] || head[15] != 1 {
            return None;
        }
        let (group, rest) = texts.split_at_checked(head[13].into())?;
        let (transaction_id, rest) = rest.split_at_checked(head[14].into())?;
        let (size, topic) = rest.split_first()?;
        if usize::from(*size) != topic.len() {
            return None;
        }
        Some(Place {
            partition: u16::from_be_bytes([head[1], head[2]]),
            half_offset: u64::from_be_bytes(head[5..13].try_into().ok()?),
            group: std::str::from_utf8(group).ok()?,
            transaction_id: std::str::from_utf8(transaction_id).ok()?,
            topic: std::str::from_utf8(topic).ok()?,
        })
    }
}

/// Base64 with the letters of URLs, without padding.
fn to_text(raw: &[u8]) -> String {
    let mut text = String::with_capacity(raw.len().div_ceil(3) * 4);
    for piece in raw.chunks(3) {
        let bits = piece.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte));
        let bits = bits << (8 * (3 - piece.len()));
        for place in 0..=piece.len() {
            text.push(DIGITS[(bits >> (18 - 6 * place) & 63) as usize].into());
        }
    }
    text
}

fn from_text(text: &[u8]) -> Option<Vec<u8>> {
    let mut raw = Vec::with_capacity(text.len() * 3 / 4);
    for piece in text.chunks(4) {
        if piece.len() == 1 {
            return None;
        }
        let mut bits = 0u32;
        for byte in piece {
            bits = bits << 6 | digit(*byte)?;
        }
        bits <<= 6 * (4 - piece.len());
        raw.extend_from_slice(&bits.to_be_bytes()[1..piece.len()]);
    }
    Some(raw)
}

fn digit(letter: u8) -> Option<u32> {
    let found = match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'-' => 62,
        b'_' => 63,
        _ => return None,
    };
    Some(found.into())
}
