//! Transactions that the loop has looked at, for it is about to decide them or to ask about them.
//!
//! Native threads have a producer of their own. Of contrary decisions by the loop and by them, each
//! answered as the first one, either may come first in the log. So the loop looks first, and from
//! then on ends of that transaction are the loop's: whoever adds to this set finds each end that was
//! taken before, since ends are queued under the same lock.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use pyo3::prelude::*;

/// Several times as long as a record may be on its way.
const KEPT: Duration = Duration::from_secs(30);
/// The same, where there are too many: for ends of the loop's are looked at, too.
const KEPT_FULL: Duration = Duration::from_secs(10);
/// With more than this, all ends are the loop's for as long.
const LOOKED_MAX: usize = 200_000;

pub struct Looked {
    recent: HashSet<u64>,
    older: HashSet<u64>,
    renewed: Instant,
}

impl Looked {
    pub fn new(now: Instant) -> Looked {
        Looked { recent: HashSet::new(), older: HashSet::new(), renewed: now }
    }

    pub fn add(&mut self, group: &str, transaction_id: &str, now: Instant) {
        let passed = now.duration_since(self.renewed);
        let is_full = self.recent.len() >= LOOKED_MAX;
        if passed > KEPT || (is_full && passed > KEPT_FULL) {
            self.older = std::mem::take(&mut self.recent);
            if passed > 2 * KEPT {
                self.older.clear();
            }
            self.renewed = now;
        }
        if self.recent.len() < LOOKED_MAX {
            self.recent.insert(key(group, transaction_id));
        }
    }

    /// Or another one of the same hash, which the loop may well end.
    pub fn has(&self, group: &str, transaction_id: &str, now: Instant) -> bool {
        let passed = now.duration_since(self.renewed);
        if passed > 2 * KEPT || (self.recent.is_empty() && self.older.is_empty()) {
            return false;
        }
        let key = key(group, transaction_id);
        let holds = |ids: &HashSet<u64>| ids.len() >= LOOKED_MAX || ids.contains(&key);
        holds(&self.recent) || (passed <= KEPT && holds(&self.older))
    }
}

fn key(group: &str, transaction_id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (group, transaction_id).hash(&mut hasher);
    hasher.finish()
}

/// For tests: what is known to have been looked at, of what happens at these times (seconds): an id
/// is looked at, very many are ("fill"), or it is asked about.
#[pyfunction]
pub fn looked_at(happened: Vec<(f64, String, String)>) -> Vec<bool> {
    let began = Instant::now();
    let mut looked = Looked::new(began);
    let mut found = Vec::new();
    for (at_s, what, id) in happened {
        let now = began + Duration::from_secs_f64(at_s);
        match what.as_str() {
            "look" => looked.add("g", &id, now),
            "fill" => (0..LOOKED_MAX).for_each(|n| looked.add(&id, &n.to_string(), now)),
            _ => found.push(looked.has("g", &id, now)),
        }
    }
    found
}
