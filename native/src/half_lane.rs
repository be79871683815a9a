//! Halves of one partition: those that come while others are on their way go together.
//!
//! Once these have landed, their callers send the next ones. If what has waited went out at once,
//! callers would stay in two groups, one of which waits while the other is on its way; and a batch
//! costs Kafka and us the same, however much it holds. So it is held for a moment, until as many
//! have come as have landed. With eight threads of RocketMQ's client batches of 2.6 became 5.5.

use std::time::{Duration, Instant};

use pyo3::prelude::*;

/// A batch of halves waits for others so many times as long as the last one was on its way, and
/// where fewer can come together than this, not at all: there it would only be later.
const HOLD_FACTOR: u32 = 2;
const HOLD_MIN: usize = 4;
const HOLD_MAX: Duration = Duration::from_millis(1);
/// Where nobody comes in time, 2 to the power of this many batches do not wait.
const MISSES_MAX: u32 = 6;

/// Of one partition.
pub struct HalfLane<T> {
    waiting: Vec<T>,
    in_flight: usize,
    handed: Option<Instant>,
    /// So many went out together the last time.
    sent: usize,
    hold: Hold,
}

/// Until when, and for how many, the next batch waits.
#[derive(Default)]
struct Hold {
    until: Option<Instant>,
    began: Option<Instant>,
    flight: Duration,
    expected: usize,
    /// Of these, so many were there when it began.
    had: usize,
    /// Somebody waits because of it.
    is_felt: bool,
    /// Batches that are to go out at once, for to wait has not helped.
    skipped: u32,
    misses: u32,
    /// The gathering thread knows of it.
    is_told: bool,
}

impl Hold {
    fn begin(&mut self, now: Instant, flight: Duration, (had, sent): (usize, usize)) {
        (self.until, self.is_felt) = (None, false);
        if self.skipped > 0 {
            self.skipped -= 1;
            return;
        }
        (self.had, self.expected) = (had, had + sent);
        if self.expected < HOLD_MIN {
            return;
        }
        (self.began, self.flight) = (Some(now), flight);
        self.until = Some(now + (flight * HOLD_FACTOR).min(HOLD_MAX));
    }

    fn is_on(&mut self, now: Instant, count: usize) -> bool {
        let is_on = count < self.expected && self.until.is_some_and(|until| now < until);
        self.is_felt |= is_on;
        is_on
    }

    /// So many go out now; `sent` had gone out the last time.
    fn end(&mut self, now: Instant, count: usize, sent: usize) {
        self.is_told = false;
        let (Some(_), Some(began)) = (self.until.take(), self.began) else {
            return;
        };
        if !self.is_felt {
            return; // it has cost nothing
        }
        if self.has_helped(now.duration_since(began), count.saturating_sub(self.had), sent) {
            self.misses = 0;
        } else {
            self.misses = (self.misses + 1).min(MISSES_MAX);
            self.skipped = 1 << self.misses;
        }
    }

    /// Half of those that had landed came back, and no more sparsely than others had come while
    /// these were on their way. Else callers are busy elsewhere for about as long as a batch is on
    /// its way, and a wait only makes all of them later. To ask for three times as many in a time
    /// is too much: on two busy processors eight threads were behind where they were without.
    fn has_helped(&self, held: Duration, came: usize, sent: usize) -> bool {
        let came_us = came as u128 * self.flight.as_micros();
        2 * came >= sent && came_us >= self.had as u128 * held.as_micros()
    }
}

impl<T> Default for HalfLane<T> {
    fn default() -> HalfLane<T> {
        let hold = Hold::default();
        HalfLane { waiting: Vec::new(), in_flight: 0, handed: None, sent: 0, hold }
    }
}

impl<T> HalfLane<T> {
    pub fn push(&mut self, waiting: T) {
        self.waiting.push(waiting);
    }

    /// What is to be handed over now, counted as in flight.
    pub fn due(&mut self, now: Instant) -> Vec<T> {
        let count = self.waiting.len();
        if self.in_flight > 0 || count == 0 || self.hold.is_on(now, count) {
            return Vec::new();
        }
        self.all(now)
    }

    /// All that waits, whatever it waits for.
    pub fn all(&mut self, now: Instant) -> Vec<T> {
        let count = self.waiting.len();
        self.hold.end(now, count, self.sent);
        self.handed = Some(now);
        (self.in_flight, self.sent) = (self.in_flight + count, count);
        std::mem::take(&mut self.waiting)
    }

    pub fn landed(&mut self, now: impl FnOnce() -> Instant) {
        self.in_flight -= 1;
        if self.in_flight == 0 {
            let now = now();
            let flight = self.handed.map_or(Duration::ZERO, |handed| now - handed);
            self.hold.begin(now, flight, (self.waiting.len(), self.sent));
        }
    }

    /// When those that wait for others go out.
    pub fn deadline(&self) -> Option<Instant> {
        if self.in_flight > 0 || self.waiting.is_empty() { None } else { self.hold.until }
    }

    /// Whether somebody has to be told of the deadline.
    pub fn is_news(&mut self) -> bool {
        self.deadline().is_some() && !std::mem::replace(&mut self.hold.is_told, true)
    }

    pub fn count(&self) -> usize {
        self.waiting.len() + self.in_flight
    }
}

/// For tests: what goes out when, of halves that come and land at these times (microseconds). What
/// has gone out lands together.
#[pyfunction]
pub fn half_batches(happened: Vec<(u64, String)>) -> Vec<(u64, usize)> {
    let began = Instant::now();
    let mut lane: HalfLane<()> = HalfLane::default();
    let mut gone = Vec::new();
    for (at_us, what) in happened {
        let now = began + Duration::from_micros(at_us);
        match what.as_str() {
            "came" => lane.push(()),
            "landed" => (0..lane.in_flight).for_each(|_| lane.landed(|| now)),
            _ => {} // somebody looks
        }
        let count = lane.due(now).len();
        if count > 0 {
            gone.push((at_us, count));
        }
    }
    gone
}
