//! Requests in flight, those of the loop and those of native threads, under one bound over HTTP.
//! RocketMQ's loop counts native ones in, but does not tell its own: as many again may be native.

use std::sync::atomic::{AtomicU64, Ordering};

/// In one word, so that neither side begins what the other has just taken the room for: those of
/// native threads in its lower half, those of the loop in its upper one.
#[derive(Default)]
pub struct Flight(AtomicU64);

const LOOP_SHIFT: u32 = 32;
const NATIVE: u64 = u32::MAX as u64;

fn parts(word: u64) -> (usize, usize) {
    ((word & NATIVE) as usize, (word >> LOOP_SHIFT) as usize)
}

fn word(native: usize, of_loop: usize) -> u64 {
    (of_loop as u64) << LOOP_SHIFT | native as u64
}

impl Flight {
    fn update(&self, next: impl Fn(usize, usize) -> Option<(usize, usize)>) -> bool {
        let changed = |before: u64| {
            let (native, of_loop) = parts(before);
            next(native, of_loop).map(|(native, of_loop)| word(native, of_loop))
        };
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, changed).is_ok()
    }

    /// Of native threads.
    pub fn native_count(&self) -> usize {
        parts(self.0.load(Ordering::Acquire)).0
    }

    pub fn is_full(&self, max: usize) -> bool {
        let (native, of_loop) = parts(self.0.load(Ordering::Acquire));
        native + of_loop >= max
    }

    /// One more of native threads; false: there is no room.
    pub fn begin(&self, max: usize) -> bool {
        self.update(|native, of_loop| (native + of_loop < max).then_some((native + 1, of_loop)))
    }

    /// So many more, whether there is room or not.
    pub fn add(&self, count: usize) {
        self.update(|native, of_loop| Some((native + count, of_loop)));
    }

    pub fn end(&self, count: usize) {
        self.update(|native, of_loop| Some((native.saturating_sub(count), of_loop)));
    }

    /// The loop has so many, and is about to begin one more; false: there is no room.
    pub fn admit(&self, count: usize, max: usize) -> bool {
        self.update(|native, _| (native + count < max).then_some((native, count + 1)))
    }

    /// The loop has so many.
    pub fn tell(&self, count: usize) {
        self.update(|native, _| Some((native, count)));
    }
}
