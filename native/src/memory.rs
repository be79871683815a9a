//! The decisions of the last moments, which their owner has perhaps not read yet.

use std::collections::HashMap;
use std::ffi::c_int;
use std::time::{Duration, Instant};

use pyo3::prelude::*;

use crate::events::Decided;
use crate::lately::{self, Lately};

/// As in `service/transactions/remembered.py`, where the reasons stand.
const RECENT: Duration = Duration::from_secs(1);
const UNOWNED: Duration = Duration::from_secs(10);
const STALE: Duration = Duration::from_secs(600);
const REMEMBERED_MAX: usize = 50_000;
/// As in `service/transactions/rolled_back.py`.
const ROLLED_BACK_MAX: usize = 50_000;
/// As in `adapters/kafka/errors.py`.
const SURELY_NOT_STORED: [c_int; 10] = [-190, -188, -184, -169, 3, 10, 18, 19, 29, 31];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    OnItsWay,
    /// At this op offset, where Kafka has said it.
    Stored(Option<i64>),
    /// Nobody knows.
    Unknown,
}

#[derive(Clone, Copy)]
struct Asked {
    number: u64,
    is_commit: bool,
    fate: Fate,
}

impl Asked {
    fn is_stored(&self) -> bool {
        matches!(self.fate, Fate::Stored(_))
    }
}

/// Of one transaction, in the order of asking, but for what has surely failed.
type Chain = Vec<Asked>;

/// One of these counts, if any does: `service/transactions/asked.py` has the rule.
fn may_count(chain: &[Asked]) -> &[Asked] {
    let stored = chain.iter().position(Asked::is_stored);
    &chain[..stored.map_or(chain.len(), |place| place + 1)]
}

/// Decisions that are not remembered any more: of transactions that lie below this half offset, and
/// they themselves below this op offset.
#[derive(Clone, Copy, Default)]
pub struct Forgotten {
    pub half_end: i64,
    pub op_end: i64,
}

/// A decision that was on its way.
pub struct Ended<'a> {
    pub key: &'a str,
    pub number: u64,
    pub half_offset: i64,
}

/// By group and transaction id.
pub struct Memory {
    /// With one that is on its way.
    under_way: HashMap<String, Chain>,
    /// The others; it turns with what is stored, not with the clock. An empty one: all have surely
    /// failed.
    ended: Lately<String, Chain>,
    /// The older ones of these lie below this op offset.
    older_end: i64,
    /// And the recent ones below this one.
    stored_end: i64,
    /// Their transactions lie below these half offsets.
    recent_half_end: i64,
    older_half_end: i64,
    pub forgotten: Forgotten,
    landed: Instant,
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
            older_end: 0,
            stored_end: 0,
            recent_half_end: 0,
            older_half_end: 0,
            forgotten: Forgotten::default(),
            landed: now,
            rolled_back: Lately::new(now, lately::RECENT, ROLLED_BACK_MAX),
            count: 0,
        }
    }

    /// All that may count, in the order of asking; None: nothing is remembered.
    pub fn decisions(&mut self, key: &str, now: Instant) -> Option<Vec<Decided>> {
        if now.duration_since(self.landed) > STALE && !self.ended.is_empty() {
            self.turn(self.stored_end, now);
            self.turn(self.stored_end, now);
        }
        let chain = self.under_way.get(key).or_else(|| self.ended.get(key))?;
        let told = may_count(chain).iter().map(|asked| Decided {
            number: asked.number,
            is_commit: asked.is_commit,
            is_stored: match asked.fate {
                Fate::OnItsWay => None,
                Fate::Stored(_) => Some(true),
                Fate::Unknown => Some(false),
            },
            op_offset: if let Fate::Stored(offset) = asked.fate { offset } else { None },
        });
        Some(told.collect())
    }

    /// Its number, and whether it is the first of its transaction.
    pub fn begin(&mut self, key: String, is_commit: bool) -> (u64, bool) {
        self.count += 1;
        let asked = Asked { number: self.count, is_commit, fate: Fate::OnItsWay };
        if let Some(chain) = self.under_way.get_mut(&key) {
            chain.push(asked);
            return (self.count, false);
        }
        if self.ended.get(&key).is_some_and(|chain| chain.iter().any(Asked::is_stored)) {
            return (self.count, false); // it has lost, or says the same
        }
        let mut chain = self.ended.remove(&key).unwrap_or_default();
        let is_first = chain.is_empty();
        chain.push(asked);
        self.under_way.insert(key, chain);
        (self.count, is_first)
    }

    /// Something was stored at this op offset, and what lies before it has landed. `read_to`: what
    /// lies below it an owner here has read; negative: no owner works here.
    pub fn stored(&mut self, op_offset: i64, read_to: i64, now: Instant) {
        self.stored_end = self.stored_end.max(op_offset + 1);
        let has_owner = read_to >= 0;
        let kept = if has_owner { RECENT } else { UNOWNED };
        let is_old = self.ended.passed(now) > kept && (!has_owner || read_to >= self.older_end);
        if is_old || self.ended.recent_count() >= REMEMBERED_MAX {
            self.turn(op_offset, now);
        }
    }

    /// Forget the older ones; what is recent lies below this op offset.
    fn turn(&mut self, op_offset: i64, now: Instant) {
        self.forgotten.half_end = self.forgotten.half_end.max(self.older_half_end);
        self.forgotten.op_end = self.older_end;
        self.ended.turn(now);
        self.older_half_end = std::mem::take(&mut self.recent_half_end);
        self.older_end = op_offset;
    }

    /// This one has, at this op offset if it is known, or was refused.
    pub fn landed(&mut self, ended: &Ended, err: c_int, offset: i64, now: Instant) {
        let Ended { key, number, half_offset } = *ended;
        self.landed = now;
        let Some(chain) = self.under_way.get_mut(key) else {
            return;
        };
        let Some(place) = chain.iter().position(|asked| asked.number == number) else {
            return;
        };
        let is_commit = chain[place].is_commit;
        let says_new = !chain[..place]
            .iter()
            .any(|asked| asked.is_commit == is_commit && asked.fate == Fate::Unknown);
        if err == 0 {
            chain[place].fate = Fate::Stored((offset >= 0).then_some(offset));
        } else if !SURELY_NOT_STORED.contains(&err) && says_new {
            chain[place].fate = Fate::Unknown;
        } else {
            chain.remove(place);
        }
        if may_count(chain).iter().any(|asked| !asked.is_commit && asked.fate != Fate::OnItsWay) {
            self.rolled_back.put(key.to_owned(), ());
        }
        if chain.iter().all(|asked| asked.fate != Fate::OnItsWay)
            && let Some((key, chain)) = self.under_way.remove_entry(key)
        {
            self.ended.put(key, may_count(&chain).to_vec());
            self.recent_half_end = self.recent_half_end.max(half_offset + 1);
        }
    }

    /// Or is being rolled back.
    pub fn was_rolled_back(&self, key: &str) -> bool {
        let asked = self.under_way.get(key);
        asked.is_some_and(|chain| may_count(chain).iter().any(|asked| !asked.is_commit))
            || self.rolled_back.has(key)
    }

    /// Roll-backs, a minute or two after.
    pub fn forget(&mut self, now: Instant) {
        self.rolled_back.forget(now);
    }
}

/// Of one decision, as `Decided` has it.
type Told = (u64, bool, Option<bool>, Option<i64>);
type After = (Option<Vec<Told>>, bool, (i64, i64));

/// For tests: what is remembered of the transaction T after each of these.
/// ("commit" or "rollback", 0, 0, 0); ("lands", which of them, Kafka's error, op offset);
/// ("stores", how far an owner here has read, seconds that have passed, op offset of something);
/// ("passes", 0, seconds, 0). And what is forgotten, of a transaction that lies at half offset 0.
#[pyfunction]
pub fn decisions_after(happened: Vec<(String, i64, i64, i64)>) -> Vec<After> {
    let mut now = Instant::now();
    let mut memory = Memory::new(now);
    let after = happened.into_iter().map(|(what, first, second, offset)| {
        match what.as_str() {
            "lands" => {
                let ended = Ended { key: "T", number: first as u64, half_offset: 0 };
                memory.landed(&ended, second as c_int, offset, now);
            }
            "stores" => {
                now += Duration::from_secs(second as u64);
                memory.stored(offset, first, now);
            }
            "passes" => now += Duration::from_secs(second as u64),
            _ => {
                memory.begin("T".to_owned(), what == "commit");
            }
        }
        let told = memory.decisions("T", now).map(|chain| {
            chain.iter().map(|it| (it.number, it.is_commit, it.is_stored, it.op_offset)).collect()
        });
        let Forgotten { half_end, op_end } = memory.forgotten;
        (told, memory.was_rolled_back("T"), (half_end, op_end))
    });
    after.collect()
}
