//! A record that was read, in memory of its own: librdkafka's would keep a whole fetch alive.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

use blake2b_simd::Params;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};

use crate::carrier::lock;
use crate::owner::story::{self, Ending};
use crate::owner::usual::{self, Usual};

/// Names that many records share are one string in Python.
const SHARED_MAX: usize = 1_024;
static SHARED: LazyLock<Mutex<Shared>> = LazyLock::new(Mutex::default);
type Shared = HashMap<Box<[u8]>, Py<PyString>>;

/// Where something stands in a record's bytes; nowhere, if it is null.
#[derive(Clone, Copy)]
pub struct Span {
    at: u32,
    size: u32,
}

pub const NULL: Span = Span { at: 0, size: u32::MAX };

/// A record's bytes, and where its headers stand.
pub struct Parts<'a> {
    pub bytes: &'a [u8],
    pub headers: &'a [(Span, Span)],
}

impl<'a> Parts<'a> {
    pub fn at(&self, span: Span) -> Option<&'a [u8]> {
        if span.size == u32::MAX {
            return None;
        }
        let at = span.at as usize;
        self.bytes.get(at..at + span.size as usize)
    }
}

/// Bytes that are laid down one after the other.
#[derive(Default)]
pub struct Builder {
    bytes: Vec<u8>,
    pub headers: Vec<(Span, Span)>,
}

impl Builder {
    pub fn with_capacity(size_bytes: usize) -> Builder {
        Builder { bytes: Vec::with_capacity(size_bytes), headers: Vec::with_capacity(8) }
    }

    /// A record is smaller than 4 GiB, for Kafka counts its bytes with 31 bits.
    pub fn lay(&mut self, part: Option<&[u8]>) -> Span {
        let Some(part) = part else {
            return NULL;
        };
        let at = self.bytes.len() as u32;
        self.bytes.extend_from_slice(part);
        Span { at, size: part.len() as u32 }
    }

    /// A header whose name is not UTF-8, as only a stranger writes it: Kafka's Python client can read
    /// none of such a record's headers, so it has none here either. False: there was none.
    pub fn forget_unreadable(&mut self) -> bool {
        let parts = Parts { bytes: &self.bytes, headers: &[] };
        let is_text = |name| std::str::from_utf8(parts.at(name).unwrap_or_default()).is_ok();
        let is_unreadable = !self.headers.iter().all(|(name, _)| is_text(*name));
        if is_unreadable {
            self.headers.clear();
        }
        is_unreadable
    }
}

pub struct Stored {
    pub is_op: bool,
    pub log_offset: i64,
    pub timestamp: (i32, i64),
    bytes: Box<[u8]>,
    key: Span,
    value: Span,
    headers: Box<[(Span, Span)]>,
    pub size_bytes: usize,
    pub usual: Option<Usual>,
}

impl Stored {
    pub fn new(
        is_op: bool,
        log_offset: i64,
        timestamp: (i32, i64),
        key: Span,
        value: Span,
        built: Builder,
    ) -> Stored {
        let (bytes, headers) = (built.bytes.into_boxed_slice(), built.headers.into_boxed_slice());
        let parts = Parts { bytes: &bytes, headers: &headers };
        let usual = if is_op { None } else { usual::read(&parts) };
        let sizes = |span| parts.at(span).map_or(0, <[u8]>::len);
        let names: usize = headers.iter().map(|(name, _)| characters(parts.at(*name))).sum();
        let values: usize = headers.iter().map(|(_, value)| sizes(*value)).sum();
        let size_bytes = sizes(key) + sizes(value) + names + values;
        Stored { is_op, log_offset, timestamp, key, value, size_bytes, usual, bytes, headers }
    }

    pub fn parts(&self) -> Parts<'_> {
        Parts { bytes: &self.bytes, headers: &self.headers }
    }

    pub fn key(&self) -> Option<&[u8]> {
        self.parts().at(self.key)
    }

    pub fn value(&self) -> Option<&[u8]> {
        self.parts().at(self.value)
    }
}

/// As Python counts a header's name.
fn characters(name: Option<&[u8]>) -> usize {
    let name = name.unwrap_or_default();
    if name.is_ascii() { name.len() } else { String::from_utf8_lossy(name).chars().count() }
}

fn bytes_of<'py>(py: Python<'py>, found: Option<&[u8]>) -> Option<Bound<'py, PyBytes>> {
    found.map(|found| PyBytes::new(py, found))
}

fn headers_of<'py>(py: Python<'py>, stored: &Stored) -> PyResult<Bound<'py, PyList>> {
    let parts = stored.parts();
    let pairs = parts.headers.iter().map(|(name, value)| {
        let name = String::from_utf8_lossy(parts.at(*name).unwrap_or_default());
        (PyString::new(py, &name), bytes_of(py, parts.at(*value)))
    });
    PyList::new(py, pairs.collect::<Vec<_>>())
}

/// The same string each time, as long as there are few.
fn shared<'py>(py: Python<'py>, name: &[u8]) -> Bound<'py, PyString> {
    if let Some(found) = lock(&SHARED).get(name) {
        return found.bind(py).clone();
    }
    // Without the lock: to make an object may run any finalizer.
    let made = PyString::new(py, &String::from_utf8_lossy(name));
    let mut known = lock(&SHARED);
    if known.len() < SHARED_MAX {
        known.insert(name.into(), made.clone().unbind());
    }
    made
}

/// `ports.StoredRecord`.
#[pyclass(frozen)]
pub struct Record {
    pub stored: Arc<Stored>,
    pub topic: Py<PyString>,
}

#[pymethods]
impl Record {
    fn topic(&self, py: Python<'_>) -> Py<PyString> {
        self.topic.clone_ref(py)
    }

    fn offset(&self) -> i64 {
        self.stored.log_offset
    }

    fn timestamp(&self) -> (i32, i64) {
        self.stored.timestamp
    }

    fn key<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        bytes_of(py, self.stored.key())
    }

    fn value<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        bytes_of(py, self.stored.value())
    }

    fn headers<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyList>>> {
        if self.stored.parts().headers.is_empty() {
            return Ok(None);
        }
        headers_of(py, &self.stored).map(Some)
    }

    /// What is kept of it.
    fn payload(&self) -> Payload {
        Payload { stored: self.stored.clone() }
    }
}

type Facts<'py> = (Bound<'py, PyString>, Bound<'py, PyString>, u32, u64);
type Aim<'py> = (Bound<'py, PyString>, Option<i32>);
type Story<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>);
type Told<'py> = (Bound<'py, PyString>, Bound<'py, PyString>, Option<i32>, u64);

/// `ports.Payload`: the record's content, of which Python sees what it asks for.
#[pyclass(frozen)]
pub struct Payload {
    pub stored: Arc<Stored>,
}

#[pymethods]
impl Payload {
    #[getter]
    fn key<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        bytes_of(py, self.stored.key())
    }

    #[getter]
    fn value<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        bytes_of(py, self.stored.value())
    }

    #[getter]
    fn headers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        headers_of(py, &self.stored)
    }

    #[getter]
    fn size_bytes(&self) -> usize {
        self.stored.size_bytes
    }

    /// Group, transaction id, index and digest, for the ledger.
    fn facts<'py>(&self, py: Python<'py>) -> Option<Facts<'py>> {
        let (usual, parts) = (self.stored.usual.as_ref()?, self.stored.parts());
        let id = std::str::from_utf8(parts.at(usual.transaction_id)?).ok()?;
        let group = shared(py, parts.at(usual.group)?);
        Some((group, PyString::new(py, id), usual.index, usual.digest))
    }

    /// Where it goes when it is committed.
    fn aim<'py>(&self, py: Python<'py>) -> Option<Aim<'py>> {
        let usual = self.stored.usual.as_ref()?;
        Some((shared(py, self.stored.parts().at(usual.topic)?), usual.partition))
    }

    /// Marker, topic, partition and the hash of the key (0: it has none), for the audit.
    fn told<'py>(&self, py: Python<'py>) -> Option<Told<'py>> {
        let (usual, parts) = (self.stored.usual.as_ref()?, self.stored.parts());
        let marker = String::from_utf8_lossy(parts.at(usual.marker)?);
        let topic = parts.at(usual.topic)?;
        let hashed = self.stored.key().map_or(0, |key| key_hash(topic, key));
        Some((PyString::new(py, &marker), shared(py, topic), usual.partition, hashed))
    }

    /// How a transaction of this message alone has ended, for the audit: entry and marks.
    #[allow(clippy::too_many_arguments)] // an object of them would cost what this saves
    fn story<'py>(
        &self,
        py: Python<'py>,
        ending: i64,
        life: i64,
        stored_ms: i64,
        decided_ms: i64,
        op_offset: i64,
        source: Option<&str>,
        check_count: i64,
        message_count: i64,
        half_offset: i64,
    ) -> Option<Story<'py>> {
        let end = Ending {
            ending,
            life,
            stored_ms,
            decided_ms,
            op_offset,
            source,
            check_count,
            message_count,
            half_offset,
        };
        let (entry, marks) = story::write(&self.stored, &end)?;
        Some((PyBytes::new(py, &entry), PyBytes::new(py, &marks)))
    }
}

/// As `wire/story.py` has it.
pub fn key_hash(topic: &[u8], key: &[u8]) -> u64 {
    let mut state = Params::new().hash_length(8).to_state();
    state.update(topic).update(&[0]).update(key);
    let mut digest = [0; 8];
    digest.copy_from_slice(state.finalize().as_bytes());
    u64::from_be_bytes(digest).max(1)
}

type Given = (Vec<u8>, Option<Vec<u8>>);

/// For tests that compare both ways: a record of the half log as if it had been read.
#[pyfunction]
pub fn half_record(
    py: Python<'_>,
    topic: &str,
    log_offset: i64,
    stored_ms: i64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<Given>,
) -> Record {
    let mut built = Builder::default();
    let (key, value) = (built.lay(key.as_deref()), built.lay(value.as_deref()));
    for (name, value) in &headers {
        let pair = (built.lay(Some(name)), built.lay(value.as_deref()));
        built.headers.push(pair);
    }
    built.forget_unreadable();
    let stored = Stored::new(false, log_offset, (2, stored_ms), key, value, built);
    Record { stored: Arc::new(stored), topic: PyString::new(py, topic).unbind() }
}
