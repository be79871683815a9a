//! The first decisions of the last moments, until their owner has read them.

use std::collections::HashMap;
use std::time::{Duration, Instant};

const RECENT: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Known {
    pub is_commit: bool,
    pub is_stored: bool,
}

/// By group and transaction id. What was stored is kept one to two seconds.
pub struct Memory {
    under_way: HashMap<String, bool>,
    recent: HashMap<String, bool>,
    older: HashMap<String, bool>,
    renewed: Instant,
}

impl Memory {
    pub fn new(now: Instant) -> Memory {
        Memory {
            under_way: HashMap::new(),
            recent: HashMap::new(),
            older: HashMap::new(),
            renewed: now,
        }
    }

    pub fn first(&self, key: &str) -> Option<Known> {
        let stored = self.older.get(key).or_else(|| self.recent.get(key));
        match stored {
            Some(&is_commit) => Some(Known { is_commit, is_stored: true }),
            None => {
                let under_way = self.under_way.get(key);
                under_way.map(|&is_commit| Known { is_commit, is_stored: false })
            }
        }
    }

    /// Whether it is the first of its transaction.
    pub fn begin(&mut self, key: String, is_commit: bool) -> bool {
        if self.first(&key).is_some() {
            return false;
        }
        self.under_way.insert(key, is_commit);
        true
    }

    pub fn end(&mut self, key: &str, is_stored: bool) {
        if let Some((key, is_commit)) = self.under_way.remove_entry(key)
            && is_stored
        {
            self.recent.insert(key, is_commit);
        }
    }

    pub fn forget(&mut self, now: Instant) {
        let passed = now.duration_since(self.renewed);
        if passed > RECENT {
            self.older = std::mem::take(&mut self.recent);
            if passed > 2 * RECENT {
                self.older.clear();
            }
            self.renewed = now;
        }
    }
}
