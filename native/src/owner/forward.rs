//! Committed halves go to their targets, within the Kafka transaction of their owner's producer.
//!
//! The producer is confluent-kafka's: its fences, its suspicion and its commit stay where they are.
//! Only librdkafka's handle in it is used, and whether it stands where it is looked for is made sure
//! of (`adapters/native/owner.py` knows for which versions).

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_int, c_void};
use std::ptr;
use std::sync::Arc;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::kafka::piece;
use crate::kafka::{Argument, FLAG_COPY, FLAGS, HEADERS, KEY, PARTITION, Piece, RKT, VALUE, Value};
use crate::owner::api::{Handle, OwnerApi, load};
use crate::owner::record::{Parts, Payload, Stored};
use crate::owner::usual::{Usual, with_count};

const MARKER: &[u8] = b"HALFHITCH";
const ANY_PARTITION: i32 = -1;
const INVALID: c_int = -186;

/// Which one was refused, and librdkafka's error: number, words, fatal, retriable, abort wanted.
type Refused = (usize, c_int, String, bool, bool, bool);

/// Of the forwarded record: the user's, then whose it is.
fn headers_of<'a>(
    parts: &Parts<'a>,
    usual: &Usual,
    marker: &'a [u8],
) -> impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)> {
    let (bytes, headers) = (parts.bytes, parts.headers);
    let users = headers[usual.system_count..].iter().chain(&headers[1..3]);
    let at = move |span| Parts { bytes, headers }.at(span);
    users
        .map(move |(name, value)| (at(*name).unwrap_or_default(), at(*value)))
        .chain([(MARKER, Some(marker))])
}

type Pairs = Vec<(Vec<u8>, Option<Vec<u8>>)>;

/// For tests that compare both ways: the headers of the forwarded record.
#[pyfunction]
pub fn forwarded_headers(payload: &Payload, message_count: u32) -> Option<Pairs> {
    let (usual, parts) = (payload.stored.usual.as_ref()?, payload.stored.parts());
    let marker = with_count(parts.at(usual.marker)?, message_count);
    let pairs = headers_of(&parts, usual, &marker)
        .map(|(name, value)| (name.to_vec(), value.map(<[u8]>::to_vec)));
    Some(pairs.collect())
}

struct Client(Handle);
unsafe impl Send for Client {}

/// Give these to librdkafka: a payload, and how many messages its transaction has. None: all are taken.
#[pyfunction]
pub fn forward(
    py: Python<'_>,
    library: &str,
    client: &Bound<'_, PyAny>,
    payloads: Vec<(Py<Payload>, u32)>,
) -> PyResult<Option<Refused>> {
    let api = load(library).map_err(PyRuntimeError::new_err)?;
    let client = handle_of(api, client)?;
    let records: Vec<(Arc<Stored>, u32)> = payloads
        .iter()
        .map(|(payload, message_count)| (payload.get().stored.clone(), *message_count))
        .collect();
    Ok(py.detach(move || {
        let mut sink = Sink::new(api, client);
        records.iter().enumerate().find_map(|(place, (stored, count))| {
            sink.give(stored, *count).err().map(|e| e.of(place))
        })
    }))
}

/// The first thing in confluent-kafka's object; it has told librdkafka where that object is.
fn handle_of(api: &OwnerApi, client: &Bound<'_, PyAny>) -> PyResult<Client> {
    let size: usize = client.get_type().getattr("__basicsize__")?.extract()?;
    let object = client.as_ptr();
    if size < 3 * size_of::<usize>() {
        return Err(no_client());
    }
    let found = unsafe { *object.add(1).cast::<Handle>() };
    if found.is_null() || unsafe { (api.opaque)(found) } != object.cast() {
        return Err(no_client());
    }
    Ok(Client(found))
}

fn no_client() -> PyErr {
    PyRuntimeError::new_err("this is no client of confluent-kafka, or it is closed")
}

struct Sink<'a> {
    api: &'a OwnerApi,
    client: Client,
    topics: HashMap<Box<[u8]>, *mut c_void>,
}

struct Trouble {
    code: c_int,
    words: String,
    is_fatal: bool,
    is_retriable: bool,
    wants_abort: bool,
}

impl Trouble {
    fn of(self, place: usize) -> Refused {
        (place, self.code, self.words, self.is_fatal, self.is_retriable, self.wants_abort)
    }

    fn unusual() -> Trouble {
        let words = "this half is not of the usual form".to_owned();
        Trouble { code: INVALID, words, is_fatal: false, is_retriable: false, wants_abort: false }
    }
}

impl<'a> Sink<'a> {
    fn new(api: &'a OwnerApi, client: Client) -> Sink<'a> {
        Sink { api, client, topics: HashMap::new() }
    }

    fn give(&mut self, stored: &Stored, message_count: u32) -> Result<(), Trouble> {
        let parts = stored.parts();
        let usual = stored.usual.as_ref().ok_or_else(Trouble::unusual)?;
        let topic = self.topic(parts.at(usual.topic).unwrap_or_default())?;
        let marker = with_count(parts.at(usual.marker).unwrap_or_default(), message_count);
        let headers = unsafe {
            let headers = (self.api.headers_new)(parts.headers.len());
            for (name, value) in headers_of(&parts, usual, &marker) {
                self.add(headers, name, value);
            }
            headers
        };
        let partition = usual.partition.unwrap_or(ANY_PARTITION);
        let arguments = [
            Argument { kind: RKT, value: Value { ptr: topic } },
            Argument { kind: PARTITION, value: Value { i32: partition } },
            Argument { kind: FLAGS, value: Value { int: FLAG_COPY } },
            Argument { kind: VALUE, value: Value { piece: maybe(stored.value()) } },
            Argument { kind: KEY, value: Value { piece: maybe(stored.key()) } },
            Argument { kind: HEADERS, value: Value { ptr: headers } },
        ];
        unsafe {
            let error = (self.api.produceva)(self.client.0, arguments.as_ptr(), arguments.len());
            if error.is_null() {
                return Ok(());
            }
            (self.api.headers_destroy)(headers);
            Err(self.trouble(error))
        }
    }

    unsafe fn add(&self, headers: *mut c_void, name: &[u8], value: Option<&[u8]>) {
        let (at, size) = value.map_or((ptr::null(), 0), |value| (value.as_ptr(), value.len()));
        unsafe {
            (self.api.header_add)(
                headers,
                name.as_ptr().cast(),
                name.len() as isize,
                at.cast(),
                size as isize,
            )
        };
    }

    fn topic(&mut self, name: &[u8]) -> Result<*mut c_void, Trouble> {
        if let Some(found) = self.topics.get(name) {
            return Ok(*found);
        }
        let text = CString::new(name).map_err(|_| Trouble::unusual())?;
        let made = unsafe { (self.api.topic_new)(self.client.0, text.as_ptr(), ptr::null_mut()) };
        if made.is_null() {
            return Err(Trouble::unusual());
        }
        self.topics.insert(name.into(), made);
        Ok(made)
    }

    unsafe fn trouble(&self, error: *mut c_void) -> Trouble {
        let api = self.api;
        unsafe {
            let words = CStr::from_ptr((api.error_string)(error)).to_string_lossy().into_owned();
            let trouble = Trouble {
                code: (api.error_code)(error),
                words,
                is_fatal: (api.error_is_fatal)(error) != 0,
                is_retriable: (api.error_is_retriable)(error) != 0,
                wants_abort: (api.error_txn_requires_abort)(error) != 0,
            };
            (api.error_destroy)(error);
            trouble
        }
    }
}

impl Drop for Sink<'_> {
    fn drop(&mut self) {
        for topic in self.topics.values() {
            unsafe { (self.api.topic_destroy)(*topic) }
        }
    }
}

fn maybe(bytes: Option<&[u8]>) -> Piece {
    bytes.map_or(Piece { ptr: ptr::null(), size: 0 }, piece)
}
