//! Ids that were rolled back lately. A half that is prepared under one again would be dropped.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use pyo3::prelude::*;

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
        let passed = now.duration_since(self.renewed);
        if passed > KEPT || self.recent.len() >= self.count_max {
            self.older = std::mem::take(&mut self.recent);
            if passed > 2 * KEPT {
                self.older.clear();
            }
            self.renewed = now;
        }
    }
}

/// For tests: whether an id is known so many seconds after its roll-back, of an instance that has
/// done nothing in between.
#[pyfunction]
pub fn rolled_back_known(after_s: u64) -> bool {
    let began = Instant::now();
    let mut rolled_back = RolledBack::new(began, 10);
    rolled_back.add("T".to_owned());
    rolled_back.forget(began + Duration::from_secs(after_s));
    rolled_back.has("T")
}
