//! The carrier of the data door, as the loop sees it.

use std::sync::Arc;
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::carrier::{Carrier, Config, lock};
use crate::events::{Decided, HttpEvents, HttpTakenBack};
use crate::front::Rooms;
use crate::handle::Signer;
use crate::http_front::{Bounds, HttpFront};
use crate::sockets::Sockets;
use crate::write::ReplyStart;
use crate::{digest, drained, handle, http, http_front, http_names, prepare, write};

#[pyclass(frozen)]
pub struct HttpNative {
    front: Arc<HttpFront>,
    sockets: Arc<Sockets<HttpFront>>,
}

#[pymethods]
impl HttpNative {
    #[new]
    #[pyo3(signature = (library, options, *, half_topic, op_topic, instance, wake, head_bytes_max,
                        message_bytes_max, in_flight_bytes_max, immunity_s))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        library: String,
        options: Vec<(String, String)>,
        half_topic: String,
        op_topic: String,
        instance: String,
        wake: (i32, i32),
        head_bytes_max: usize,
        message_bytes_max: usize,
        in_flight_bytes_max: usize,
        immunity_s: f64,
    ) -> PyResult<HttpNative> {
        let config = Config {
            library,
            options,
            half_topic,
            op_topic,
            reply_start: ReplyStart::default(),
            wake,
            in_flight_bytes_max,
            immunity: Duration::try_from_secs_f64(immunity_s).unwrap_or_default(),
        };
        let carrier = Carrier::start(config).map_err(PyRuntimeError::new_err)?;
        let bounds = Bounds { head_bytes: head_bytes_max, message_bytes: message_bytes_max };
        let front = Arc::new(HttpFront::new(carrier.clone(), instance, bounds));
        match Sockets::start(front.clone()) {
            Ok(sockets) => Ok(HttpNative { front, sockets }),
            Err(reason) => {
                carrier.stop(Duration::ZERO);
                Err(PyRuntimeError::new_err(reason.to_string()))
            }
        }
    }

    /// So many half partitions, where a transaction goes that may go anywhere, and what handles
    /// are signed with; an empty key: nothing is carried out here.
    fn open(&self, partition_count: u32, preferred: u32, key: Vec<u8>, person: Vec<u8>) {
        self.front.open(partition_count, preferred, Signer::new(key, person));
    }

    /// Halves of these groups for these topics are taken, and of no others.
    fn allow(&self, pairs: Vec<(String, String)>) {
        self.front.allow(pairs);
    }

    /// Requests over it name this host.
    fn connect(&self, connection: u64, host: Vec<u8>) {
        self.front.connect(connection, host);
    }

    fn disconnect(&self, connection: u64) {
        self.front.disconnect(connection);
    }

    /// Read and write the socket of this connection from now on; false: it cannot be. `room`:
    /// requests in flight of all connections.
    fn lend(&self, connection: u64, socket: i32, room: usize) -> bool {
        self.sockets.lend(connection, socket, Rooms { connection: 1, all: room })
    }

    /// No more of that.
    fn take_back(&self, py: Python<'_>, connection: u64) -> HttpTakenBack {
        let (unsent, begun_count) = self.sockets.take_back(connection);
        HttpTakenBack::new(py, &self.front.give_back(connection, unsent, begun_count))
    }

    /// Requests in flight.
    fn under_way(&self) -> usize {
        self.front.carrier.flight.native_count()
    }

    /// Connections with a request that has been unfinished for a while.
    fn lingering(&self) -> Vec<u64> {
        self.front.lingering()
    }

    /// After the pipe was written to: the halves whose names are to be looked at, and whether there
    /// is more to be told.
    fn asked(&self) -> (Vec<http_names::Name>, bool) {
        self.front.carrier.awake();
        let has_told = self.front.carrier.has_told();
        (self.front.asked(), has_told)
    }

    /// The halves that were asked for over these connections: nothing is known of their names.
    fn store(&self, connections: Vec<u64>) {
        self.front.store(&connections);
    }

    /// All since the last time.
    fn events(&self, py: Python<'_>) -> PyResult<HttpEvents> {
        let told = lock(&self.front.carrier.results).tell_all();
        // Without the lock: to make an object may run any finalizer.
        HttpEvents::new(py, told)
    }

    /// All of the last moments that may count, in the order of asking; the transaction's end is the
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

    /// The loop has stored the only message of this transaction, which came `age_s` ago and whose
    /// name is new.
    fn opened(&self, group: &str, id: &str, half_offset: u64, age_s: f64, immunity_s: Option<u32>) {
        let age = Duration::try_from_secs_f64(age_s).unwrap_or(Duration::MAX);
        self.front.opened((group, id), half_offset, age, immunity_s);
    }

    /// An owner here reads decisions about these (group, transaction id): their ends are the
    /// loop's.
    fn heard(&self, ids: Vec<(String, String)>) {
        self.front.heard(&ids);
    }

    /// An owner here has taken a half partition over: all ends are the loop's, but for those of
    /// what is prepared from now on.
    fn close_all(&self) {
        self.front.close_all();
    }

    /// The loop carries out `count` requests and is about to begin one more; false: with those
    /// here these are `max` already.
    fn admit(&self, count: usize, max: usize) -> bool {
        self.front.carrier.flight.admit(count, max)
    }

    /// The loop carries out so many requests.
    fn tell(&self, count: usize) {
        self.front.carrier.flight.tell(count);
    }

    /// Transactions that were prepared here and that nothing has told of yet.
    fn prepared(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.front.carrier.results).prepared_ids)
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

type Headers = Vec<(Vec<u8>, Vec<u8>)>;
type Made = (Option<Vec<u8>>, Vec<u8>, Headers, usize);
/// Host, bytes, and what is asked.
type ReadHalf = (Vec<u8>, usize, String, String, Option<String>, Made);
type ReadEnd = (Vec<u8>, usize, Vec<u8>, Option<Vec<u8>>, bool);

/// For tests that compare both ways: a half at the beginning of some bytes. -1: it is odd, 0: it
/// is not complete.
#[pyfunction]
pub fn http_half(
    data: &[u8],
    head_bytes_max: usize,
    born_ms: u128,
    instance: &str,
    new_id: &str,
) -> (i32, Option<ReadHalf>) {
    let (half, size) = match http::cut(data, head_bytes_max) {
        http::Cut::Odd => return (-1, None),
        http::Cut::Partial(_) => return (0, None),
        http::Cut::Whole(http::Request::Half(half), size) => (half, size),
        http::Cut::Whole(..) => return (2, None),
    };
    (1, Some(read_half(&half, size, born_ms, instance, new_id)))
}

/// The same of a prepare as JSON.
#[pyfunction]
pub fn http_prepare(
    data: &[u8],
    head_bytes_max: usize,
    born_ms: u128,
    instance: &str,
    new_id: &str,
) -> (i32, Option<ReadHalf>) {
    let (body, size) = match http::cut(data, head_bytes_max) {
        http::Cut::Odd => return (-1, None),
        http::Cut::Partial(_) => return (0, None),
        http::Cut::Whole(http::Request::Prepare(body), size) => (body, size),
        http::Cut::Whole(..) => return (2, None),
    };
    let read = prepare::read(body.content);
    match read.as_ref().and_then(|read| read.half(body.host)) {
        Some(half) => (1, Some(read_half(&half, size, born_ms, instance, new_id))),
        None => (-1, None),
    }
}

fn read_half(
    half: &http::Half<'_>,
    size: usize,
    born_ms: u128,
    instance: &str,
    new_id: &str,
) -> ReadHalf {
    let digest = digest::digest_of(half.topic.as_bytes(), half.key, half.value, &half.headers);
    let marker = write::marker(born_ms, instance, digest);
    let immunity = half.immunity_s.map(|seconds| seconds.to_string());
    let id = half.name.unwrap_or(new_id);
    let headers = http_front::half_headers(id, &marker, half, immunity.as_deref())
        .into_iter()
        .map(|(name, value)| (name.to_vec(), value.to_vec()))
        .collect();
    let key = half.key.map(<[u8]>::to_vec);
    let made = (key, half.value.to_vec(), headers, half.size_bytes());
    let (group, topic) = (half.group.to_owned(), half.topic.to_owned());
    (half.host.to_vec(), size, group, topic, half.name.map(str::to_owned), made)
}

/// For tests: an end at the beginning of some bytes.
#[pyfunction]
pub fn http_end(data: &[u8], head_bytes_max: usize) -> Option<ReadEnd> {
    match http::cut(data, head_bytes_max) {
        http::Cut::Whole(http::Request::End(end), size) => {
            let group = end.group.map(<[u8]>::to_vec);
            Some((end.host.to_vec(), size, end.handle.to_vec(), group, end.is_commit))
        }
        _ => None,
    }
}

type Place = (u16, u64, String, String, String);

/// For tests: a handle of one message.
#[pyfunction]
pub fn signed(
    key: Vec<u8>,
    person: Vec<u8>,
    place: (u16, u64, String, String, String),
) -> Option<String> {
    let (partition, half_offset, group, transaction_id, topic) = &place;
    Some(Signer::new(key, person)?.encode(&handle::Place {
        partition: *partition,
        half_offset: *half_offset,
        group,
        transaction_id,
        topic,
    }))
}

/// For tests: what a handle says.
#[pyfunction]
pub fn verified(key: Vec<u8>, person: Vec<u8>, text: &[u8]) -> Option<Place> {
    let read = Signer::new(key, person)?.decode(text)?;
    let place = read.place()?;
    Some((
        place.partition,
        place.half_offset,
        place.group.to_owned(),
        place.transaction_id.to_owned(),
        place.topic.to_owned(),
    ))
}

/// For tests: the answers to a half, to a prepare and to an end.
#[pyfunction]
pub fn http_replies(
    handle: &str,
    transaction_id: &str,
    is_commit: bool,
) -> (Vec<u8>, Vec<u8>, Vec<u8>) {
    let (mut stored, mut prepared, mut ended) = (Vec::new(), Vec::new(), Vec::new());
    write::http_stored(&mut stored, handle, transaction_id);
    write::http_prepared(&mut prepared, handle, transaction_id);
    write::http_ended(&mut ended, transaction_id, is_commit);
    (stored, prepared, ended)
}
