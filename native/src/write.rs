//! Bytes that the interpreted door would write too: answers, op records, ids.

use std::io::Write;

use crate::frame::Form;
use crate::lanes::EndItem;
use crate::read::Send;

/// What the answer to a half message says. Texts are shorter than 128 bytes.
pub struct Reply<'a> {
    pub form: Form,
    pub opaque: i32,
    pub id_prefix: &'a str,
    pub queue_id: i32,
    pub position: i64,
    pub seal: i64,
    pub transaction_id: &'a str,
}

/// Half partition and half offset in one number.
pub fn position(partition: i32, half_offset: i64) -> i64 {
    i64::from(partition) << 48 | half_offset
}

/// Code, language and version of every answer, and the two as JSON has them.
#[derive(Default)]
pub struct ReplyStart {
    pub binary: [u8; 5],
    pub language: String,
    pub version: i32,
}

pub fn stored_reply(out: &mut Vec<u8>, start: &ReplyStart, reply: &Reply<'_>) {
    match reply.form {
        Form::Binary => binary_reply(out, &start.binary, reply),
        Form::Json => json_reply(out, start, reply),
    }
}

fn json_reply(out: &mut Vec<u8>, start: &ReplyStart, reply: &Reply<'_>) {
    let ReplyStart { language, version, .. } = start;
    let Reply { opaque, id_prefix, queue_id, position, seal, transaction_id, .. } = *reply;
    let begin = out.len();
    out.extend_from_slice(&[0; 8]);
    let _ = write!(
        out,
        concat!(
            r#"{{"code":0,"language":"{}","version":{},"opaque":{},"flag":1,"extFields":"#,
            r#"{{"msgId":"{}{:016X}","queueId":"{}","queueOffset":"{}","transactionId":"{}"}},"#,
            r#""serializeTypeCurrentRPC":"JSON"}}"#
        ),
        language, version, opaque, id_prefix, position, queue_id, seal, transaction_id
    );
    let size = (out.len() - begin - 8) as u32;
    out[begin..begin + 4].copy_from_slice(&(size + 4).to_be_bytes());
    out[begin + 4..begin + 8].copy_from_slice(&size.to_be_bytes());
}

fn binary_reply(out: &mut Vec<u8>, start: &[u8; 5], reply: &Reply<'_>) {
    let Reply { opaque, id_prefix, queue_id, position, seal, transaction_id, .. } = *reply;
    let begin = out.len();
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(start);
    out.extend_from_slice(&opaque.to_be_bytes());
    out.extend_from_slice(&1i32.to_be_bytes()); // an answer
    out.extend_from_slice(&0i32.to_be_bytes()); // no remark
    out.extend_from_slice(&[0; 4]);
    let fields_at = out.len();
    field(out, b"msgId", format_args!("{id_prefix}{position:016X}"));
    field(out, b"queueId", format_args!("{queue_id}"));
    field(out, b"queueOffset", format_args!("{seal}"));
    field(out, b"transactionId", format_args!("{transaction_id}"));
    let size = (out.len() - fields_at) as u32;
    out[begin..begin + 4].copy_from_slice(&(size + 25).to_be_bytes());
    out[begin + 4..begin + 8].copy_from_slice(&((1 << 24) + 21 + size).to_be_bytes());
    out[fields_at - 4..fields_at].copy_from_slice(&size.to_be_bytes());
}

fn field(out: &mut Vec<u8>, name: &[u8], value: std::fmt::Arguments<'_>) {
    out.extend_from_slice(&(name.len() as u16).to_be_bytes());
    out.extend_from_slice(name);
    let size_at = out.len();
    out.extend_from_slice(&[0; 4]);
    let _ = out.write_fmt(value); // a Vec takes everything
    let size = (out.len() - size_at - 4) as u32;
    out[size_at..size_at + 4].copy_from_slice(&size.to_be_bytes());
}

/// The answer to a raw half over HTTP.
pub fn http_stored(out: &mut Vec<u8>, handle: &str, transaction_id: &str) {
    let _ = write!(
        out,
        concat!(
            "HTTP/1.1 201 Created\r\nContent-Length: 0\r\nHalf-Handle: {}\r\n",
            "Half-Transaction-Id: {}\r\n\r\n"
        ),
        handle, transaction_id
    );
}

/// The answer to a prepare as JSON; the id is one of `plain_name`.
pub fn http_prepared(out: &mut Vec<u8>, handle: &str, transaction_id: &str) {
    let plain = r#"{"transaction_id":"","handle":"","state":"pending"}"#;
    let size = plain.len() + transaction_id.len() + handle.len();
    let _ = write!(
        out,
        concat!(
            "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            r#"{{"transaction_id":"{}","handle":"{}","state":"pending"}}"#
        ),
        size, transaction_id, handle
    );
}

/// The answer to a commit or a roll back over HTTP; the id is one of `plain_name`.
pub fn http_ended(out: &mut Vec<u8>, transaction_id: &str, is_commit: bool) {
    let state = if is_commit { "committed" } else { "rolled_back" };
    let size = r#"{"transaction_id":"","state":""}"#.len() + transaction_id.len() + state.len();
    let _ = write!(
        out,
        concat!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            r#"{{"transaction_id":"{}","state":"{}"}}"#
        ),
        size, transaction_id, state
    );
}

/// The HALFHITCH header of a half record: version, index, birth, instance, digest.
pub fn marker(born_ms: u128, instance: &str, digest: u64) -> String {
    match digest {
        0 => format!("1;0;{born_ms};{instance}"),
        _ => format!("1;0;{born_ms};{instance};d={digest:016x}"),
    }
}

/// Those of the system first, then the user's.
pub fn half_headers<'a>(
    send: &Send<'a>,
    marker: &'a str,
    group: &'a str,
    kafka_topic: &'a str,
    queue_id: &'a str,
) -> Vec<(&'a [u8], &'a [u8])> {
    let mut headers: Vec<(&[u8], &[u8])> = Vec::with_capacity(7 + send.headers.len());
    headers.extend_from_slice(&[
        (b"HALFHITCH", marker.as_bytes()),
        (b"UNIQ_KEY", send.transaction_id.as_bytes()),
        (b"PGROUP", group.as_bytes()),
        (b"REAL_TOPIC", kafka_topic.as_bytes()),
        (b"TRAN_MSG", b"true"),
        (b"REAL_QID", queue_id.as_bytes()),
    ]);
    if let Some(immunity) = send.immunity_s {
        headers.push((b"CHECK_IMMUNITY_TIME_IN_SECONDS", immunity));
    }
    headers.extend_from_slice(&send.headers);
    headers
}

/// Where a transaction lives, as `core/partitioning.py` has it.
pub fn partition(transaction_id: &str, partition_count: u32) -> u32 {
    crc32fast::hash(maker(transaction_id)) % partition_count
}

/// What the ids of one client process begin with; of another form: the whole id.
fn maker(transaction_id: &str) -> &[u8] {
    let id = transaction_id.as_bytes();
    match id.len() {
        32 | 56 => &id[..id.len() - 12],
        34 => &id[..18],
        _ => id,
    }
}

/// Value and HALFHITCH header of one op record with decisions of one kind.
pub fn decisions(items: &[EndItem]) -> (Vec<u8>, Vec<u8>) {
    let mut value = Vec::with_capacity(items.len() * 12);
    let mut entries = Vec::with_capacity(items.len() * 96);
    entries.extend_from_slice(b"1[");
    for (place, item) in items.iter().enumerate() {
        let _ = write!(value, "{},", item.half_offset);
        if place > 0 {
            entries.push(b',');
        }
        let _ = write!(
            entries,
            "[\"{}\",\"{}\",1,1,\"producer\",null]",
            item.identity.0, item.identity.1
        );
    }
    entries.push(b']');
    (value, entries)
}
