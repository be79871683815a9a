//! Transactions of one message that were prepared in this process a moment ago and that nobody has
//! decided, added to or looked at since, as far as this process can know: what a native end may be
//! about. It knows what is asked of it, and what owners of half partitions here read in the op log.

use std::time::{Duration, Instant};

use crate::lanes::memory_key;
use crate::lately::Lately;

/// An end comes natively within this time of its prepare, and before four fifths of its immunity
/// are over: its owner, whose clock is another one, has nobody asked about it before.
const OPEN_MAX: Duration = Duration::from_secs(10);
/// Of these, twice; then the oldest are forgotten earlier.
const COUNT_MAX: usize = 100_000;

struct Open {
    /// None: nobody can have used its id before, so it is nowhere else.
    partition: Option<i32>,
    /// None: its message is being stored.
    half_offset: Option<u64>,
    until: Instant,
}

/// What is older may be being checked by now: the loop looks after that.
pub struct OpenOnes {
    /// Of whatever does not ask for another one.
    immunity: Duration,
    ones: Lately<String, Open>,
}

impl OpenOnes {
    pub fn new(immunity: Duration, now: Instant) -> OpenOnes {
        OpenOnes { immunity, ones: Lately::new(now, OPEN_MAX, COUNT_MAX) }
    }

    /// Its only message came at `began`, and is about to be stored. From now on it can be closed:
    /// its owner may read it, and somebody decide it, before its append is reported here.
    pub fn expect(
        &mut self,
        (group, id): (&str, &str),
        partition: Option<i32>,
        began: Instant,
        immunity_s: Option<u32>,
    ) {
        let immunity =
            immunity_s.map_or(self.immunity, |seconds| Duration::from_secs(seconds.into()));
        let until = began + (immunity * 4 / 5).min(OPEN_MAX);
        self.ones.forget(Instant::now());
        self.ones.put(memory_key(group, id), Open { partition, half_offset: None, until });
    }

    /// Its message lies there. Whoever was closed meanwhile stays closed.
    pub fn stored(&mut self, group: &str, id: &str, half_offset: u64) {
        let key = memory_key(group, id);
        if let Some(one) = self.ones.get_mut(&key) {
            one.half_offset = Some(half_offset);
        }
    }

    /// Whether this is the one that was stored there; either way it is not open any more.
    pub fn take(
        &mut self,
        (group, id): (&str, &str),
        partition: i32,
        half_offset: u64,
        now: Instant,
    ) -> bool {
        let found = self.ones.remove(&memory_key(group, id));
        found.is_some_and(|one| {
            one.partition.is_none_or(|known| known == partition)
                && one.half_offset == Some(half_offset)
                && now < one.until
        })
    }

    /// The loop is about to do something with it, or its owner has read a decision.
    pub fn close(&mut self, group: &str, id: &str) {
        if !self.ones.is_empty() {
            self.ones.remove(&memory_key(group, id));
        }
    }

    /// An owner here knows from now on what it did not read as it was written.
    pub fn close_all(&mut self) {
        self.ones.clear();
    }
}
