//! What was put in lately: two generations, the older of which is forgotten as a whole.
//! `service/transactions/lately.py` is its like.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

use pyo3::prelude::*;

/// As in that file: of what is older the owner of its half partition knows.
pub const RECENT: Duration = Duration::from_secs(60);

/// An entry is kept for one to two times `kept`; for less where more than `count_max` come.
pub struct Lately<K, V> {
    kept: Duration,
    count_max: usize,
    recent: HashMap<K, V>,
    older: HashMap<K, V>,
    renewed: Instant,
}

impl<K: Eq + Hash, V> Lately<K, V> {
    /// `count_max`: of each generation.
    pub fn new(now: Instant, kept: Duration, count_max: usize) -> Lately<K, V> {
        Lately { kept, count_max, recent: HashMap::new(), older: HashMap::new(), renewed: now }
    }

    pub fn put(&mut self, key: K, value: V) {
        self.recent.insert(key, value);
    }

    pub fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.recent.get(key).or_else(|| self.older.get(key))
    }

    pub fn get_mut<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.recent.get_mut(key).or_else(|| self.older.get_mut(key))
    }

    pub fn has<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.get(key).is_some()
    }

    /// Gives the newer entry, if there are two.
    pub fn remove<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let older = self.older.remove(key);
        self.recent.remove(key).or(older)
    }

    pub fn is_empty(&self) -> bool {
        self.recent.is_empty() && self.older.is_empty()
    }

    pub fn clear(&mut self) {
        self.recent.clear();
        self.older.clear();
    }

    /// Since it was renewed.
    pub fn passed(&self, now: Instant) -> Duration {
        now.duration_since(self.renewed)
    }

    pub fn recent_count(&self) -> usize {
        self.recent.len()
    }

    /// The older ones are forgotten.
    pub fn turn(&mut self, now: Instant) {
        self.older = std::mem::take(&mut self.recent);
        self.renewed = now;
    }

    /// Before anything is looked for or put. On an idle instance it is called seldom, so what is
    /// older than both generations goes at once.
    pub fn forget(&mut self, now: Instant) {
        let passed = self.passed(now);
        if passed > self.kept || self.recent.len() >= self.count_max {
            self.turn(now);
            if passed > 2 * self.kept {
                self.older.clear();
            }
        }
    }
}

/// For tests: whether an id is known so many seconds after it was put, when `count` others came in
/// between; ten in a generation.
#[pyfunction]
pub fn known_lately(after_s: u64, count: usize) -> bool {
    let began = Instant::now();
    let mut lately = Lately::new(began, RECENT, 10);
    lately.put("T".to_owned(), ());
    for number in 0..count {
        lately.forget(began);
        lately.put(number.to_string(), ());
    }
    lately.forget(began + Duration::from_secs(after_s));
    lately.has("T")
}
