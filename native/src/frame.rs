//! The stream cut into frames; binary headers without a remark are looked into, no others.

use std::borrow::Cow;

use crate::json;

/// Of a binary header without remark and fields: code, language, version, opaque, flag, length of
/// the remark, length of the fields.
const EMPTY_HEADER_BYTES: usize = 21;
const HEADER_BYTES_MAX: usize = 262_144;
const JSON: u32 = 0;
const BINARY: u32 = 1;

/// How a header is written; an answer takes the form of its request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    Json,
    Binary,
}

/// Name and value, borrowed where nothing had to be unescaped.
pub type Field<'a> = (Cow<'a, [u8]>, Cow<'a, [u8]>);

/// A whole frame of a usual kind: named fields that are text, no remark.
pub struct Frame<'a> {
    pub form: Form,
    pub code: i32,
    pub opaque: i32,
    pub flag: i32,
    pub fields: Vec<Field<'a>>,
    pub body: &'a [u8],
}

/// What lies at the beginning of some bytes.
pub enum Cut {
    /// So many bytes are one whole frame.
    Whole(usize),
    /// The frame has so many bytes, as far as that is known, and they are not all here.
    Partial(usize),
    /// No frame can begin so.
    Broken,
}

pub fn cut(data: &[u8], frame_bytes_max: usize) -> Cut {
    if data.len() < 4 {
        return Cut::Partial(4);
    }
    let length = int(data, 0);
    if length < 4 || length as usize > frame_bytes_max {
        return Cut::Broken;
    }
    let size = 4 + length as usize;
    if data.len() < size { Cut::Partial(size) } else { Cut::Whole(size) }
}

/// The parts of one whole frame; None for what the loop has to look at.
pub fn read(whole: &[u8]) -> Option<Frame<'_>> {
    let mark = int(whole.get(..8)?, 4) as u32;
    let header_bytes = (mark & 0x00ff_ffff) as usize;
    if header_bytes > HEADER_BYTES_MAX || 8 + header_bytes > whole.len() {
        return None;
    }
    let (header, body) = whole[8..].split_at(header_bytes);
    match mark >> 24 {
        BINARY => read_binary(header, body),
        JSON => json::read(header, body),
        _ => None,
    }
}

fn read_binary<'a>(header: &'a [u8], body: &'a [u8]) -> Option<Frame<'a>> {
    if header.len() < EMPTY_HEADER_BYTES
        || int(header, 13) != 0
        || usize::try_from(int(header, 17)).ok()? != header.len() - EMPTY_HEADER_BYTES
    {
        return None;
    }
    let mut fields = Vec::with_capacity(16);
    for field in (Fields { rest: &header[EMPTY_HEADER_BYTES..] }) {
        let (name, value) = field?;
        std::str::from_utf8(value).ok()?;
        fields.push((Cow::Borrowed(name), Cow::Borrowed(value)));
    }
    Some(Frame {
        form: Form::Binary,
        code: i16::from_be_bytes([header[0], header[1]]).into(),
        opaque: int(header, 5),
        flag: int(header, 9),
        fields,
        body,
    })
}

fn int(data: &[u8], at: usize) -> i32 {
    i32::from_be_bytes([data[at], data[at + 1], data[at + 2], data[at + 3]])
}

/// Names and values of a binary header, one after the other; None in the place of what does not
/// parse, and nothing after it.
struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    fn piece(&mut self, size: usize) -> Option<&'a [u8]> {
        let (piece, rest) = self.rest.split_at_checked(size)?;
        self.rest = rest;
        Some(piece)
    }

    fn field(&mut self) -> Option<(&'a [u8], &'a [u8])> {
        let size = self.piece(2)?;
        let name = self.piece(usize::from(u16::from_be_bytes([size[0], size[1]])))?;
        let size = int(self.piece(4)?, 0);
        Some((name, self.piece(usize::try_from(size).ok()?)?))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Option<(&'a [u8], &'a [u8])>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let found = self.field();
        if found.is_none() {
            self.rest = &[];
        }
        Some(found)
    }
}
