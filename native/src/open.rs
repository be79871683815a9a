//! Transactions of one message that were prepared in this process a moment ago and that nobody in
//! it has decided, added to or looked at since: what a native end may be about.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::lanes::memory_key;

/// Of these, twice; then the oldest are forgotten earlier.
const COUNT_MAX: usize = 100_000;

struct Open {
    half_offset: u64,
    until: Instant,
}

/// What is older than `open_for` may be being checked by now: the loop looks after that.
pub struct OpenOnes {
    open_for: Duration,
    recent: HashMap<String, Open>,
    older: HashMap<String, Open>,
    renewed: Instant,
}

impl OpenOnes {
    pub fn new(open_for: Duration, now: Instant) -> OpenOnes {
        OpenOnes { open_for, recent: HashMap::new(), older: HashMap::new(), renewed: now }
    }

    /// Its only message is stored; it came at `began`.
    pub fn put(
        &mut self,
        group: &str,
        id: &str,
        half_offset: u64,
        began: Instant,
        immunity_s: Option<u32>,
    ) {
        let immunity =
            immunity_s.map_or(self.open_for, |seconds| Duration::from_secs(seconds.into()));
        // Before its owner, whose clock is another one, may have it checked.
        let until = began + (immunity * 4 / 5).min(self.open_for);
        self.forget(Instant::now());
        self.recent.insert(memory_key(group, id), Open { half_offset, until });
    }

    /// Whether this is the one that was stored there; either way it is not open any more.
    pub fn take(&mut self, group: &str, id: &str, half_offset: u64, now: Instant) -> bool {
        let key = memory_key(group, id);
        let older = self.older.remove(&key);
        let found = self.recent.remove(&key).or(older);
        found.is_some_and(|one| one.half_offset == half_offset && now < one.until)
    }

    /// The loop is about to do something with it.
    pub fn close(&mut self, group: &str, id: &str) {
        let key = memory_key(group, id);
        self.older.remove(&key);
        self.recent.remove(&key);
    }

    fn forget(&mut self, now: Instant) {
        let passed = now.duration_since(self.renewed);
        if passed > self.open_for || self.recent.len() >= COUNT_MAX {
            self.older = std::mem::take(&mut self.recent);
            if passed > 2 * self.open_for {
                self.older.clear();
            }
            self.renewed = now;
        }
    }
}
