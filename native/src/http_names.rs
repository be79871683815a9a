//! Halves under names of their callers. The ledger may know more of a name, from before a restart or
//! from another instance, so the loop is asked before anything is stored. One of which nothing is
//! known stands for this message from then on, and is stored here; all others go the loop's way.

use crate::carrier::lock;
use crate::http_front::HttpFront;
use crate::lanes::{HalfAsk, HalfItem, Waiting};

/// Connection, half partition, group, name, digest.
pub type Name = (u64, i32, String, String, u64);

/// A half that waits for the loop's word. Its bytes are held as long.
pub struct Asked {
    pub waiting: Waiting,
    pub digest: u64,
    /// Of the request.
    pub size: usize,
}

impl HttpFront {
    /// `held`: so many bytes of this connection. False: it is not for here, or there is no room.
    pub fn ask(&self, connection: u64, asked: Asked, held: usize, room: usize) -> bool {
        let has_more = held > asked.size;
        if !self.expects(&asked.waiting.item, room) {
            self.carrier.release(asked.waiting.item.size_bytes);
            return false;
        }
        self.began(connection, has_more);
        if let Some(incoming) = lock(&self.known).connections.get_mut(&connection) {
            incoming.asked = Some(asked);
        }
        lock(&self.carrier.results).asking.push(connection);
        self.carrier.signal();
        true
    }

    /// Before the loop is asked: what an owner here hears of from now on closes it.
    fn expects(&self, item: &HalfItem, room: usize) -> bool {
        let HalfAsk::Http { immunity_s, .. } = &item.ask else {
            return false;
        };
        let (group, id) = (&item.group, &item.transaction_id);
        let mut open = lock(&self.carrier.open_ones);
        // A decision that was made here, and that its owner has perhaps not read.
        if self.carrier.decisions(item.partition as usize, group, id).is_some()
            || !self.carrier.flight.begin(room)
        {
            return false;
        }
        open.expect((group, id), Some(item.partition), item.began, *immunity_s);
        true
    }

    /// What the loop is to look at.
    pub fn asked(&self) -> Vec<Name> {
        let asking = std::mem::take(&mut lock(&self.carrier.results).asking);
        if asking.is_empty() {
            return Vec::new();
        }
        let known = lock(&self.known);
        let of = |connection: u64| {
            let asked = known.connections.get(&connection)?.asked.as_ref()?;
            let item = &asked.waiting.item;
            let (group, name) = (item.group.to_string(), item.transaction_id.clone());
            Some((connection, item.partition, group, name, asked.digest))
        };
        asking.into_iter().filter_map(of).collect()
    }

    /// The loop knows nothing of these, and has noted that they stand for their messages.
    pub fn store(&self, connections: &[u64]) {
        let mut halves = Vec::with_capacity(connections.len());
        {
            let mut known = lock(&self.known);
            for connection in connections {
                let Some(incoming) = known.connections.get_mut(connection) else {
                    continue;
                };
                if let Some(asked) = incoming.asked.take() {
                    incoming.carried_out(asked.size);
                    halves.push(asked.waiting);
                }
            }
        }
        self.carrier.queue(halves, Vec::new());
        // Without a producer it ends with all that waits.
        if let Some(producer) = self.carrier.taking() {
            self.carrier.go_on(&producer);
        }
    }

    /// It goes the loop's way.
    pub fn forget_asked(&self, connection: u64, asked: &Asked) {
        let item = &asked.waiting.item;
        self.carrier.release(item.size_bytes);
        lock(&self.carrier.open_ones).close(&item.group, &item.transaction_id);
        let mut results = lock(&self.carrier.results);
        if let Some(state) = results.landed(connection) {
            state.begun = state.begun.saturating_sub(1);
        }
    }
}
