//! The consumer of one owner: both logs of one half partition, assigned by hand.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};

use crate::carrier::lock;
use crate::kafka::{CONF_OK, owned, said, text};
use crate::owner::api::{Handle, Message, OwnerApi, TopicPartitions, load, words};
use crate::owner::record::{Builder, Record, Stored};

const CONSUMER: c_int = 1;
const LINES_MAX: usize = 1_000;
const NO_OFFSET: i64 = -1001;
const WARNING: i32 = 4;
const UNREADABLE: &str = "a header name is not UTF-8, its headers are not read";

#[derive(Default)]
struct Lines(Mutex<Vec<(i32, String, String)>>);

impl Lines {
    fn add(&self, level: i32, facility: String, said: String) {
        let mut lines = lock(&self.0);
        if lines.len() < LINES_MAX {
            lines.push((level, facility, said));
        }
    }
}

/// Of the consumer, and of what librdkafka says on threads of its own.
#[pyclass(frozen)]
pub struct LogConsumer {
    api: &'static OwnerApi,
    handle: RwLock<Option<Open>>, // written only to close it: one thread reads, others wake it
    topics: [CString; 2],
    names: [Py<PyString>; 2],
    partition: i32,
    lines: Box<Lines>,
}

struct Open {
    handle: Handle,
    queue: *mut c_void,
}

unsafe impl Send for Open {}
unsafe impl Sync for Open {}

const HALF: usize = 0;
const OP: usize = 1;

/// Of a log: what happened instead of a record: error number, words, topic, partition, offset.
type Other = (i32, String, Option<String>, i32, i64);
/// Half records, op records, what else, and how many of all.
type Taken = (Py<PyList>, Py<PyList>, Vec<Other>, usize);
type Position = (i64, String);

#[pymethods]
impl LogConsumer {
    #[new]
    fn new(
        py: Python<'_>,
        library: &str,
        options: Vec<(String, String)>,
        half_topic: &str,
        op_topic: &str,
        partition: i32,
    ) -> PyResult<LogConsumer> {
        let api = load(library).map_err(PyRuntimeError::new_err)?;
        let name = |name: &str| text(name).map_err(PyRuntimeError::new_err);
        let topics = [name(half_topic)?, name(op_topic)?];
        let names = [half_topic, op_topic].map(|name| PyString::new(py, name).unbind());
        let lines = Box::<Lines>::default();
        let open = begin(api, &options, &lines).map_err(PyRuntimeError::new_err)?;
        let handle = RwLock::new(Some(open));
        Ok(LogConsumer { api, handle, topics, names, partition, lines })
    }

    /// What is there, waiting for the first; at most one more than `count_max`.
    fn read(&self, py: Python<'_>, wait_ms: c_int, count_max: usize) -> PyResult<Taken> {
        let (records, others, count) = py.detach(|| self.take(wait_ms, count_max))?;
        let mut found = [Vec::new(), Vec::new()];
        for stored in records {
            let log = usize::from(stored.is_op);
            let topic = self.names[log].clone_ref(py);
            found[log].push(Py::new(py, Record { stored: Arc::new(stored), topic })?);
        }
        let [half, op] = found;
        Ok((PyList::new(py, half)?.unbind(), PyList::new(py, op)?.unbind(), others, count))
    }

    /// Stored offset and metadata of both logs.
    fn committed(&self, py: Python<'_>, wait_ms: c_int) -> PyResult<Vec<Position>> {
        py.detach(|| {
            self.with(|open| unsafe {
                let list = self.both(&[NO_OFFSET, NO_OFFSET]);
                let code = (self.api.committed)(open.handle, list.raw, wait_ms);
                let found = if code == 0 { list.positions() } else { Err(code) };
                found.map_err(|code| self.failed(code))
            })?
        })
    }

    /// Where a log begins, and how far it can be read.
    fn watermarks(&self, py: Python<'_>, is_op: bool, wait_ms: c_int) -> PyResult<(i64, i64)> {
        py.detach(|| {
            self.with(|open| {
                let topic = &self.topics[usize::from(is_op)];
                let (mut low, mut high) = (0, 0);
                let code = unsafe {
                    (self.api.query_watermark_offsets)(
                        open.handle,
                        topic.as_ptr(),
                        self.partition,
                        &mut low,
                        &mut high,
                        wait_ms,
                    )
                };
                if code == 0 { Ok((low, high)) } else { Err(self.failed(code)) }
            })?
        })
    }

    /// Read both logs from here.
    fn assign(&self, py: Python<'_>, half_from: i64, op_from: i64) -> PyResult<()> {
        py.detach(|| {
            self.told(|open| unsafe {
                (self.api.assign)(open.handle, self.both(&[half_from, op_from]).raw)
            })
        })
    }

    fn pause_op(&self) -> PyResult<()> {
        self.told(|open| unsafe { (self.api.pause_partitions)(open.handle, self.one(OP).raw) })
    }

    fn resume_op(&self) -> PyResult<()> {
        self.told(|open| unsafe { (self.api.resume_partitions)(open.handle, self.one(OP).raw) })
    }

    /// From any thread: whoever waits in `read` waits no longer, or the next one does not wait.
    fn wake(&self) {
        let _ = self.with(|open| unsafe { (self.api.queue_yield)(open.queue) });
    }

    /// What librdkafka has logged since: level, facility, text.
    fn lines(&self) -> Vec<(i32, String, String)> {
        let mut lines = lock(&self.lines.0);
        if lines.is_empty() { Vec::new() } else { std::mem::take(&mut *lines) }
    }

    /// No more of it. Twice is once.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.end());
    }
}

impl LogConsumer {
    fn with<T>(&self, ask: impl FnOnce(&Open) -> T) -> PyResult<T> {
        match &*self.handle.read().unwrap_or_else(PoisonError::into_inner) {
            Some(open) => Ok(ask(open)),
            None => Err(PyRuntimeError::new_err("this consumer has been closed")),
        }
    }

    fn told(&self, ask: impl FnOnce(&Open) -> c_int) -> PyResult<()> {
        match self.with(ask)? {
            0 => Ok(()),
            code => Err(self.failed(code)),
        }
    }

    fn failed(&self, code: c_int) -> PyErr {
        PyRuntimeError::new_err((code, words(self.api, code)))
    }

    fn both(&self, offsets: &[i64; 2]) -> Positions {
        let list = Positions::new(self.api);
        for (topic, from) in self.topics.iter().zip(offsets) {
            list.add(topic, self.partition, *from);
        }
        list
    }

    fn one(&self, log: usize) -> Positions {
        let list = Positions::new(self.api);
        list.add(&self.topics[log], self.partition, NO_OFFSET);
        list
    }

    fn take(&self, wait_ms: c_int, count_max: usize) -> PyResult<(Vec<Stored>, Vec<Other>, usize)> {
        self.with(|open| {
            let (mut records, mut others) = (Vec::new(), Vec::new());
            let first = unsafe { (self.api.consumer_poll)(open.handle, wait_ms) };
            if first.is_null() {
                return (records, others, 0);
            }
            self.sort(first, &mut records, &mut others);
            let mut more: Vec<*mut Message> = vec![ptr::null_mut(); count_max];
            let count = unsafe {
                (self.api.consume_batch_queue)(open.queue, 0, more.as_mut_ptr(), count_max)
            };
            let count = usize::try_from(count).unwrap_or(0);
            records.reserve(count);
            for message in &more[..count] {
                self.sort(*message, &mut records, &mut others);
            }
            (records, others, 1 + count)
        })
    }

    /// Takes the message over.
    fn sort(&self, message: *mut Message, records: &mut Vec<Stored>, others: &mut Vec<Other>) {
        unsafe {
            let found = &*message;
            let topic = if found.rkt.is_null() {
                None
            } else {
                Some(CStr::from_ptr((self.api.topic_name)(found.rkt)))
            };
            if found.err != 0 {
                let words = slice(found.payload, found.len)
                    .map_or_else(|| words(self.api, found.err), lossy);
                let topic = topic.map(|topic| lossy(topic.to_bytes()));
                others.push((found.err, words, topic, found.partition, found.offset));
            } else {
                let is_op = topic == Some(self.topics[OP].as_c_str());
                debug_assert!(is_op || topic == Some(self.topics[HALF].as_c_str()));
                records.push(self.copied(found, is_op));
            }
            (self.api.message_destroy)(message);
        }
    }

    unsafe fn copied(&self, message: &Message, is_op: bool) -> Stored {
        unsafe {
            let mut kind = 0;
            let time_ms = (self.api.message_timestamp)(message, &mut kind);
            let mut built = Builder::with_capacity(message.key_len + message.len + 256);
            let key = built.lay(slice(message.key, message.key_len));
            let value = built.lay(slice(message.payload, message.len));
            let mut headers = ptr::null_mut();
            if (self.api.message_headers)(message, &mut headers) == 0 {
                let (mut name, mut at, mut size) = (ptr::null(), ptr::null(), 0);
                let mut place = 0;
                while (self.api.header_get_all)(headers, place, &mut name, &mut at, &mut size) == 0
                {
                    let name = built.lay(Some(CStr::from_ptr(name).to_bytes()));
                    let value = built.lay(slice(at.cast(), size));
                    built.headers.push((name, value));
                    place += 1;
                }
            }
            if built.forget_unreadable() {
                let topic = self.topics[usize::from(is_op)].to_string_lossy();
                let (partition, at) = (self.partition, message.offset);
                let said = format!("{topic}-{partition} record {at}: {UNREADABLE}");
                self.lines.add(WARNING, "HEADERS".to_owned(), said);
            }
            Stored::new(is_op, message.offset, (kind, time_ms), key, value, built)
        }
    }

    fn end(&self) {
        let open = self.handle.write().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(open) = open {
            unsafe {
                (self.api.consumer_close)(open.handle);
                (self.api.queue_destroy)(open.queue);
                (self.api.destroy)(open.handle);
            }
        }
    }
}

impl Drop for LogConsumer {
    fn drop(&mut self) {
        self.end(); // before the lines, to which librdkafka's threads write
    }
}

fn begin(api: &OwnerApi, options: &[(String, String)], lines: &Lines) -> Result<Open, String> {
    let mut room = [0 as c_char; 512];
    unsafe {
        let conf = (api.conf_new)();
        for (name, value) in options {
            let why = match (text(name), text(value)) {
                (Ok(name), Ok(value)) => {
                    let (name, value) = (name.as_ptr(), value.as_ptr());
                    match (api.conf_set)(conf, name, value, room.as_mut_ptr(), 512) {
                        CONF_OK => continue,
                        _ => said(&room),
                    }
                }
                (Err(why), _) | (_, Err(why)) => why,
            };
            (api.conf_destroy)(conf);
            return Err(format!("{name}: {why}"));
        }
        (api.conf_set_log_cb)(conf, line);
        (api.conf_set_opaque)(conf, ptr::from_ref(lines).cast_mut().cast());
        let handle = (api.new)(CONSUMER, conf, room.as_mut_ptr(), 512);
        if handle.is_null() {
            (api.conf_destroy)(conf);
            return Err(said(&room));
        }
        (api.poll_set_consumer)(handle);
        Ok(Open { handle, queue: (api.queue_get_consumer)(handle) })
    }
}

unsafe extern "C" fn line(
    handle: *const c_void,
    level: c_int,
    facility: *const c_char,
    said: *const c_char,
) {
    let Some(api) = crate::owner::api::loaded().filter(|_| !handle.is_null()) else {
        return;
    };
    unsafe {
        let lines = (api.opaque)(handle) as *const Lines;
        if lines.is_null() {
            return;
        }
        (*lines).add(level, owned(facility), owned(said));
    }
}

/// Topics, partitions and offsets, as librdkafka takes them.
struct Positions {
    api: &'static OwnerApi,
    raw: *mut TopicPartitions,
}

impl Positions {
    fn new(api: &'static OwnerApi) -> Positions {
        Positions { api, raw: unsafe { (api.topic_partition_list_new)(2) } }
    }

    fn add(&self, topic: &CStr, partition: i32, from: i64) {
        unsafe {
            let found = (self.api.topic_partition_list_add)(self.raw, topic.as_ptr(), partition);
            (*found).offset = from;
        }
    }

    fn positions(&self) -> Result<Vec<Position>, c_int> {
        unsafe {
            let list = &*self.raw;
            let mut found = Vec::new();
            for place in 0..list.count as usize {
                let each = &*list.elems.add(place);
                if each.err != 0 {
                    return Err(each.err);
                }
                // It ends with a NUL, which its size may or may not count.
                let metadata = slice(each.metadata, each.metadata_size).unwrap_or_default();
                let metadata = lossy(metadata.split(|byte| *byte == 0).next().unwrap_or_default());
                found.push((each.offset, metadata));
            }
            Ok(found)
        }
    }
}

impl Drop for Positions {
    fn drop(&mut self) {
        unsafe { (self.api.topic_partition_list_destroy)(self.raw) }
    }
}

unsafe fn slice<'a>(at: *const u8, size: usize) -> Option<&'a [u8]> {
    if at.is_null() { None } else { Some(unsafe { std::slice::from_raw_parts(at, size) }) }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
