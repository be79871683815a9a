//! Which messages stand under which ids: what was taken here or by the loop a moment ago.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use blake2b_simd::Params;

/// As in `service/transactions/taken.py`, which see.
const RECENT: Duration = Duration::from_secs(60);
const COUNT_MAX: usize = 200_000;

/// Digests by 128 bits of group and id. What was taken is kept one to two minutes.
pub struct Taken {
    recent: HashMap<[u8; 16], u64>,
    older: HashMap<[u8; 16], u64>,
    renewed: Instant,
}

impl Taken {
    pub fn new(now: Instant) -> Taken {
        Taken { recent: HashMap::new(), older: HashMap::new(), renewed: now }
    }

    /// The message is about to be stored; false: another stands under this id.
    pub fn claim(&mut self, group: &str, transaction_id: &str, digest: u64, now: Instant) -> bool {
        self.forget(now);
        let key = key(group, transaction_id);
        match self.recent.get(&key).or_else(|| self.older.get(&key)) {
            Some(known) => *known == digest,
            None => {
                self.recent.insert(key, digest);
                true
            }
        }
    }

    /// Whether any stands under this id.
    pub fn is_known(&mut self, group: &str, transaction_id: &str, now: Instant) -> bool {
        self.forget(now);
        let key = key(group, transaction_id);
        self.recent.contains_key(&key) || self.older.contains_key(&key)
    }

    fn forget(&mut self, now: Instant) {
        let passed = now.duration_since(self.renewed);
        if passed > RECENT || self.recent.len() >= COUNT_MAX {
            self.older = std::mem::take(&mut self.recent);
            if passed > 2 * RECENT {
                self.older.clear();
            }
            self.renewed = now;
        }
    }
}

fn key(group: &str, transaction_id: &str) -> [u8; 16] {
    let mut state = Params::new().hash_length(16).to_state();
    state.update(group.as_bytes()).update(&[0]).update(transaction_id.as_bytes());
    let mut key = [0; 16];
    key.copy_from_slice(state.finalize().as_bytes());
    key
}
