//! What connections send: whole requests that are carried out here, and what is given back.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::carrier::{Carrier, lock};
use crate::connection_state::ConnectionState;
use crate::digest::{digest_of, trace_of};
use crate::events::Decided;
use crate::frame::{self, Cut};
use crate::kafka::Producer;
use crate::lanes::{EndAsk, EndItem, HalfAsk, HalfItem, Waiting, memory_key};
use crate::lately::{Lately, RECENT};
use crate::looked::Looked;
use crate::seal::Seals;
use crate::sockets::Reader;
use crate::taken::Taken;
use crate::{read, write};

/// Rolled back through here, or as an owner has read, and perhaps prepared again: the loop asks the
/// ledger.
const ROLLED_BACK_MAX: usize = 100_000;
/// Of a frame that came over a lent socket; larger ones are the loop's to wait for.
const LENT_HELD_MAX: usize = 65_536;
/// Of what such a socket brought and the loop has not read yet.
const UNREAD_MAX: usize = 262_144;
/// So long may a frame be unfinished before the loop looks after it.
const LINGERING: Duration = Duration::from_secs(1);

pub struct Topic {
    pub kafka_topic: String,
    pub partition_count: i32,
}

struct Group {
    name: Arc<str>,
    topics: HashMap<Vec<u8>, Topic>,
}

#[derive(Default)]
struct Incoming {
    held: Vec<u8>,
    held_since: Option<Instant>,
    needed: usize,
    is_broken: bool,
    groups: HashMap<Vec<u8>, Group>,
}

struct Known {
    connections: HashMap<u64, Incoming>,
    partition_count: u32,
    seals: Arc<Seals>,
    rolled_back: Lately<String, ()>,
    taken: Taken,
}

/// What one call of `read` has found.
struct Found<'a> {
    halves: Vec<Waiting>,
    ends: Vec<(i32, EndItem)>,
    rest: Vec<u8>,
    taken: usize,
    is_broken: bool,
    producer: &'a Arc<Producer>,
    now: Instant,
    born_ms: u128,
}

fn take_held(incoming: &mut Incoming) -> Vec<u8> {
    incoming.held_since = None;
    std::mem::take(&mut incoming.held)
}

pub struct Bounds {
    pub frame_bytes: usize,
    pub body_bytes: usize,
    pub message_bytes: usize,
}

/// Requests in flight: of a connection, and of all.
#[derive(Clone, Copy)]
pub struct Rooms {
    pub connection: usize,
    pub all: usize,
}

pub struct Front {
    pub carrier: Arc<Carrier>,
    known: Mutex<Known>,
    looked: Mutex<Looked>,
    instance: String,
    bounds: Bounds,
}

/// What `feed` gives: what is the loop's, how many are carried out here, bytes that wait for more.
pub type Fed = (Vec<u8>, usize, usize);

impl Front {
    pub fn new(carrier: Arc<Carrier>, instance: String, bounds: Bounds) -> Front {
        let known = Known {
            connections: HashMap::new(),
            partition_count: 0,
            seals: Arc::default(),
            rolled_back: Lately::new(Instant::now(), RECENT, ROLLED_BACK_MAX),
            taken: Taken::new(Instant::now()),
        };
        let looked = Mutex::new(Looked::new(Instant::now()));
        Front { carrier, known: Mutex::new(known), looked, instance, bounds }
    }

    pub fn open(&self, partition_count: u32, seal_keys: Vec<Vec<u8>>) {
        self.carrier.open(partition_count as usize);
        let mut known = lock(&self.known);
        known.partition_count = partition_count;
        if !known.seals.is_of(&seal_keys) {
            known.seals = Arc::new(Seals::new(seal_keys));
        }
    }

    pub fn connect(&self, connection: u64, id_prefix: String) {
        lock(&self.known).connections.insert(connection, Incoming::default());
        lock(&self.carrier.results).connections.insert(connection, ConnectionState::new(id_prefix));
    }

    pub fn disconnect(&self, connection: u64) {
        lock(&self.known).connections.remove(&connection);
        let mut results = lock(&self.carrier.results);
        if let Some(state) = results.connections.remove(&connection) {
            results.flight.end(state.under_way);
        }
    }

    pub fn allow(&self, connection: u64, names: [&str; 3], topic: Topic) {
        let [group, topic_name, group_name] = names;
        if read::plain_name(group_name.as_bytes()).is_none() {
            return; // op records have it inside JSON
        }
        if let Some(incoming) = lock(&self.known).connections.get_mut(&connection) {
            let found = incoming
                .groups
                .entry(group.as_bytes().to_vec())
                .or_insert_with(|| Group { name: group_name.into(), topics: HashMap::new() });
            found.topics.insert(topic_name.as_bytes().to_vec(), topic);
        }
    }

    pub fn forget(&self) {
        for incoming in lock(&self.known).connections.values_mut() {
            incoming.groups.clear();
        }
    }

    /// False: another message was taken under this id.
    pub fn claim(&self, group: &str, transaction_id: &str, digest: u64) -> bool {
        lock(&self.known).taken.claim(group, transaction_id, digest, Instant::now())
    }

    /// Owners here have read that these (group, transaction id) were rolled back.
    pub fn rolled_back(&self, ids: &[(String, String)]) {
        let mut known = lock(&self.known);
        known.rolled_back.forget(Instant::now());
        ids.iter().for_each(|(group, id)| known.rolled_back.put(memory_key(group, id), ()));
    }

    /// Connections with a frame that has been unfinished for a while.
    pub fn lingering(&self) -> Vec<u64> {
        let is_old = |incoming: &Incoming| {
            incoming.held_since.is_some_and(|since| since.elapsed() > LINGERING)
        };
        let known = lock(&self.known);
        let found = known.connections.iter().filter(|(_, incoming)| is_old(incoming));
        found.map(|(connection, _)| *connection).collect()
    }

    /// Bytes of an unfinished frame.
    pub fn held(&self, connection: u64) -> usize {
        lock(&self.known).connections.get(&connection).map_or(0, |incoming| incoming.held.len())
    }

    pub fn feed(&self, connection: u64, data: &[u8], room: usize) -> Fed {
        let Some(producer) = self.carrier.taking() else {
            return (self.give_back(connection, data), 0, 0);
        };
        let mut looked = None;
        let (found, held) = self.read(connection, data, room, &producer, &mut looked);
        if found.taken > 0 {
            self.carrier.queue(found.halves, found.ends);
            drop(looked);
            self.carrier.go_on(&producer);
        }
        (found.rest, found.taken, held)
    }

    fn came(&self, connection: u64, data: &[u8], rooms: Rooms) -> bool {
        let Some(producer) = self.carrier.taking() else {
            let rest = self.give_back(connection, data);
            lock(&self.carrier.results).unread.push((connection, rest));
            return false;
        };
        let room = {
            let results = lock(&self.carrier.results);
            let own = results.connections.get(&connection).map_or(0, |state| state.under_way);
            let all = rooms.all.saturating_sub(results.flight.native_count());
            all.min(rooms.connection.saturating_sub(own))
        };
        let mut looked = None;
        let (found, held) = self.read(connection, data, room, &producer, &mut looked);
        let has_unread = !found.rest.is_empty();
        // Else it would be read faster than the loop can follow.
        let mut is_full = found.is_broken || (has_unread && found.taken == room);
        {
            // Before they can end: the loop counts them up first.
            let mut results = lock(&self.carrier.results);
            if let Some(state) = results.tell(connection) {
                state.begun += found.taken as u32;
                state.under_way += found.taken;
                state.unread_bytes += found.rest.len();
                is_full |= state.unread_bytes > UNREAD_MAX;
                results.flight.add(found.taken);
            }
            if has_unread {
                results.unread.push((connection, found.rest));
            }
        }
        if found.taken > 0 {
            self.carrier.queue(found.halves, found.ends);
            drop(looked);
            self.carrier.go_on(&producer);
        } else {
            drop(looked);
        }
        if has_unread {
            self.carrier.wake();
        }
        !is_full && held <= LENT_HELD_MAX
    }

    /// The decisions of the last moments. The loop asks before it does something with the
    /// transaction, so its ends are the loop's from now on.
    pub fn decisions(&self, partition: usize, group: &str, id: &str) -> Option<Vec<Decided>> {
        lock(&self.looked).add(group, id, Instant::now());
        self.carrier.decisions(partition, group, id)
    }

    /// What began here ends there.
    fn give_back(&self, connection: u64, data: &[u8]) -> Vec<u8> {
        let mut known = lock(&self.known);
        let mut rest = known.connections.get_mut(&connection).map_or_else(Vec::new, take_held);
        rest.extend_from_slice(data);
        rest
    }

    /// `looked` is locked with the first end, and until the ends are in their lanes.
    fn read<'a>(
        &'a self,
        connection: u64,
        data: &[u8],
        room: usize,
        producer: &'a Arc<Producer>,
        looked: &mut Option<MutexGuard<'a, Looked>>,
    ) -> (Found<'a>, usize) {
        let born = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut found = Found {
            halves: Vec::new(),
            ends: Vec::new(),
            rest: Vec::new(),
            taken: 0,
            is_broken: false,
            producer,
            now: Instant::now(),
            born_ms: born.as_millis(),
        };
        let mut guard = lock(&self.known);
        let known = &mut *guard;
        known.rolled_back.forget(found.now);
        let Known { connections, partition_count, seals, rolled_back, taken, .. } = known;
        let Some(incoming) = connections.get_mut(&connection).filter(|one| !one.is_broken) else {
            found.rest.extend_from_slice(data);
            found.is_broken = true;
            return (found, 0);
        };
        let held = if incoming.held.is_empty() {
            Vec::new()
        } else {
            incoming.held.extend_from_slice(data);
            if incoming.held.len() < incoming.needed {
                return (found, incoming.held.len());
            }
            take_held(incoming)
        };
        let mut left = if held.is_empty() { data } else { &held[..] };
        while !left.is_empty() {
            match frame::cut(left, self.bounds.frame_bytes) {
                Cut::Whole(size) => {
                    let (whole, after) = left.split_at(size);
                    let is_taken = found.taken < room && {
                        let read = frame::read(whole);
                        read.is_some_and(|frame| match frame.code {
                            read::SEND_V2 => {
                                let known = (&*incoming, &*rolled_back, *partition_count, &*seals);
                                self.half(connection, &frame, known, taken, &mut found).is_some()
                            }
                            read::END => {
                                let known =
                                    (&*incoming, &mut *rolled_back, *partition_count, &**seals);
                                let looked = looked.get_or_insert_with(|| lock(&self.looked));
                                end(connection, &frame, known, looked, &mut found).is_some()
                            }
                            _ => false,
                        })
                    };
                    if is_taken {
                        found.taken += 1;
                    } else {
                        found.rest.extend_from_slice(whole);
                    }
                    left = after;
                }
                Cut::Partial(needed) => {
                    incoming.needed = needed;
                    incoming.held = left.to_vec();
                    incoming.held_since = Some(found.now);
                    break;
                }
                Cut::Broken => {
                    found.rest.extend_from_slice(left);
                    incoming.is_broken = true;
                    found.is_broken = true;
                    break;
                }
            }
        }
        (found, incoming.held.len())
    }

    fn half(
        &self,
        connection: u64,
        frame: &frame::Frame<'_>,
        (incoming, rolled_back, partition_count, seals): (
            &Incoming,
            &Lately<String, ()>,
            u32,
            &Arc<Seals>,
        ),
        taken: &mut Taken,
        found: &mut Found<'_>,
    ) -> Option<()> {
        let send = read::send(frame)?;
        let group = incoming.groups.get(send.group)?;
        let topic = group.topics.get(send.topic)?;
        if partition_count == 0
            || !seals.are_known()
            || !(0..topic.partition_count).contains(&send.queue_id)
            || send.transaction_id.len() >= 128
        {
            return None;
        }
        if !rolled_back.is_empty() && rolled_back.has(&memory_key(&group.name, send.transaction_id))
        {
            return None;
        }
        if taken.is_known(&group.name, send.transaction_id, found.now) {
            return None; // of a repeat the loop may know more
        }
        // What is compressed costs something: after everything that might send it to the loop.
        let body = send.body(frame.body, self.bounds.body_bytes)?;
        let size_bytes = send.size_bytes + body.len();
        if size_bytes > self.bounds.message_bytes || !self.carrier.reserve(size_bytes) {
            return None;
        }
        let partition = write::partition(send.transaction_id, partition_count);
        let digest = digest_of(topic.kafka_topic.as_bytes(), send.keys, &body, &send.headers);
        taken.claim(&group.name, send.transaction_id, digest, found.now);
        let marker = write::marker(found.born_ms, &self.instance, digest);
        let queue = send.queue_id.to_string();
        let headers = write::half_headers(&send, &marker, &group.name, &topic.kafka_topic, &queue);
        let count = headers.len();
        let headers = found.producer.headers(headers, count);
        found.halves.push(Waiting {
            item: Box::new(HalfItem {
                ask: HalfAsk::Remoting {
                    form: frame.form,
                    opaque: frame.opaque,
                    queue_id: send.queue_id,
                    seals: seals.clone(),
                },
                connection,
                partition: partition as i32,
                group: group.name.clone(),
                transaction_id: send.transaction_id.to_owned(),
                size_bytes,
                began: found.now,
                trace: trace_of(&send.headers),
            }),
            key: send.keys.map(<[u8]>::to_vec),
            value: body.into_owned(),
            headers,
        });
        Some(())
    }
}

impl Reader for Front {
    fn carrier(&self) -> &Arc<Carrier> {
        &self.carrier
    }

    fn arrived(&self, connection: u64, data: &[u8], rooms: Rooms) -> bool {
        self.came(connection, data, rooms)
    }
}

fn end(
    connection: u64,
    frame: &frame::Frame<'_>,
    (incoming, rolled_back, partition_count, seals): (
        &Incoming,
        &mut Lately<String, ()>,
        u32,
        &Seals,
    ),
    looked: &Looked,
    found: &mut Found<'_>,
) -> Option<()> {
    let end = read::end(frame)?;
    let group = incoming.groups.get(end.group)?;
    let id = end.transaction_id;
    if end.partition as u32 >= partition_count
        || !seals.fits(end.seal, end.partition, end.half_offset, &group.name, id)
    {
        return None; // that door says who made it up
    }
    if !end.is_commit {
        rolled_back.put(memory_key(&group.name, id), ());
    }
    if looked.has(&group.name, id, found.now) {
        return None; // behind the line above: its half may come again
    }
    let item = EndItem {
        ask: EndAsk::Remoting { form: frame.form, opaque: frame.opaque },
        connection,
        identity: (group.name.clone(), id.to_owned()),
        half_offset: end.half_offset,
        is_commit: end.is_commit,
        is_first: false,
        number: 0,
        began: found.now,
    };
    found.ends.push((end.partition, item));
    Some(())
}
