//! The two requests of a RocketMQ transaction, carried out without the interpreter.
//!
//! A door gives what its connections receive. Requests of the usual kind, of groups and topics that
//! the interpreted twin has taken a moment ago, are carried out here; everything else is given back.

mod carrier;
mod frame;
mod json;
mod kafka;
mod lanes;
mod memory;
mod read;
mod write;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use pyo3::wrap_pyfunction;

use carrier::{Carrier, Config, Failure, Outbox, lock};
use frame::{Cut, Form};
use kafka::Producer;
use lanes::{EndItem, HalfItem, Waiting, memory_key};
use write::ReplyStart;

/// Rolled back through here, and perhaps prepared again: the twin asks the ledger.
const ROLLED_BACK: Duration = Duration::from_secs(60);
/// Of these, twice; then the oldest are forgotten earlier.
const ROLLED_BACK_MAX: usize = 100_000;
const DRAIN_MAX: Duration = Duration::from_secs(86_400);

struct Topic {
    kafka_topic: String,
    partition_count: i32,
}

struct Group {
    name: Arc<str>,
    topics: HashMap<Vec<u8>, Topic>,
}

#[derive(Default)]
struct Incoming {
    held: Vec<u8>,
    needed: usize,
    is_broken: bool,
    groups: HashMap<Vec<u8>, Group>,
}

struct Front {
    connections: HashMap<u64, Incoming>,
    partition_count: u32,
    rolled_back: [HashSet<String>; 2],
    renewed: Instant,
}

/// What one call of `feed` has found.
struct Found<'a> {
    halves: Vec<Waiting>,
    ends: Vec<(i32, EndItem)>,
    rest: Vec<u8>,
    producer: &'a Arc<Producer>,
    now: Instant,
    born_ms: u128,
}

#[pyclass(frozen)]
struct Native {
    carrier: Arc<Carrier>,
    front: Mutex<Front>,
    instance: String,
    frame_bytes_max: usize,
    body_bytes_max: usize,
    message_bytes_max: usize,
}

type Taken<'py> = (
    Vec<(u64, u32, Bound<'py, PyBytes>)>,
    Vec<Failure>,
    Vec<f64>,
    Vec<f64>,
    Vec<f64>,
    Vec<(i32, String, String)>,
);

#[pymethods]
impl Native {
    #[new]
    #[pyo3(signature = (library, options, *, half_topic, op_topic, instance, reply_start, wake,
                        frame_bytes_max, body_bytes_max, message_bytes_max))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        library: String,
        options: Vec<(String, String)>,
        half_topic: String,
        op_topic: String,
        instance: String,
        reply_start: ([u8; 5], String, i32),
        wake: (i32, i32),
        frame_bytes_max: usize,
        body_bytes_max: usize,
        message_bytes_max: usize,
    ) -> PyResult<Native> {
        let (binary, language, version) = reply_start;
        let reply_start = ReplyStart { binary, language, version };
        let config = Config { library, options, half_topic, op_topic, reply_start, wake };
        Ok(Native {
            carrier: Carrier::start(config).map_err(PyRuntimeError::new_err)?,
            front: Mutex::new(Front {
                connections: HashMap::new(),
                partition_count: 0,
                rolled_back: Default::default(),
                renewed: Instant::now(),
            }),
            instance,
            frame_bytes_max,
            body_bytes_max,
            message_bytes_max,
        })
    }

    /// So many half partitions; 0: nothing is carried out here.
    fn open(&self, partition_count: u32) {
        self.carrier.open(partition_count as usize);
        lock(&self.front).partition_count = partition_count;
    }

    fn connect(&self, connection: u64, id_prefix: String) {
        lock(&self.front).connections.insert(connection, Incoming::default());
        let outbox = Outbox { id_prefix, out: Vec::new(), finished: 0 };
        lock(&self.carrier.results).connections.insert(connection, outbox);
    }

    fn disconnect(&self, connection: u64) {
        lock(&self.front).connections.remove(&connection);
        lock(&self.carrier.results).connections.remove(&connection);
    }

    /// The twin has just stored a half of this group for this topic, asked over this connection.
    fn allow(
        &self,
        connection: u64,
        group: &str,
        topic: &str,
        group_name: &str,
        kafka_topic: String,
        partition_count: i32,
    ) {
        if read::plain_name(group_name.as_bytes()).is_none() {
            return; // op records have it inside JSON
        }
        if let Some(incoming) = lock(&self.front).connections.get_mut(&connection) {
            let found = incoming
                .groups
                .entry(group.as_bytes().to_vec())
                .or_insert_with(|| Group { name: group_name.into(), topics: HashMap::new() });
            let topic = topic.as_bytes().to_vec();
            found.topics.insert(topic, Topic { kafka_topic, partition_count });
        }
    }

    /// What was allowed is asked of the twin again.
    fn forget(&self) {
        for incoming in lock(&self.front).connections.values_mut() {
            incoming.groups.clear();
        }
    }

    /// Bytes as they came. Gives back what is the twin's (whole frames, or what cannot be one), how
    /// many requests are carried out here, at most `room`, and how many bytes wait for more.
    fn feed<'py>(
        &self,
        py: Python<'py>,
        connection: u64,
        data: &[u8],
        room: usize,
        takes_ends: bool,
    ) -> (Option<Bound<'py, PyBytes>>, usize, usize) {
        let mut front = lock(&self.front);
        let Front { connections, partition_count, rolled_back, renewed } = &mut *front;
        let Some(incoming) = connections.get_mut(&connection) else {
            return (Some(PyBytes::new(py, data)), 0, 0);
        };
        let producer = self.carrier.taking().filter(|_| !incoming.is_broken);
        let Some(producer) = producer else {
            let mut rest = std::mem::take(&mut incoming.held); // what began here ends there
            rest.extend_from_slice(data);
            return (Some(PyBytes::new(py, &rest)), 0, 0);
        };
        let held = if incoming.held.is_empty() {
            Vec::new()
        } else {
            incoming.held.extend_from_slice(data);
            if incoming.held.len() < incoming.needed {
                return (None, 0, incoming.held.len());
            }
            std::mem::take(&mut incoming.held)
        };
        let mut left = if held.is_empty() { data } else { &held[..] };
        let born = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut found = Found {
            halves: Vec::new(),
            ends: Vec::new(),
            rest: Vec::new(),
            producer: &producer,
            now: Instant::now(),
            born_ms: born.as_millis(),
        };
        let is_old = found.now.duration_since(*renewed) > ROLLED_BACK;
        if is_old || rolled_back[0].len() >= ROLLED_BACK_MAX {
            let [recent, older] = rolled_back;
            *older = std::mem::take(recent);
            *renewed = found.now;
        }
        let mut taken = 0;
        while !left.is_empty() {
            match frame::cut(left, self.frame_bytes_max) {
                Cut::Whole(size) => {
                    let (whole, after) = left.split_at(size);
                    let is_taken = taken < room && {
                        let read = frame::read(whole);
                        read.is_some_and(|frame| match frame.code {
                            read::SEND_V2 => {
                                let known = (&*incoming, &*rolled_back, *partition_count);
                                self.half(connection, &frame, known, &mut found).is_some()
                            }
                            read::END if takes_ends => {
                                let known = (&*incoming, &mut *rolled_back, *partition_count);
                                end(connection, &frame, known, &mut found).is_some()
                            }
                            _ => false,
                        })
                    };
                    if is_taken {
                        taken += 1;
                    } else {
                        found.rest.extend_from_slice(whole);
                    }
                    left = after;
                }
                Cut::Partial(needed) => {
                    incoming.needed = needed;
                    incoming.held = left.to_vec();
                    break;
                }
                Cut::Broken => {
                    found.rest.extend_from_slice(left);
                    incoming.is_broken = true;
                    break;
                }
            }
        }
        let held_bytes = incoming.held.len();
        drop(front);
        let rest = if found.rest.is_empty() { None } else { Some(PyBytes::new(py, &found.rest)) };
        if taken > 0 {
            self.carrier.append(&producer, found.halves, found.ends);
        }
        (rest, taken, held_bytes)
    }

    /// Since the last time: by connection what is finished and to be written, failures, seconds of
    /// prepares, commits and rollbacks, and librdkafka's log lines.
    fn take<'py>(&self, py: Python<'py>) -> Taken<'py> {
        self.carrier.awake();
        let mut guard = lock(&self.carrier.results);
        let results = &mut *guard;
        let mut finished = Vec::with_capacity(results.ready.len());
        for connection in results.ready.drain(..) {
            if let Some(outbox) = results.connections.get_mut(&connection) {
                let content = PyBytes::new(py, &outbox.out);
                finished.push((connection, outbox.finished, content));
                outbox.out.clear();
                outbox.finished = 0;
            }
        }
        (
            finished,
            std::mem::take(&mut results.failures),
            std::mem::take(&mut results.prepared_s),
            std::mem::take(&mut results.committed_s),
            std::mem::take(&mut results.rolled_back_s),
            std::mem::take(&mut results.lines),
        )
    }

    /// The first decision of the last moments: whether it commits, and whether it is stored.
    fn first_decision(&self, partition: usize, group: &str, id: &str) -> Option<(bool, bool)> {
        let known = self.carrier.first_decision(partition, group, id)?;
        Some((known.is_commit, known.is_stored))
    }

    /// Wait for what is in flight, at most so long, and end.
    fn stop(&self, py: Python<'_>, drain_s: f64) {
        let drain = Duration::try_from_secs_f64(drain_s.max(0.0)).unwrap_or(DRAIN_MAX);
        py.detach(|| self.carrier.stop(drain.min(DRAIN_MAX)));
    }
}

impl Native {
    fn half(
        &self,
        connection: u64,
        frame: &frame::Frame<'_>,
        (incoming, rolled_back, partition_count): (&Incoming, &[HashSet<String>; 2], u32),
        found: &mut Found<'_>,
    ) -> Option<()> {
        let send = read::send(frame)?;
        let group = incoming.groups.get(send.group)?;
        let topic = group.topics.get(send.topic)?;
        if partition_count == 0
            || !(0..topic.partition_count).contains(&send.queue_id)
            || frame.body.len() > self.body_bytes_max
            || send.size_bytes > self.message_bytes_max
            || send.transaction_id.len() >= 128
        {
            return None;
        }
        if rolled_back.iter().any(|ids| !ids.is_empty()) {
            let key = memory_key(&group.name, send.transaction_id);
            if rolled_back.iter().any(|ids| ids.contains(&key)) {
                return None;
            }
        }
        let partition = write::partition(send.transaction_id, partition_count);
        let marker = write::marker(found.born_ms, &self.instance);
        let queue = send.queue_id.to_string();
        let headers = write::half_headers(&send, &marker, &group.name, &topic.kafka_topic, &queue);
        let count = headers.len();
        let headers = found.producer.headers(headers, count);
        found.halves.push(Waiting {
            item: Box::new(HalfItem {
                form: frame.form,
                connection,
                opaque: frame.opaque,
                queue_id: send.queue_id,
                partition: partition as i32,
                transaction_id: send.transaction_id.to_owned(),
                began: found.now,
            }),
            key: send.keys.map(<[u8]>::to_vec),
            value: frame.body.to_vec(),
            headers,
        });
        Some(())
    }
}

fn end(
    connection: u64,
    frame: &frame::Frame<'_>,
    (incoming, rolled_back, partition_count): (&Incoming, &mut [HashSet<String>; 2], u32),
    found: &mut Found<'_>,
) -> Option<()> {
    let end = read::end(frame)?;
    let group = incoming.groups.get(end.group)?;
    if end.partition >= i64::from(partition_count) {
        return None;
    }
    if !end.is_commit {
        rolled_back[0].insert(memory_key(&group.name, end.transaction_id));
    }
    let item = EndItem {
        form: frame.form,
        connection,
        opaque: frame.opaque,
        identity: (group.name.clone(), end.transaction_id.to_owned()),
        half_offset: end.half_offset,
        is_commit: end.is_commit,
        is_first: false,
        began: found.now,
    };
    found.ends.push((end.partition as i32, item));
    Some(())
}

type ReadHalf = (Option<Vec<u8>>, Vec<u8>, Headers, i32, String, usize);
type Headers = Vec<(Vec<u8>, Vec<u8>)>;

/// For tests that compare the twins: key, value and headers of the half record, queue id and
/// transaction id of a whole frame; None for a frame that is not carried out here.
#[pyfunction]
fn read_half(
    whole: &[u8],
    born_ms: u128,
    instance: &str,
    group_name: &str,
    kafka_topic: &str,
) -> Option<ReadHalf> {
    let frame = frame::read(whole).filter(|frame| frame.code == read::SEND_V2)?;
    let send = read::send(&frame)?;
    let marker = write::marker(born_ms, instance);
    let queue = send.queue_id.to_string();
    let headers = write::half_headers(&send, &marker, group_name, kafka_topic, &queue)
        .into_iter()
        .map(|(name, value)| (name.to_vec(), value.to_vec()))
        .collect();
    let key = send.keys.map(<[u8]>::to_vec);
    let id = send.transaction_id.to_owned();
    Some((key, frame.body.to_vec(), headers, send.queue_id, id, send.size_bytes))
}

/// For tests: group, transaction id, whether it commits, half partition and offset of an end.
#[pyfunction]
fn read_end(whole: &[u8]) -> Option<(Vec<u8>, String, bool, i64, i64)> {
    let frame = frame::read(whole).filter(|frame| frame.code == read::END)?;
    let end = read::end(&frame)?;
    let id = end.transaction_id.to_owned();
    Some((end.group.to_vec(), id, end.is_commit, end.partition, end.half_offset))
}

/// For tests: the answer to a half message.
#[pyfunction]
#[allow(clippy::too_many_arguments)]
fn stored_reply(
    start: ([u8; 5], String, i32),
    is_json: bool,
    opaque: i32,
    id_prefix: &str,
    queue_id: i32,
    position: i64,
    half_offset: i64,
    transaction_id: &str,
) -> Vec<u8> {
    let mut out = Vec::new();
    let form = if is_json { Form::Json } else { Form::Binary };
    let start = ReplyStart { binary: start.0, language: start.1, version: start.2 };
    let reply =
        write::Reply { form, opaque, id_prefix, queue_id, position, half_offset, transaction_id };
    write::stored_reply(&mut out, &start, &reply);
    out
}

/// For tests: value and entries of an op record with decisions (group, transaction id, offset).
#[pyfunction]
fn decisions(found: Vec<(String, String, i64)>) -> (Vec<u8>, Vec<u8>) {
    let now = Instant::now();
    let items: Vec<EndItem> = found
        .into_iter()
        .map(|(group, id, half_offset)| EndItem {
            form: Form::Binary,
            connection: 0,
            opaque: 0,
            identity: (group.into(), id),
            half_offset,
            is_commit: true,
            is_first: true,
            began: now,
        })
        .collect();
    write::decisions(&items)
}

/// For tests: the half partition of a transaction id.
#[pyfunction]
fn partition(transaction_id: &str, partition_count: u32) -> u32 {
    write::partition(transaction_id, partition_count)
}

#[pymodule]
fn halfhitch_native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Native>()?;
    module.add_function(wrap_pyfunction!(read_half, module)?)?;
    module.add_function(wrap_pyfunction!(read_end, module)?)?;
    module.add_function(wrap_pyfunction!(stored_reply, module)?)?;
    module.add_function(wrap_pyfunction!(decisions, module)?)?;
    module.add_function(wrap_pyfunction!(partition, module)?)
}
