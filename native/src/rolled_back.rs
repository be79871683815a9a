//! Ids that were rolled back lately. A half that is prepared under one again would be dropped.

use std::collections::HashSet;
use std::time::{Duration, Instant};

/// As in `service/transactions/lately.py`. Then, and with too many, the older half is forgotten.
const KEPT: Duration = Duration::from_secs(60);

/// By group and transaction id (`lanes::memory_key`).
pub struct RolledBack {
    recent: HashSet<String>,
    older: HashSet<String>,
    renewed: Instant,
    count_max: usize,
}

impl RolledBack {
    /// `count_max`: twice as many at most.
    pub fn new(now: Instant, count_max: usize) -> RolledBack {
        RolledBack { recent: HashSet::new(), older: HashSet::new(), renewed: now, count_max }
    }

    pub fn add(&mut self, key: String) {
        self.recent.insert(key);
    }

    pub fn has(&self, key: &str) -> bool {
        self.recent.contains(key) || self.older.contains(key)
    }

    pub fn is_empty(&self) -> bool {
        self.recent.is_empty() && self.older.is_empty()
    }

    pub fn forget(&mut self, now: Instant) {
        if now.duration_since(self.renewed) > KEPT || self.recent.len() >= self.count_max {
            self.older = std::mem::take(&mut self.recent);
            self.renewed = now;
        }
    }
}
