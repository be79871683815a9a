//! What waits for its record: halves (their lane is in half_lane.rs), and the decisions of one
//! partition, which go into shared records, one at a time; those that nobody awaits gather for a
//! moment first.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::frame::Form;
use crate::handle::Signer;
use crate::kafka::RecordHeaders;
use crate::memory::Memory;
use crate::seal::Seals;

const GATHER: Duration = Duration::from_millis(4);
/// So many do not wait: the record is large enough.
const GATHERED_MAX: usize = 64;
const MARKS_MAX: usize = 1_000;
const ENTRIES_BYTES_MAX: usize = 500_000;

/// In which words a half message was asked for, and so how it is answered.
pub enum HalfAsk {
    Remoting {
        form: Form,
        opaque: i32,
        queue_id: i32,
        seals: Arc<Seals>,
    },
    Http {
        topic: Arc<str>,
        immunity_s: Option<u32>,
        signer: Arc<Signer>,
        is_named: bool,
        /// A prepare as JSON, and no raw half.
        is_json: bool,
    },
}

/// The same of an end; over HTTP somebody waits for the answer.
pub enum EndAsk {
    Remoting { form: Form, opaque: i32 },
    Http,
}

/// A half message and who asked for it.
pub struct HalfItem {
    pub ask: HalfAsk,
    pub connection: u64,
    pub partition: i32,
    pub group: Arc<str>,
    pub transaction_id: String,
    /// Counted as in flight until its report.
    pub size_bytes: usize,
    pub began: Instant,
    /// The value of its header `traceparent`.
    pub trace: Option<Box<[u8]>>,
}

/// A half message that has not been handed to librdkafka yet.
pub struct Waiting {
    pub item: Box<HalfItem>,
    pub key: Option<Vec<u8>>,
    pub value: Vec<u8>,
    pub headers: RecordHeaders,
}

pub struct EndItem {
    pub ask: EndAsk,
    pub connection: u64,
    pub identity: (Arc<str>, String),
    pub half_offset: i64,
    pub is_commit: bool,
    pub is_first: bool,
    pub began: Instant,
}

impl EndItem {
    pub fn key(&self) -> String {
        memory_key(&self.identity.0, &self.identity.1)
    }

    fn is_awaited(&self) -> bool {
        matches!(self.ask, EndAsk::Http)
    }

    fn bytes_max(&self) -> usize {
        64 + self.identity.0.len() + self.identity.1.len()
    }
}

pub fn memory_key(group: &str, transaction_id: &str) -> String {
    let mut key = String::with_capacity(group.len() + transaction_id.len() + 1);
    key.push_str(transaction_id);
    key.push('\0');
    key.push_str(group);
    key
}

pub struct EndLane {
    waiting: Vec<EndItem>,
    /// One of those that wait.
    is_awaited: bool,
    in_flight: usize,
    /// When those that wait have gathered enough.
    deadline: Option<Instant>,
    pub memory: Memory,
}

/// Decisions that share a record.
pub struct EndBatch {
    pub partition: i32,
    pub items: Vec<EndItem>,
}

impl EndLane {
    pub fn new(now: Instant) -> EndLane {
        let memory = Memory::new(now);
        EndLane { waiting: Vec::new(), is_awaited: false, in_flight: 0, deadline: None, memory }
    }

    pub fn push(&mut self, mut item: EndItem) {
        item.is_first = self.memory.begin(item.key(), item.is_commit);
        self.is_awaited |= item.is_awaited();
        self.waiting.push(item);
    }

    /// Runs of equal decisions to be stored now, so that the log keeps the order of asking.
    pub fn due(&mut self, partition: i32, now: Instant, all: bool) -> Vec<EndBatch> {
        if self.in_flight > 0 || self.waiting.is_empty() {
            return Vec::new();
        }
        if !all && !self.is_awaited && self.waiting.len() < GATHERED_MAX {
            match self.deadline {
                None => {
                    self.deadline = Some(now + GATHER);
                    return Vec::new();
                }
                Some(deadline) if now < deadline => return Vec::new(),
                Some(_) => {}
            }
        }
        self.deadline = None;
        let rest = self.waiting.split_off(self.waiting.len().min(MARKS_MAX));
        self.is_awaited = rest.iter().any(EndItem::is_awaited);
        let mut batches: Vec<EndBatch> = Vec::new();
        let mut bytes = 0;
        for item in std::mem::replace(&mut self.waiting, rest) {
            let fits = batches.last().is_some_and(|batch| {
                batch.items[0].is_commit == item.is_commit
                    && bytes + item.bytes_max() <= ENTRIES_BYTES_MAX
            });
            if !fits {
                batches.push(EndBatch { partition, items: Vec::new() });
                bytes = 0;
            }
            bytes += item.bytes_max();
            if let Some(batch) = batches.last_mut() {
                batch.items.push(item);
            }
        }
        self.in_flight = batches.len();
        batches
    }

    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    pub fn landed(&mut self, batch: &EndBatch, is_stored: bool, now: Instant) {
        self.in_flight -= 1;
        self.memory.forget(now);
        for item in batch.items.iter().filter(|item| item.is_first) {
            self.memory.end(&item.key(), is_stored);
        }
    }

    pub fn count(&self) -> usize {
        self.waiting.len() + self.in_flight
    }
}
