//! The first decisions of the last moments, which their owner has perhaps not read yet.

use std::collections::HashMap;
use std::ffi::c_int;
use std::time::{Duration, Instant};

use crate::rolled_back::RolledBack;

const RECENT: Duration = Duration::from_secs(1);
/// As in `service/transactions/rolled_back.py`.
const ROLLED_BACK_MAX: usize = 50_000;
/// As in `adapters/kafka/errors.py`.
const SURELY_NOT_STORED: [c_int; 10] = [-190, -188, -184, -169, 3, 10, 18, 19, 29, 31];

#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Decided {
    pub is_commit: bool,
    pub is_stored: bool,
}

/// By group and transaction id. What was stored is kept one to two seconds.
pub struct Memory {
    under_way: HashMap<String, bool>,
    recent: HashMap<String, bool>,
    older: HashMap<String, bool>,
    renewed: Instant,
    /// That was stored, or perhaps was.
    rolled_back: RolledBack,
}

impl Memory {
    pub fn new(now: Instant) -> Memory {
        Memory {
            under_way: HashMap::new(),
            recent: HashMap::new(),
            older: HashMap::new(),
            renewed: now,
            rolled_back: RolledBack::new(now, ROLLED_BACK_MAX),
        }
    }

    pub fn first(&self, key: &str) -> Option<Decided> {
        let stored = self.older.get(key).or_else(|| self.recent.get(key));
        match stored {
            Some(&is_commit) => Some(Decided { is_commit, is_stored: true }),
            None => {
                let under_way = self.under_way.get(key);
                under_way.map(|&is_commit| Decided { is_commit, is_stored: false })
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

    pub fn end(&mut self, key: &str, err: c_int) {
        let Some((key, is_commit)) = self.under_way.remove_entry(key) else {
            return;
        };
        if !is_commit && !SURELY_NOT_STORED.contains(&err) {
            self.rolled_back.add(key.clone());
        }
        if err == 0 {
            self.recent.insert(key, is_commit);
        }
    }

    /// Or is being rolled back.
    pub fn was_rolled_back(&self, key: &str) -> bool {
        self.under_way.get(key) == Some(&false) || self.rolled_back.has(key)
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
        self.rolled_back.forget(now);
    }
}
