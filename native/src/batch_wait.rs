//! How long a batch waits for callers that have just been answered, and come back.
//!
//! If what has waited went out at once, callers would stay in two groups, one of which waits while
//! the other is on its way; and a batch costs Kafka and us the same, however much it holds. So it is
//! kept back for a moment, until as many have come as have landed.

use std::time::{Duration, Instant};

/// A batch waits for others so many times as long as those that landed were on their way, and where
/// fewer can come together than this, not at all: there it would only be later.
const WAIT_FACTOR: u32 = 2;
const WAIT_MIN: usize = 4;
const WAIT_MAX: Duration = Duration::from_millis(1);
/// Where nobody comes in time, 2 to the power of this many batches do not wait.
const MISSES_MAX: u32 = 6;

/// What was in flight: their callers come back.
#[derive(Clone, Copy)]
pub struct Landed {
    pub now: Instant,
    pub took: Duration,
    pub count: usize,
}

/// Of one lane: until when, and for how many, its next batch waits.
#[derive(Default)]
pub struct BatchWait {
    until: Option<Instant>,
    began: Option<Instant>,
    took: Duration,
    expected: usize,
    /// Of these, so many were there when it began, and so many may come.
    had: usize,
    landed: usize,
    /// Somebody waits because of it.
    is_felt: bool,
    /// Batches that are to go out at once, for to wait has not helped.
    skipped: u32,
    misses: u32,
    handed: Option<Instant>,
    /// So many went out together the last time.
    sent: usize,
}

impl BatchWait {
    /// So many wait, and those of `landed` may come.
    pub fn begin(&mut self, landed: Landed, had: usize) {
        if self.until.is_some() && self.is_felt {
            // Whoever waits already does not wait longer for these, too: of callers that come
            // back one after the other it would wait for all.
            return;
        }
        let expected = had + landed.count;
        if expected < WAIT_MIN {
            return; // nor does it end a wait for more
        }
        (self.until, self.is_felt) = (None, false);
        if self.skipped > 0 {
            self.skipped -= 1;
            return;
        }
        (self.had, self.landed, self.expected) = (had, landed.count, expected);
        (self.began, self.took) = (Some(landed.now), landed.took);
        self.until = Some(landed.now + (landed.took * WAIT_FACTOR).min(WAIT_MAX));
    }

    /// Whether so many are to wait now.
    pub fn is_on(&mut self, now: Instant, count: usize) -> bool {
        let is_on = count < self.expected && self.until.is_some_and(|until| now < until);
        self.is_felt |= is_on;
        is_on
    }

    pub fn until(&self) -> Option<Instant> {
        self.until
    }

    /// So many go out now.
    pub fn end(&mut self, now: Instant, count: usize) {
        (self.handed, self.sent) = (Some(now), count);
        let (Some(_), Some(began)) = (self.until.take(), self.began) else {
            return;
        };
        if !self.is_felt {
            return; // it has cost nothing
        }
        self.is_felt = false;
        if self.has_helped(now.duration_since(began), count.saturating_sub(self.had)) {
            self.misses = 0;
        } else {
            self.misses = (self.misses + 1).min(MISSES_MAX);
            self.skipped = 1 << self.misses;
        }
    }

    /// All that went out the last time has landed.
    pub fn landed(&self, now: Instant) -> Landed {
        let took = self.handed.map_or(Duration::ZERO, |handed| now - handed);
        Landed { now, took, count: self.sent }
    }

    /// Half of those that had landed came back, and no more sparsely than others had come while
    /// these were on their way. Else callers are busy elsewhere for about as long as a batch is on
    /// its way, and a wait only makes all of them later. To ask for three times as many in a time
    /// is too much: on two busy processors eight threads were behind where they were without.
    fn has_helped(&self, waited: Duration, came: usize) -> bool {
        let came_us = came as u128 * self.took.as_micros();
        2 * came >= self.landed && came_us >= self.had as u128 * waited.as_micros()
    }
}
