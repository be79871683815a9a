//! The stream cut into frames; binary headers without a remark are looked into, no others.

/// length, form and header length, code, language, version, opaque, flag, remark length, fields
/// length.
const HEAD_BYTES: usize = 29;
/// Of a binary header without remark and fields.
const EMPTY_HEADER_BYTES: usize = 21;
const HEADER_BYTES_MAX: usize = 262_144;
const BINARY: u32 = 1;

/// A frame whose header has the binary form and no remark.
pub struct Frame<'a> {
    pub code: i16,
    pub opaque: i32,
    pub flag: i32,
    pub fields: &'a [u8],
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

/// The parts of one whole frame; None for every other form.
pub fn read(whole: &[u8]) -> Option<Frame<'_>> {
    if whole.len() < HEAD_BYTES {
        return None;
    }
    let mark = int(whole, 4) as u32;
    let header_bytes = (mark & 0x00ff_ffff) as usize;
    let fields_bytes = int(whole, 25);
    if mark >> 24 != BINARY
        || int(whole, 21) != 0
        || fields_bytes < 0
        || header_bytes > HEADER_BYTES_MAX
        || header_bytes != EMPTY_HEADER_BYTES + fields_bytes as usize
        || 8 + header_bytes > whole.len()
    {
        return None;
    }
    let body_at = 8 + header_bytes;
    Some(Frame {
        code: i16::from_be_bytes([whole[8], whole[9]]),
        opaque: int(whole, 13),
        flag: int(whole, 17),
        fields: &whole[HEAD_BYTES..body_at],
        body: &whole[body_at..],
    })
}

fn int(data: &[u8], at: usize) -> i32 {
    i32::from_be_bytes([data[at], data[at + 1], data[at + 2], data[at + 3]])
}

/// Names and values of a binary header, one after the other; None in the place of what does not
/// parse, and nothing after it.
pub struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub fn of(raw: &'a [u8]) -> Self {
        Fields { rest: raw }
    }

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
