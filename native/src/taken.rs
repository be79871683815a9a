//! Which messages stand under which ids: what was taken here or by the loop a moment ago.

use std::time::Instant;

use blake2b_simd::Params;

use crate::lately::{Lately, RECENT};

/// As in `service/transactions/taken.py`, which see.
const COUNT_MAX: usize = 200_000;

/// Digests by 128 bits of group and id. What was taken is kept one to two minutes.
pub struct Taken(Lately<[u8; 16], u64>);

impl Taken {
    pub fn new(now: Instant) -> Taken {
        Taken(Lately::new(now, RECENT, COUNT_MAX))
    }

    /// The message is about to be stored; false: another stands under this id.
    pub fn claim(&mut self, group: &str, transaction_id: &str, digest: u64, now: Instant) -> bool {
        self.0.forget(now);
        let key = key(group, transaction_id);
        match self.0.get(&key) {
            Some(known) => *known == digest,
            None => {
                self.0.put(key, digest);
                true
            }
        }
    }

    /// Whether any stands under this id.
    pub fn is_known(&mut self, group: &str, transaction_id: &str, now: Instant) -> bool {
        self.0.forget(now);
        self.0.has(&key(group, transaction_id))
    }
}

fn key(group: &str, transaction_id: &str) -> [u8; 16] {
    let mut state = Params::new().hash_length(16).to_state();
    state.update(group.as_bytes()).update(&[0]).update(transaction_id.as_bytes());
    let mut key = [0; 16];
    key.copy_from_slice(state.finalize().as_bytes());
    key
}
