//! How a transaction of one message has ended, as `wire/story.py` writes it for the audit topic.

use std::io::Write;

use crate::owner::record::{Parts, Span, Stored, key_hash};

/// What the ledger says of the end.
pub struct Ending<'a> {
    pub ending: i64,
    pub life: i64,
    pub stored_ms: i64,
    pub decided_ms: i64,
    pub op_offset: i64,
    pub source: Option<&'a str>,
    pub check_count: i64,
    pub message_count: i64,
    pub half_offset: i64,
}

/// The entry, and the marks by which an index finds it. None leaves both to Python: the half is not
/// of the usual form, or has a name that JSON does not write as it stands.
pub fn write(stored: &Stored, end: &Ending<'_>) -> Option<(Vec<u8>, Vec<u8>)> {
    let (usual, parts) = (stored.usual.as_ref()?, stored.parts());
    let group = plain(&parts, usual.group)?;
    let id = plain(&parts, usual.transaction_id)?;
    let marker = plain(&parts, usual.marker)?;
    let topic = plain(&parts, usual.topic)?;
    let source = end.source.map_or(Some("null".into()), |name| {
        is_plain(name.as_bytes()).then(|| format!("\"{name}\""))
    })?;
    let hashed = stored.key().map_or(0, |key| key_hash(topic.as_bytes(), key));
    let partition = usual.partition.map_or("null".into(), |number| number.to_string());
    let Ending { ending, life, stored_ms, decided_ms, op_offset, .. } = end;
    let Ending { check_count, message_count, half_offset, .. } = end;
    let mut entry = Vec::with_capacity(160 + group.len() + id.len() + marker.len() + topic.len());
    write!(
        entry,
        "[\"e\",\"{group}\",\"{id}\",{ending},{life},\"{marker}\",{stored_ms},{decided_ms},\
         {op_offset},{source},null,{check_count},{message_count},{half_offset},\
         [[\"{topic}\",{partition},{hashed}]],null]"
    )
    .ok()?;
    let mut marks = crc32fast::hash(id.as_bytes()).to_be_bytes().to_vec();
    if hashed != 0 {
        marks.extend((hashed as u32).to_be_bytes());
    }
    Some((entry, marks))
}

fn plain<'a>(parts: &Parts<'a>, span: Span) -> Option<&'a str> {
    let bytes = parts.at(span)?;
    if is_plain(bytes) { std::str::from_utf8(bytes).ok() } else { None }
}

/// Without what JSON writes in other words.
fn is_plain(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte >= 0x20 && !matches!(byte, b'"' | b'\\' | 0x7f))
}
