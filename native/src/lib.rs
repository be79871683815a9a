//! The requests of a transaction, carried out without the interpreter: those of RocketMQ's clients,
//! and those of the data door.
//!
//! A door gives what its connections receive, or lends their sockets. Requests of the usual kind, of groups and topics that
//! the interpreted door has taken a moment ago, are carried out here; everything else is given back.

mod batch_wait;
mod carrier;
mod connection_state;
mod digest;
mod events;
mod flight;
mod frame;
mod front;
mod half_lane;
mod handle;
mod http;
mod http_front;
mod http_names;
mod http_native;
mod inflate;
mod json;
mod kafka;
mod lanes;
mod lately;
mod looked;
mod memory;
mod open;
mod owner;
mod prepare;
mod read;
mod seal;
mod sockets;
mod taken;
mod write;

use std::sync::Arc;
use std::time::{Duration, Instant};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::wrap_pyfunction;

use carrier::{Carrier, Config, lock};
use connection_state::Flushed;
use events::{
    Decided, Events, Failed, Fed, HttpEvents, HttpFailed, HttpTakenBack, Line, Progress, TakenBack,
    Unread,
};
use frame::Form;
use front::{Bounds, Front, Rooms, Topic};
use lanes::{EndAsk, EndItem};
use seal::Seals;
use sockets::Sockets;
use write::ReplyStart;

const DRAIN_MAX: Duration = Duration::from_secs(86_400);

#[pyclass(frozen)]
struct Native {
    front: Arc<Front>,
    sockets: Arc<Sockets<Front>>,
}

#[pymethods]
impl Native {
    #[new]
    #[pyo3(signature = (library, options, *, half_topic, op_topic, instance, reply_start, wake,
                        frame_bytes_max, body_bytes_max, message_bytes_max,
                        in_flight_bytes_max))]
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
        in_flight_bytes_max: usize,
    ) -> PyResult<Native> {
        let (binary, language, version) = reply_start;
        let reply_start = ReplyStart { binary, language, version };
        let config = Config {
            library,
            options,
            half_topic,
            op_topic,
            reply_start,
            wake,
            in_flight_bytes_max,
            immunity: Duration::ZERO,
        };
        let carrier = Carrier::start(config).map_err(PyRuntimeError::new_err)?;
        let bounds = Bounds {
            frame_bytes: frame_bytes_max,
            body_bytes: body_bytes_max,
            message_bytes: message_bytes_max,
        };
        let front = Arc::new(Front::new(carrier.clone(), instance, bounds));
        match Sockets::start(front.clone()) {
            Ok(sockets) => Ok(Native { front, sockets }),
            Err(reason) => {
                carrier.stop(Duration::ZERO);
                Err(PyRuntimeError::new_err(reason.to_string()))
            }
        }
    }

    /// So many half partitions, and what halves are sealed with; none: nothing is carried out here.
    fn open(&self, partition_count: u32, seal_keys: Vec<Vec<u8>>) {
        self.front.open(partition_count, seal_keys);
    }

    fn connect(&self, connection: u64, id_prefix: String) {
        self.front.connect(connection, id_prefix);
    }

    fn disconnect(&self, connection: u64) {
        self.front.disconnect(connection);
    }

    /// The loop has just stored a half of this group for this topic, asked over this connection.
    fn allow(
        &self,
        connection: u64,
        group: &str,
        topic: &str,
        group_name: &str,
        kafka_topic: String,
        partition_count: i32,
    ) {
        let found = Topic { kafka_topic, partition_count };
        self.front.allow(connection, [group, topic, group_name], found);
    }

    /// What was allowed is asked of the loop again.
    fn forget(&self) {
        self.front.forget();
    }

    /// Bytes as they came; at most `room` requests are carried out here.
    fn feed(&self, py: Python<'_>, connection: u64, data: &[u8], room: usize) -> Fed {
        let (rest, begun_count, held_bytes) = self.front.feed(connection, data, room);
        Fed::new(py, &rest, begun_count, held_bytes)
    }

    /// Read and write the socket of this connection from now on; false: it cannot be. `rooms`:
    /// requests in flight of the connection, and of all.
    fn lend(&self, connection: u64, socket: i32, rooms: (usize, usize)) -> bool {
        let rooms = Rooms { connection: rooms.0, all: rooms.1 };
        self.sockets.lend(connection, socket, rooms)
    }

    /// No more of that.
    fn take_back(&self, py: Python<'_>, connection: u64) -> TakenBack {
        let (unsent, begun_count) = self.sockets.take_back(connection);
        TakenBack::new(py, &unsent, begun_count, self.front.held(connection))
    }

    /// Of the loop, over a connection whose socket is lent.
    fn write(&self, connection: u64, content: &[u8]) {
        {
            let mut results = lock(&self.front.carrier.results);
            let Some(state) = results.connections.get_mut(&connection) else {
                return;
            };
            state.out.extend_from_slice(content);
            if !matches!(state.flush(), Flushed::Stalled) {
                return;
            }
            results.due.push(connection);
        }
        self.front.carrier.wake();
    }

    /// Connections with a frame that has been unfinished for a while.
    fn lingering(&self) -> Vec<u64> {
        self.front.lingering()
    }

    /// All since the last time.
    fn events(&self, py: Python<'_>) -> PyResult<Events> {
        self.front.carrier.awake();
        let told = lock(&self.front.carrier.results).tell_all();
        // Without the lock: to make an object may run any finalizer.
        Events::new(py, told)
    }

    /// All of the last moments that may count, in the order of asking; the transaction's ends are the
    /// loop's from now on.
    fn decisions(&self, partition: usize, group: &str, id: &str) -> Option<Vec<Decided>> {
        self.front.decisions(partition, group, id)
    }

    /// Of the decisions that went this way: the half and op offset below which some are remembered no
    /// more.
    fn forgotten(&self, partition: usize) -> (i64, i64) {
        self.front.carrier.forgotten(partition)
    }

    /// How far owners here have read the op log of each half partition; negative: none works here.
    fn owners_read(&self, read_to: Vec<i64>) {
        self.front.carrier.owners_read(&read_to);
    }

    /// Through here, within the last minute: a half of that name would be dropped.
    fn was_rolled_back(&self, partition: usize, group: &str, id: &str) -> bool {
        self.front.carrier.was_rolled_back(partition, group, id)
    }

    /// The loop is about to store this message; false: another was taken under this id.
    fn claim(&self, group: &str, transaction_id: &str, digest: u64) -> bool {
        self.front.claim(group, transaction_id, digest)
    }

    /// Owners here have read that these (group, transaction id) were rolled back.
    fn rolled_back(&self, ids: Vec<(String, String)>) {
        self.front.rolled_back(&ids);
    }

    /// Wait for what is in flight, at most so long, and end.
    fn stop(&self, py: Python<'_>, drain_s: f64) {
        let drain = drained(drain_s);
        py.detach(|| {
            self.sockets.stop();
            self.front.carrier.stop(drain);
        });
    }
}

fn drained(drain_s: f64) -> Duration {
    Duration::try_from_secs_f64(drain_s.max(0.0)).unwrap_or(DRAIN_MAX).min(DRAIN_MAX)
}

type ReadHalf = (Option<Vec<u8>>, Vec<u8>, Headers, i32, String, usize);
type Headers = Vec<(Vec<u8>, Vec<u8>)>;

/// For tests that compare both ways: key, value and headers of the half record, queue id and
/// transaction id of a whole frame; None for a frame that is not carried out here.
#[pyfunction]
#[pyo3(signature = (whole, born_ms, instance, group_name, kafka_topic, body_bytes_max=4_194_304))]
fn read_half(
    whole: &[u8],
    born_ms: u128,
    instance: &str,
    group_name: &str,
    kafka_topic: &str,
    body_bytes_max: usize,
) -> Option<ReadHalf> {
    let frame = frame::read(whole).filter(|frame| frame.code == read::SEND_V2)?;
    let send = read::send(&frame)?;
    let body = send.body(frame.body, body_bytes_max)?;
    let digest = digest::digest_of(kafka_topic.as_bytes(), send.keys, &body, &send.headers);
    let marker = write::marker(born_ms, instance, digest);
    let queue = send.queue_id.to_string();
    let headers = write::half_headers(&send, &marker, group_name, kafka_topic, &queue)
        .into_iter()
        .map(|(name, value)| (name.to_vec(), value.to_vec()))
        .collect();
    let key = send.keys.map(<[u8]>::to_vec);
    let id = send.transaction_id.to_owned();
    let size_bytes = send.size_bytes + body.len();
    Some((key, body.into_owned(), headers, send.queue_id, id, size_bytes))
}

type ReadEnd = (Vec<u8>, String, bool, i32, i64, i64);

/// For tests: group, transaction id, whether it commits, half partition, offset, seal of an end.
#[pyfunction]
fn read_end(whole: &[u8]) -> Option<ReadEnd> {
    let frame = frame::read(whole).filter(|frame| frame.code == read::END)?;
    let end = read::end(&frame)?;
    let id = end.transaction_id.to_owned();
    Some((end.group.to_vec(), id, end.is_commit, end.partition, end.half_offset, end.seal))
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
    seal: i64,
    transaction_id: &str,
) -> Vec<u8> {
    let mut out = Vec::new();
    let form = if is_json { Form::Json } else { Form::Binary };
    let start = ReplyStart { binary: start.0, language: start.1, version: start.2 };
    let reply = write::Reply { form, opaque, id_prefix, queue_id, position, seal, transaction_id };
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
            ask: EndAsk::Remoting { form: Form::Binary, opaque: 0 },
            connection: 0,
            identity: (group.into(), id),
            half_offset,
            is_commit: true,
            is_first: true,
            number: 0,
            began: now,
        })
        .collect();
    write::decisions(&items)
}

/// For tests: the seal of a half, and whether a number is one.
#[pyfunction]
fn sealed(
    keys: Vec<Vec<u8>>,
    place: (i32, i64),
    group: &str,
    transaction_id: &str,
    found: i64,
) -> (Option<i64>, bool) {
    let seals = Seals::new(keys);
    let (partition, half_offset) = place;
    (
        seals.make(partition, half_offset, group, transaction_id),
        seals.fits(found, partition, half_offset, group, transaction_id),
    )
}

/// For tests: the half partition of a transaction id.
#[pyfunction]
fn partition(transaction_id: &str, partition_count: u32) -> u32 {
    write::partition(transaction_id, partition_count)
}

#[pymodule]
fn halfhitch_native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Native>()?;
    module.add_class::<Fed>()?;
    module.add_class::<TakenBack>()?;
    module.add_class::<Progress>()?;
    module.add_class::<Failed>()?;
    module.add_class::<Unread>()?;
    module.add_class::<Line>()?;
    module.add_class::<Events>()?;
    module.add_class::<Decided>()?;
    module.add_class::<owner::consumer::LogConsumer>()?;
    module.add_class::<owner::record::Record>()?;
    module.add_class::<owner::record::Payload>()?;
    module.add_function(wrap_pyfunction!(owner::forward::forward, module)?)?;
    module.add_function(wrap_pyfunction!(owner::forward::forwarded_headers, module)?)?;
    module.add_function(wrap_pyfunction!(owner::record::half_record, module)?)?;
    module.add_class::<http_native::HttpNative>()?;
    module.add_class::<HttpTakenBack>()?;
    module.add_class::<HttpFailed>()?;
    module.add_class::<HttpEvents>()?;
    module.add_function(wrap_pyfunction!(http_native::http_half, module)?)?;
    module.add_function(wrap_pyfunction!(http_native::http_prepare, module)?)?;
    module.add_function(wrap_pyfunction!(http_native::http_end, module)?)?;
    module.add_function(wrap_pyfunction!(http_native::http_replies, module)?)?;
    module.add_function(wrap_pyfunction!(http_native::signed, module)?)?;
    module.add_function(wrap_pyfunction!(http_native::verified, module)?)?;
    module.add_function(wrap_pyfunction!(half_lane::half_batches, module)?)?;
    module.add_function(wrap_pyfunction!(lanes::http_batches, module)?)?;
    module.add_function(wrap_pyfunction!(memory::decisions_after, module)?)?;
    module.add_function(wrap_pyfunction!(lately::known_lately, module)?)?;
    module.add_function(wrap_pyfunction!(lanes::records_of, module)?)?;
    module.add_function(wrap_pyfunction!(looked::looked_at, module)?)?;
    module.add_function(wrap_pyfunction!(read_half, module)?)?;
    module.add_function(wrap_pyfunction!(read_end, module)?)?;
    module.add_function(wrap_pyfunction!(stored_reply, module)?)?;
    module.add_function(wrap_pyfunction!(decisions, module)?)?;
    module.add_function(wrap_pyfunction!(sealed, module)?)?;
    module.add_function(wrap_pyfunction!(partition, module)?)
}
