//! The first decisions of the last moments, which their owner has perhaps not read yet.

use std::collections::{HashMap, VecDeque};
use std::ffi::c_int;
use std::time::{Duration, Instant};

use pyo3::prelude::*;

use crate::lately::{self, Lately};

const RECENT: Duration = Duration::from_secs(1);
/// As in `service/transactions/rolled_back.py`.
const ROLLED_BACK_MAX: usize = 50_000;
/// As in `adapters/kafka/errors.py`.
const SURELY_NOT_STORED: [c_int; 10] = [-190, -188, -184, -169, 3, 10, 18, 19, 29, 31];

#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Decided {
    pub is_commit: bool,
    /// None: it is on its way; false: nobody knows.
    pub is_stored: Option<bool>,
}

/// On its way, and what was asked for behind it.
struct UnderWay {
    number: u64,
    is_commit: bool,
    behind: VecDeque<(u64, bool)>,
}

/// By group and transaction id. What was stored, or perhaps was, is kept one to two seconds.
pub struct Memory {
    under_way: HashMap<String, UnderWay>,
    ended: Lately<String, Decided>,
    /// That was stored, or perhaps was.
    rolled_back: Lately<String, ()>,
    /// Decisions that were asked for.
    count: u64,
}

impl Memory {
    pub fn new(now: Instant) -> Memory {
        Memory {
            under_way: HashMap::new(),
            ended: Lately::new(now, RECENT, usize::MAX),
            rolled_back: Lately::new(now, lately::RECENT, ROLLED_BACK_MAX),
            count: 0,
        }
    }

    pub fn first(&self, key: &str) -> Option<Decided> {
        let under_way = || {
            let found = self.under_way.get(key);
            found.map(|it| Decided { is_commit: it.is_commit, is_stored: None })
        };
        self.ended.get(key).copied().or_else(under_way)
    }

    /// Its number, and whether it is the first of its transaction.
    pub fn begin(&mut self, key: String, is_commit: bool) -> (u64, bool) {
        self.count += 1;
        let number = self.count;
        if let Some(first) = self.under_way.get_mut(&key) {
            first.behind.push_back((number, is_commit));
            return (number, false);
        }
        if let Some(first) = self.first(&key) {
            if !is_commit && first.is_stored == Some(false) {
                self.rolled_back.put(key, ()); // perhaps: it may be the first in the log
            }
            return (number, false);
        }
        self.under_way.insert(key, UnderWay { number, is_commit, behind: VecDeque::new() });
        (number, true)
    }

    /// This one has, or was refused at once, while one before it was still on its way.
    pub fn landed(&mut self, key: &str, number: u64, err: c_int) {
        let Some(first) = self.under_way.get_mut(key) else {
            return;
        };
        if first.number != number {
            first.behind.retain(|(behind, _)| *behind != number);
            return;
        }
        if SURELY_NOT_STORED.contains(&err)
            && let Some((number, is_commit)) = first.behind.pop_front()
        {
            (first.number, first.is_commit) = (number, is_commit);
            return;
        }
        let Some((key, UnderWay { is_commit, behind, .. })) = self.under_way.remove_entry(key)
        else {
            return;
        };
        if SURELY_NOT_STORED.contains(&err) {
            return;
        }
        let is_stored = err == 0;
        if !is_commit || (!is_stored && behind.iter().any(|(_, is_commit)| !is_commit)) {
            self.rolled_back.put(key.clone(), ());
        }
        self.ended.put(key, Decided { is_commit, is_stored: Some(is_stored) });
    }

    /// Or is being rolled back.
    pub fn was_rolled_back(&self, key: &str) -> bool {
        self.under_way.get(key).is_some_and(|it| !it.is_commit) || self.rolled_back.has(key)
    }

    pub fn forget(&mut self, now: Instant) {
        self.ended.forget(now);
        self.rolled_back.forget(now);
    }
}

/// For tests: the first decision, and what `Decided` says of it, after each of these of one transaction.
/// ("commit", 0, 0), ("rollback", 0, 0), or ("lands", which of them, Kafka's error).
#[pyfunction]
pub fn first_decisions(happened: Vec<(String, u64, c_int)>) -> Vec<Option<(bool, Option<bool>)>> {
    let mut memory = Memory::new(Instant::now());
    let after = happened.into_iter().map(|(what, number, err)| {
        if what == "lands" {
            memory.landed("T", number, err);
        } else {
            memory.begin("T".to_owned(), what == "commit");
        }
        memory.first("T").map(|first| (first.is_commit, first.is_stored))
    });
    after.collect()
}
