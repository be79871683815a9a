//! What the loop is told, by name.

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::http_front::Given;

/// What has become of chunks of bytes that the loop has read.
#[pyclass(frozen, get_all)]
pub struct Fed {
    /// The loop's: whole frames, or what cannot be one.
    rest: Py<PyBytes>,
    begun_count: usize,
    held_bytes: usize,
}

impl Fed {
    pub fn new(py: Python<'_>, rest: &[u8], begun_count: usize, held_bytes: usize) -> Fed {
        Fed { rest: PyBytes::new(py, rest).unbind(), begun_count, held_bytes }
    }
}

/// A connection whose socket is the loop's again.
#[pyclass(frozen, get_all)]
pub struct TakenBack {
    /// Still to be written.
    unsent: Py<PyBytes>,
    /// Requests that no event has told of.
    begun_count: u32,
    held_bytes: usize,
}

impl TakenBack {
    pub fn new(py: Python<'_>, unsent: &[u8], begun_count: u32, held_bytes: usize) -> TakenBack {
        TakenBack { unsent: PyBytes::new(py, unsent).unbind(), begun_count, held_bytes }
    }
}

/// The same of the data door.
#[pyclass(frozen, get_all)]
pub struct HttpTakenBack {
    /// Still to be written.
    unsent: Py<PyBytes>,
    /// What came and is not carried out.
    held: Py<PyBytes>,
    begun_count: u32,
    /// The answer to a request is still to come.
    is_busy: bool,
}

impl HttpTakenBack {
    pub fn new(py: Python<'_>, given: &Given) -> HttpTakenBack {
        HttpTakenBack {
            unsent: PyBytes::new(py, &given.unsent).unbind(),
            held: PyBytes::new(py, &given.held).unbind(),
            begun_count: given.begun_count,
            is_busy: given.is_busy,
        }
    }
}

/// How far a connection's requests have come.
#[pyclass(frozen, get_all)]
pub struct Progress {
    connection: u64,
    /// Those that came over its lent socket.
    begun_count: u32,
    done_count: u32,
    /// What the loop is to write.
    answers: Py<PyBytes>,
}

/// A request that could not be carried out.
#[pyclass(frozen, get_all)]
pub struct Failed {
    pub connection: u64,
    pub request_code: i32,
    pub opaque: i32,
    pub is_json: bool,
    /// librdkafka's.
    pub error_number: i32,
}

/// A request of the data door that could not be carried out.
#[pyclass(frozen, get_all)]
pub struct HttpFailed {
    pub connection: u64,
    /// As the door calls it.
    pub route: &'static str,
    /// librdkafka's.
    pub error_number: i32,
    pub partition: i32,
    pub group: String,
    pub transaction_id: String,
    /// Its caller knows the id.
    pub is_named: bool,
}

/// What came over a lent socket and is the loop's.
#[pyclass(frozen, get_all)]
pub struct Unread {
    connection: u64,
    data: Py<PyBytes>,
}

/// A line of librdkafka.
#[pyclass(frozen, get_all)]
pub struct Line {
    pub level: i32,
    pub facility: String,
    pub text: String,
}

/// All since the last time.
#[pyclass(frozen, get_all)]
pub struct Events {
    progress: Vec<Py<Progress>>,
    failures: Vec<Py<Failed>>,
    /// Seconds that each prepare took, each commit, each roll back.
    prepared_s: Vec<f64>,
    committed_s: Vec<f64>,
    rolled_back_s: Vec<f64>,
    /// Of the last prepares that brought a `traceparent`: seconds, and what it said.
    traced: Vec<(f64, Py<PyBytes>)>,
    lines: Vec<Py<Line>>,
    unread: Vec<Py<Unread>>,
    /// Connections whose sockets the loop should take back.
    due: Vec<u64>,
}

impl Events {
    pub fn new(py: Python<'_>, told: Told) -> PyResult<Events> {
        let bytes = |content: Vec<u8>| PyBytes::new(py, &content).unbind();
        let unread = told.unread.into_iter();
        let unread =
            unread.map(|(connection, data)| Py::new(py, Unread { connection, data: bytes(data) }));
        Ok(Events {
            progress: progress(py, told.progress)?,
            failures: told
                .failures
                .into_iter()
                .map(|one| Py::new(py, one))
                .collect::<PyResult<_>>()?,
            prepared_s: told.prepared_s,
            committed_s: told.committed_s,
            rolled_back_s: told.rolled_back_s,
            traced: traced(py, told.traced),
            lines: told.lines.into_iter().map(|one| Py::new(py, one)).collect::<PyResult<_>>()?,
            unread: unread.collect::<PyResult<_>>()?,
            due: told.due,
        })
    }
}

/// All since the last time, of the data door.
#[pyclass(frozen, get_all)]
pub struct HttpEvents {
    progress: Vec<Py<Progress>>,
    failures: Vec<Py<HttpFailed>>,
    /// Seconds that each prepare took, each commit, each roll back.
    prepared_s: Vec<f64>,
    committed_s: Vec<f64>,
    rolled_back_s: Vec<f64>,
    /// Of prepares as JSON, which are not among the others.
    json_prepared_s: Vec<f64>,
    /// Of the last prepares that brought a `traceparent`: seconds, and what it said.
    traced: Vec<(f64, Py<PyBytes>)>,
    /// Transactions that were prepared, and that were ended.
    prepared_ids: Vec<String>,
    ended_ids: Vec<String>,
    lines: Vec<Py<Line>>,
    /// Connections whose sockets the loop should take back.
    due: Vec<u64>,
}

impl HttpEvents {
    pub fn new(py: Python<'_>, told: Told) -> PyResult<HttpEvents> {
        let failures = told.http_failures.into_iter().map(|one| Py::new(py, one));
        Ok(HttpEvents {
            progress: progress(py, told.progress)?,
            failures: failures.collect::<PyResult<_>>()?,
            prepared_s: told.prepared_s,
            committed_s: told.committed_s,
            rolled_back_s: told.rolled_back_s,
            json_prepared_s: told.json_prepared_s,
            traced: traced(py, told.traced),
            prepared_ids: told.prepared_ids,
            ended_ids: told.ended_ids,
            lines: told.lines.into_iter().map(|one| Py::new(py, one)).collect::<PyResult<_>>()?,
            due: told.due,
        })
    }
}

fn traced(py: Python<'_>, told: Vec<(f64, Vec<u8>)>) -> Vec<(f64, Py<PyBytes>)> {
    let made =
        told.into_iter().map(|(passed_s, said)| (passed_s, PyBytes::new(py, &said).unbind()));
    made.collect()
}

fn progress(py: Python<'_>, told: Vec<Counts>) -> PyResult<Vec<Py<Progress>>> {
    let made = told.into_iter().map(|one| {
        let Counts { connection, begun_count, done_count, answers } = one;
        let answers = PyBytes::new(py, &answers).unbind();
        Py::new(py, Progress { connection, begun_count, done_count, answers })
    });
    made.collect()
}

/// The same before there are objects of Python.
pub struct Told {
    pub progress: Vec<Counts>,
    pub failures: Vec<Failed>,
    pub http_failures: Vec<HttpFailed>,
    pub prepared_ids: Vec<String>,
    pub ended_ids: Vec<String>,
    pub prepared_s: Vec<f64>,
    pub json_prepared_s: Vec<f64>,
    pub committed_s: Vec<f64>,
    pub rolled_back_s: Vec<f64>,
    pub traced: Vec<(f64, Vec<u8>)>,
    pub lines: Vec<Line>,
    pub unread: Vec<(u64, Vec<u8>)>,
    pub due: Vec<u64>,
}

/// See `Progress`.
pub struct Counts {
    pub connection: u64,
    pub begun_count: u32,
    pub done_count: u32,
    pub answers: Vec<u8>,
}

/// A decision of the last moments.
#[pyclass(frozen, get_all)]
pub struct Decided {
    /// In the order of asking; whoever is told of no more has surely failed.
    pub number: u64,
    pub is_commit: bool,
    /// None: it is on its way; false: nobody knows.
    pub is_stored: Option<bool>,
    /// Where it is stored, if Kafka has said it.
    pub op_offset: Option<i64>,
}
