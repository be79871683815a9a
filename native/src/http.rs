//! Requests of the data door in their usual form, read as that door reads them. Whatever has
//! anything unusual about it is `Odd`: that door knows every form, every option and every error.

use crate::read::plain_name;

const NAME_ROOM: usize = 32;
const FIELDS_MAX: usize = 64;
const TOPIC_BYTES_MAX: usize = 249;
const HANDLE_BYTES_MAX: usize = 2_000;
pub const IMMUNITY_S_MAX: u32 = 604_800;
const LENGTH_DIGITS_MAX: usize = 9;
const METHOD: &[u8] = b"POST ";
const VERSION: &[u8] = b" HTTP/1.1";
const HEAD_END: &[u8] = b"\r\n\r\n";
const USER_HEADER: &[u8] = b"half-header-";

/// What lies at the beginning of some bytes.
pub enum Cut<'a> {
    /// So many bytes are one whole request.
    Whole(Request<'a>, usize),
    /// The request has at least so many bytes, and they are not all here.
    Partial(usize),
    Odd,
}

pub enum Request<'a> {
    Half(Half<'a>),
    Prepare(Body<'a>),
    End(End<'a>),
}

/// Messages as JSON, for `prepare::read`.
pub struct Body<'a> {
    pub host: &'a [u8],
    pub content: &'a [u8],
}

/// One message for a new transaction.
pub struct Half<'a> {
    pub host: &'a [u8],
    /// It came so, and is answered so.
    pub is_json: bool,
    pub topic: &'a str,
    pub group: &'a str,
    /// The transaction id, where its caller gives it one.
    pub name: Option<&'a str>,
    pub immunity_s: Option<u32>,
    pub key: Option<&'a [u8]>,
    pub value: &'a [u8],
    /// In their order, with the names as they were written.
    pub headers: Vec<(&'a [u8], &'a [u8])>,
}

impl Half<'_> {
    /// Of key, value and user headers together.
    pub fn size_bytes(&self) -> usize {
        let headers: usize =
            self.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        self.key.map_or(0, <[u8]>::len) + self.value.len() + headers
    }
}

/// A decision of the producer on its own account, to be answered when it is durable.
pub struct End<'a> {
    pub host: &'a [u8],
    pub handle: &'a [u8],
    pub group: Option<&'a [u8]>,
    pub is_commit: bool,
}

enum Route<'a> {
    Half(&'a str),
    Prepare,
    End(&'a [u8], bool),
}

/// Each of them once, and none of them empty.
#[derive(Default)]
struct Fields<'a> {
    host: Option<&'a [u8]>,
    length: Option<&'a [u8]>,
    kind: Option<&'a [u8]>,
    group: Option<&'a [u8]>,
    name: Option<&'a [u8]>,
    immunity: Option<&'a [u8]>,
    key: Option<&'a [u8]>,
    user: Vec<(&'a [u8], &'a [u8])>,
}

impl Fields<'_> {
    /// What only a half may have.
    fn has_more(&self) -> bool {
        self.name.is_some()
            || self.immunity.is_some()
            || self.key.is_some()
            || !self.user.is_empty()
    }
}

/// `head_bytes_max`: a longer head is odd.
pub fn cut(data: &[u8], head_bytes_max: usize) -> Cut<'_> {
    let begun = data.len().min(METHOD.len());
    if data[..begun] != METHOD[..begun] {
        return Cut::Odd;
    }
    let Some(head_bytes) = end_of_head(&data[..data.len().min(head_bytes_max)]) else {
        return if data.len() < head_bytes_max { Cut::Partial(0) } else { Cut::Odd };
    };
    match read(&data[..head_bytes - HEAD_END.len()], &data[head_bytes..]) {
        None => Cut::Odd,
        Some((_, length)) if data.len() - head_bytes < length => Cut::Partial(head_bytes + length),
        Some((request, length)) => Cut::Whole(request, head_bytes + length),
    }
}

fn end_of_head(data: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += data[at..].iter().position(|byte| *byte == b'\n')? + 1;
        if data[..at].ends_with(HEAD_END) {
            return Some(at);
        }
    }
}

/// A request out of its head and as much of its body as there is, and the body's whole length.
fn read<'a>(head: &'a [u8], body: &'a [u8]) -> Option<(Request<'a>, usize)> {
    let (line, rest) = match head.iter().position(|byte| *byte == b'\r') {
        Some(at) => (&head[..at], &head[at..]),
        None => (head, &head[head.len()..]),
    };
    let route = route(line.strip_prefix(METHOD)?.strip_suffix(VERSION)?)?;
    let fields = fields(rest)?;
    let host = fields.host?;
    let length = fields.length.map_or(Some(None), |digits| length(digits).map(Some))?;
    match route {
        Route::Half(topic) => {
            let length = length?;
            let key = fields.key;
            let half = Half {
                host,
                is_json: false,
                topic,
                group: plain_name(fields.group?)?,
                name: fields.name.map_or(Some(None), |name| plain_name(name).map(Some))?,
                immunity_s: fields.immunity.map_or(Some(None), |text| immunity(text).map(Some))?,
                key,
                value: &body[..body.len().min(length)],
                headers: fields.user,
            };
            Some((Request::Half(half), length))
        }
        Route::Prepare => {
            let length = length?;
            let is_taken = fields.kind.is_none_or(is_json);
            if !is_taken || fields.group.is_some() || fields.has_more() {
                return None;
            }
            let content = &body[..body.len().min(length)];
            Some((Request::Prepare(Body { host, content }), length))
        }
        Route::End(handle, is_commit) => {
            if fields.has_more() || length.unwrap_or(0) > 0 {
                return None;
            }
            Some((Request::End(End { host, handle, group: fields.group, is_commit }), 0))
        }
    }
}

fn route(target: &[u8]) -> Option<Route<'_>> {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
    let rest = target.strip_prefix(b"/v1/")?;
    if let Some(rest) = rest.strip_prefix(b"topics/") {
        let topic = rest.strip_suffix(b"/half")?;
        if topic.is_empty() || topic.len() > TOPIC_BYTES_MAX || !topic.iter().all(is_plain) {
            return None;
        }
        return Some(Route::Half(std::str::from_utf8(topic).ok()?));
    }
    if rest == b"transactions" {
        return Some(Route::Prepare);
    }
    let rest = rest.strip_prefix(b"transactions/")?;
    let (handle, is_commit) = match rest.strip_suffix(b"/commit") {
        Some(handle) => (handle, true),
        None => (rest.strip_suffix(b"/rollback")?, false),
    };
    if handle.is_empty() || handle.len() > HANDLE_BYTES_MAX || !handle.iter().all(is_plain) {
        return None;
    }
    Some(Route::End(handle, is_commit))
}

/// `lines`: each with its line break before it.
fn fields(mut lines: &[u8]) -> Option<Fields<'_>> {
    let mut found = Fields::default();
    let mut count = 0;
    while !lines.is_empty() {
        let rest = lines.strip_prefix(b"\r\n")?;
        let end = rest.iter().position(|byte| *byte == b'\r').unwrap_or(rest.len());
        let (line, after) = rest.split_at(end);
        lines = after;
        count += 1;
        if count > FIELDS_MAX {
            return None;
        }
        let colon = line.iter().position(|byte| *byte == b':')?;
        let (name, value) = (&line[..colon], trimmed(&line[colon + 1..]));
        if name.is_empty() || !name.iter().all(is_of_token) || !value.iter().all(is_printable) {
            return None;
        }
        put(&mut found, name, value)?;
    }
    Some(found)
}

fn put<'a>(found: &mut Fields<'a>, name: &'a [u8], value: &'a [u8]) -> Option<()> {
    let mut room = [0; NAME_ROOM];
    let size = name.len().min(NAME_ROOM);
    room[..size].copy_from_slice(&name[..size]);
    room.make_ascii_lowercase();
    match &room[..size] {
        begin if begin.starts_with(USER_HEADER) => {
            let name = &name[USER_HEADER.len()..];
            if name.is_empty() || is_reserved(name) {
                return None;
            }
            found.user.push((name, value));
            Some(())
        }
        b"host" => once(&mut found.host, value),
        b"content-length" => once(&mut found.length, value),
        b"content-type" => once(&mut found.kind, value),
        b"half-producer-group" => once(&mut found.group, value),
        b"half-transaction-id" => once(&mut found.name, value),
        b"half-immunity-seconds" => once(&mut found.immunity, value),
        b"half-key" => once(&mut found.key, value),
        b"connection" => value.eq_ignore_ascii_case(b"keep-alive").then_some(()),
        b"authorization" | b"content-encoding" | b"expect" | b"origin" | b"proxy-connection"
        | b"sec-fetch-site" | b"traceparent" | b"tracestate" | b"transfer-encoding"
        | b"upgrade" => None,
        begin if begin.starts_with(b"half-") => None,
        _ => Some(()), // passed over there, too
    }
}

fn once<'a>(place: &mut Option<&'a [u8]>, value: &'a [u8]) -> Option<()> {
    if value.is_empty() || place.replace(value).is_some() { None } else { Some(()) }
}

fn trimmed(mut value: &[u8]) -> &[u8] {
    while let [b' ', rest @ ..] | [rest @ .., b' '] = value {
        value = rest;
    }
    value
}

/// A media type that says JSON in UTF-8.
fn is_json(kind: &[u8]) -> bool {
    const KINDS: [&[u8]; 3] = [
        b"application/json",
        b"application/json;charset=utf-8",
        b"application/json; charset=utf-8",
    ];
    KINDS.iter().any(|known| kind.eq_ignore_ascii_case(known))
}

pub fn is_printable(byte: &u8) -> bool {
    (0x20..0x7f).contains(byte)
}

fn is_of_token(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte)
}

/// Names of `wire/headers.py` that no user may give a header.
pub fn is_reserved(name: &[u8]) -> bool {
    const RESERVED: [&[u8]; 9] = [
        b"REAL_TOPIC",
        b"REAL_QID",
        b"PGROUP",
        b"UNIQ_KEY",
        b"TRAN_MSG",
        b"CHECK_IMMUNITY_TIME_IN_SECONDS",
        b"TRANSACTION_CHECK_TIMES",
        b"TRAN_PREPARED_QUEUE_OFFSET",
        b"__transactionId__",
    ];
    name.starts_with(b"HALFHITCH") || RESERVED.contains(&name)
}

fn length(digits: &[u8]) -> Option<usize> {
    if digits.len() > LENGTH_DIGITS_MAX || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(digits.iter().fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0')))
}

/// A record has the number in the form without needless zeros.
fn immunity(digits: &[u8]) -> Option<u32> {
    let seconds = u32::try_from(length(digits)?).ok()?;
    let is_short = digits.len() == 1 || digits[0] != b'0';
    (is_short && seconds <= IMMUNITY_S_MAX).then_some(seconds)
}
