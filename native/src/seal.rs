//! The number that proves where a half lies and whose it is, as `wire/seal.py` has it.

use blake2b_simd::Params;

const SEAL_BYTES: usize = 7;

#[derive(Default)]
pub struct Seals {
    keys: Vec<Vec<u8>>,
}

impl Seals {
    /// Keys of 1 to 64 bytes; others would be no keys, and are left out.
    pub fn new(keys: Vec<Vec<u8>>) -> Seals {
        Seals { keys: keys.into_iter().filter(|key| (1..=64).contains(&key.len())).collect() }
    }

    pub fn are_known(&self) -> bool {
        !self.keys.is_empty()
    }

    pub fn is_of(&self, keys: &[Vec<u8>]) -> bool {
        self.keys == keys
    }

    /// Of a half whose offset is not negative; None without a key.
    pub fn make(&self, partition: i32, half_offset: i64, group: &str, id: &str) -> Option<i64> {
        Some(seal(self.keys.first()?, partition, half_offset, group, id))
    }

    pub fn fits(
        &self,
        found: i64,
        partition: i32,
        half_offset: i64,
        group: &str,
        id: &str,
    ) -> bool {
        let seals = self.keys.iter().map(|key| seal(key, partition, half_offset, group, id));
        // All keys, whichever fits: how long it takes says nothing.
        seals.fold(false, |fits, made| fits | (made ^ found == 0))
    }
}

fn seal(key: &[u8], partition: i32, half_offset: i64, group: &str, id: &str) -> i64 {
    let mut state = Params::new().key(key).hash_length(SEAL_BYTES).to_state();
    state
        .update(&partition.to_be_bytes())
        .update(&half_offset.to_be_bytes())
        .update(&(group.len() as u32).to_be_bytes())
        .update(group.as_bytes())
        .update(id.as_bytes());
    let mut number = [0; 8];
    number[8 - SEAL_BYTES..].copy_from_slice(state.finalize().as_bytes());
    i64::from_be_bytes(number)
}
