//! What waits for its record: halves (their lane is in half_lane.rs), and the decisions of one
//! partition, which go into shared records, one at a time. Those that nobody awaits gather for a
//! moment first. Over HTTP a caller prepares, is answered, ends, is answered, and prepares: so ends
//! wait a moment for those whose halves have landed, and halves for those whose ends have. (Over the
//! RocketMQ protocol an end is one way, and the next half follows the last one.)

use std::ffi::c_int;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pyo3::prelude::*;

use crate::batch_wait::{BatchWait, Landed};
use crate::frame::Form;
use crate::half_lane::HalfLane;
use crate::handle::Signer;
use crate::kafka::RecordHeaders;
use crate::memory::{Ended, Memory};
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
    /// In the order of asking.
    pub number: u64,
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
    wait: BatchWait,
    pub memory: Memory,
    /// An owner here has read the op log up to there; negative: none works here.
    pub read_to: i64,
}

/// Decisions that share a record.
pub struct EndBatch {
    pub partition: i32,
    pub items: Vec<EndItem>,
}

impl EndLane {
    pub fn new(now: Instant) -> EndLane {
        EndLane {
            waiting: Vec::new(),
            is_awaited: false,
            in_flight: 0,
            deadline: None,
            wait: BatchWait::default(),
            memory: Memory::new(now),
            read_to: -1,
        }
    }

    pub fn push(&mut self, mut item: EndItem) {
        self.memory.forget(Instant::now());
        (item.number, item.is_first) = self.memory.begin(item.key(), item.is_commit);
        self.is_awaited |= item.is_awaited();
        self.waiting.push(item);
    }

    /// Runs of equal decisions to be stored now, so that the log keeps the order of asking: that of
    /// one transaction, and of commits, which their messages follow. The sort keeps both. A few
    /// roll-backs of others among them would cut a record into many.
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
        if !all && self.is_awaited && self.wait.is_on(now, self.waiting.len()) {
            self.deadline = self.wait.until();
            return Vec::new();
        }
        self.deadline = None;
        let rest = self.waiting.split_off(self.waiting.len().min(MARKS_MAX));
        self.wait.end(now, self.waiting.len());
        self.is_awaited = rest.iter().any(EndItem::is_awaited);
        let mut batches: Vec<EndBatch> = Vec::new();
        let mut bytes = 0;
        let mut due = std::mem::replace(&mut self.waiting, rest);
        if due.iter().all(|item| item.is_first) {
            due.sort_by_key(|item| !item.is_commit);
        }
        for item in due {
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

    /// With the last batch in flight, all of them, if somebody is answered with it.
    /// `err`: Kafka's; 0: it is stored, at this op offset if it is not negative.
    pub fn landed(
        &mut self,
        batch: &EndBatch,
        err: c_int,
        offset: i64,
        now: Instant,
    ) -> Option<Landed> {
        self.in_flight -= 1;
        self.memory.forget(now);
        if err == 0 && offset >= 0 {
            self.memory.stored(offset, self.read_to, now);
        }
        for item in &batch.items {
            let EndItem { number, half_offset, .. } = *item;
            self.memory.landed(&Ended { key: &item.key(), number, half_offset }, err, offset, now);
        }
        let is_answer = batch.items.iter().any(EndItem::is_awaited);
        (self.in_flight == 0 && is_answer).then(|| self.wait.landed(now))
    }

    /// Whoever is answered with these halves sends the next ends.
    pub fn expect(&mut self, landed: Landed) {
        self.wait.begin(landed, self.waiting.len());
    }

    pub fn count(&self) -> usize {
        self.waiting.len() + self.in_flight
    }
}

/// Of all half partitions.
#[derive(Default)]
pub struct Lanes {
    pub halves: Vec<HalfLane<Waiting>>,
    pub ends: Vec<EndLane>,
}

impl Lanes {
    pub fn half_landed(&mut self, item: &HalfItem) {
        let partition = item.partition as usize;
        if let Some(landed) = self.halves[partition].landed(Instant::now) {
            match item.ask {
                HalfAsk::Remoting { .. } => self.halves[partition].expect(landed),
                HalfAsk::Http { .. } => self.ends[partition].expect(landed),
            }
        }
    }

    pub fn ends_landed(&mut self, batch: &EndBatch, err: c_int, offset: i64, now: Instant) {
        let partition = batch.partition as usize;
        if let Some(landed) = self.ends[partition].landed(batch, err, offset, now) {
            self.halves[partition].expect(landed);
        }
    }
}

/// For tests: what goes out when, over HTTP, as `half_lane::half_batches` has it for halves alone.
#[pyfunction]
pub fn http_batches(happened: Vec<(u64, String)>) -> Vec<(u64, String, usize)> {
    let began = Instant::now();
    let (mut halves, mut ends) = (HalfLane::default(), EndLane::new(began));
    let mut on_their_way: Vec<EndBatch> = Vec::new();
    let mut half_count = 0;
    let mut gone = Vec::new();
    for (at_us, what) in happened {
        let now = began + Duration::from_micros(at_us);
        match what.as_str() {
            "half" => halves.push(()),
            "end" | "rollback" => ends.push(EndItem {
                ask: EndAsk::Http,
                connection: 0,
                identity: ("g".into(), at_us.to_string()),
                half_offset: 0,
                is_commit: what == "end",
                is_first: false,
                number: 0,
                began: now,
            }),
            "halves landed" => {
                let last = (0..half_count).filter_map(|_| halves.landed(|| now)).last();
                last.into_iter().for_each(|landed| ends.expect(landed));
                half_count = 0;
            }
            "ends landed" => {
                let landed = on_their_way.drain(..).filter_map(|it| ends.landed(&it, 0, 0, now));
                let last = landed.collect::<Vec<_>>().pop();
                last.into_iter().for_each(|landed| halves.expect(landed));
            }
            _ => {} // somebody looks
        }
        let due = halves.due(now).len();
        half_count += due;
        if due > 0 {
            gone.push((at_us, "halves".to_owned(), due));
        }
        for batch in ends.due(0, now, false) {
            let kind = if batch.items[0].is_commit { "ends" } else { "rollbacks" };
            gone.push((at_us, kind.to_owned(), batch.items.len()));
            on_their_way.push(batch);
        }
    }
    gone
}

/// For tests: the ids of each record, of ends (id, is it a commit) that go out together.
#[pyfunction]
pub fn records_of(asked: Vec<(String, bool)>) -> Vec<Vec<String>> {
    let now = Instant::now();
    let mut lane = EndLane::new(now);
    for (id, is_commit) in asked {
        lane.push(EndItem {
            ask: EndAsk::Http,
            connection: 0,
            identity: ("g".into(), id),
            half_offset: 0,
            is_commit,
            is_first: false,
            number: 0,
            began: now,
        });
    }
    let batches = lane.due(0, now, true).into_iter();
    batches.map(|batch| batch.items.into_iter().map(|item| item.identity.1).collect()).collect()
}
