//! What connections of the data door send: one request of each at a time is carried out here, and
//! whatever has anything unusual about it ends the loan.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::carrier::{Carrier, lock};
use crate::connection_state::ConnectionState;
use crate::digest::{digest_of, trace_of};
use crate::events::Decided;
use crate::front::Rooms;
use crate::handle::Signer;
use crate::http::{self, Cut, Request};
use crate::http_names::Asked;
use crate::kafka::Producer;
use crate::lanes::{EndAsk, EndItem, HalfAsk, HalfItem, Waiting};
use crate::prepare;
use crate::read::plain_name;
use crate::sockets::Reader;
use crate::write;

/// Of what a lent socket has brought and nobody has carried out.
const HELD_MAX: usize = 65_536;
/// So long may a request be unfinished before the loop looks after it.
const LINGERING: Duration = Duration::from_secs(1);
/// Ids that are made at a time.
const IDS_AT_ONCE: usize = 16;

#[derive(Default)]
pub struct Incoming {
    held: Vec<u8>,
    held_since: Option<Instant>,
    needed: usize,
    /// What is held begins with it.
    pub asked: Option<Asked>,
    /// The only name that it may call this door.
    host: Vec<u8>,
}

impl Incoming {
    /// What it has begun with, so many bytes, is under way.
    pub fn carried_out(&mut self, size: usize) {
        self.held.drain(..size);
        self.held_since = None;
        self.needed = 0;
    }

    fn give_back(&mut self) -> (Vec<u8>, Option<Asked>) {
        self.held_since = None;
        self.needed = 0;
        (std::mem::take(&mut self.held), self.asked.take())
    }
}

/// What the record's header says of the message, and its digest in it.
struct Marker {
    text: String,
    digest: u64,
}

/// By group and topic; the names as they are shared.
type Allowed = HashMap<String, (Arc<str>, HashMap<String, Arc<str>>)>;

pub struct Known {
    pub connections: HashMap<u64, Incoming>,
    allowed: Allowed,
    partition_count: u32,
    /// Where a transaction goes that may go anywhere.
    preferred: u32,
    signer: Option<Arc<Signer>>,
    ids: Vec<String>,
}

pub struct Bounds {
    pub head_bytes: usize,
    pub message_bytes: usize,
}

pub struct HttpFront {
    pub carrier: Arc<Carrier>,
    pub known: Mutex<Known>,
    instance: String,
    bounds: Bounds,
}

/// What the bytes that are held begin with; the number says how many of them it is.
enum Found {
    Nothing,
    Half(Waiting, usize),
    Named(Asked),
    End(EndItem, i32, usize),
    Odd,
}

/// What the loop gets back with a socket.
pub struct Given {
    pub unsent: Vec<u8>,
    pub held: Vec<u8>,
    pub begun_count: u32,
    /// The answer to a request is still to come.
    pub is_busy: bool,
}

impl HttpFront {
    pub fn new(carrier: Arc<Carrier>, instance: String, bounds: Bounds) -> HttpFront {
        let known = Known {
            connections: HashMap::new(),
            allowed: HashMap::new(),
            partition_count: 0,
            preferred: 0,
            signer: None,
            ids: Vec::new(),
        };
        HttpFront { carrier, known: Mutex::new(known), instance, bounds }
    }

    /// So many half partitions; no key: nothing is carried out here.
    pub fn open(&self, partition_count: u32, preferred: u32, signer: Option<Signer>) {
        self.carrier.open(partition_count as usize);
        let mut known = lock(&self.known);
        known.partition_count = partition_count;
        known.preferred = preferred;
        if known.signer.as_deref() != signer.as_ref() {
            known.signer = signer.map(Arc::new);
        }
    }

    /// Halves of these groups for these topics are taken, and of no others.
    pub fn allow(&self, pairs: Vec<(String, String)>) {
        let mut allowed: Allowed = HashMap::new();
        for (group, topic) in pairs {
            if plain_name(group.as_bytes()).is_none() {
                continue; // op records have it inside JSON
            }
            let name: Arc<str> = group.as_str().into();
            let (_, topics) = allowed.entry(group).or_insert_with(|| (name, HashMap::new()));
            let shared: Arc<str> = topic.as_str().into();
            topics.insert(topic, shared);
        }
        lock(&self.known).allowed = allowed;
    }

    pub fn connect(&self, connection: u64, host: Vec<u8>) {
        let incoming = Incoming { host, ..Incoming::default() };
        lock(&self.known).connections.insert(connection, incoming);
        lock(&self.carrier.results)
            .connections
            .insert(connection, ConnectionState::new(String::new()));
    }

    pub fn disconnect(&self, connection: u64) {
        lock(&self.known).connections.remove(&connection);
        let mut results = lock(&self.carrier.results);
        if let Some(state) = results.connections.remove(&connection) {
            results.flight.end(state.under_way);
        }
    }

    /// After its socket is the loop's again.
    pub fn give_back(&self, connection: u64, mut unsent: Vec<u8>, mut begun_count: u32) -> Given {
        let (held, asked) = lock(&self.known)
            .connections
            .get_mut(&connection)
            .map_or_else(Default::default, Incoming::give_back);
        if let Some(asked) = asked {
            begun_count = begun_count.saturating_sub(1);
            self.forget_asked(connection, &asked);
        }
        let mut results = lock(&self.carrier.results);
        let is_busy = results.connections.get_mut(&connection).is_some_and(|state| {
            state.has_more = false;
            // An answer may have come since the socket was taken.
            unsent.append(&mut state.out);
            std::mem::take(&mut state.has_failed) | (state.under_way > 0)
        });
        Given { unsent, held, begun_count, is_busy }
    }

    /// The loop has stored the only message of this transaction, which came so long ago.
    pub fn opened(
        &self,
        (group, id): (&str, &str),
        half_offset: u64,
        age: Duration,
        immunity_s: Option<u32>,
    ) {
        let Some(began) = Instant::now().checked_sub(age) else {
            return;
        };
        let mut open = lock(&self.carrier.open_ones);
        open.expect((group, id), None, began, immunity_s);
        open.stored(group, id, half_offset);
    }

    /// An owner here reads decisions about these (group, transaction id).
    pub fn heard(&self, ids: &[(String, String)]) {
        let mut open = lock(&self.carrier.open_ones);
        for (group, id) in ids {
            open.close(group, id);
        }
    }

    /// An owner here has taken a half partition over.
    pub fn close_all(&self) {
        lock(&self.carrier.open_ones).close_all();
    }

    /// The decisions of the last moments. The loop asks before it does something with the
    /// transaction, so its end is the loop's from now on.
    pub fn decisions(&self, partition: usize, group: &str, id: &str) -> Option<Vec<Decided>> {
        let mut open = lock(&self.carrier.open_ones);
        open.close(group, id);
        self.carrier.decisions(partition, group, id)
    }

    /// Connections with a request that has been unfinished for a while.
    pub fn lingering(&self) -> Vec<u64> {
        let is_old =
            |one: &Incoming| one.held_since.is_some_and(|since| since.elapsed() > LINGERING);
        let known = lock(&self.known);
        let found = known.connections.iter().filter(|(_, incoming)| is_old(incoming));
        found.map(|(connection, _)| *connection).collect()
    }

    /// None: the loop is to take the connection back; else how many bytes are held.
    fn hold(&self, connection: u64, data: &[u8]) -> Option<usize> {
        let mut known = lock(&self.known);
        let incoming = known.connections.get_mut(&connection)?;
        incoming.held.extend_from_slice(data);
        Some(incoming.held.len())
    }

    /// False: there is no room for it.
    fn half_began(&self, connection: u64, waiting: Waiting, has_more: bool, room: usize) -> bool {
        let item = &waiting.item;
        if !self.carrier.flight.begin(room) {
            self.carrier.release(item.size_bytes);
            return false;
        }
        if let HalfAsk::Http { immunity_s, .. } = &item.ask {
            let mut open = lock(&self.carrier.open_ones);
            open.expect((&item.group, &item.transaction_id), None, item.began, *immunity_s);
        }
        self.began(connection, has_more);
        self.carrier.queue(vec![waiting], Vec::new());
        true
    }

    /// False: it is not for here, or there is no room for it.
    fn end_began(&self, item: EndItem, partition: i32, has_more: bool, room: usize) -> bool {
        let connection = item.connection;
        let mut open = lock(&self.carrier.open_ones);
        let (group, id) = &item.identity;
        if !open.take((group, id), partition, item.half_offset as u64, item.began)
            || !self.carrier.flight.begin(room)
        {
            return false;
        }
        self.began(connection, has_more);
        // While `open` is locked: whoever finds it closed finds the decision.
        self.carrier.queue(Vec::new(), vec![(partition, item)]);
        true
    }

    /// Before it can end; it is in flight already.
    pub fn began(&self, connection: u64, has_more: bool) {
        let mut results = lock(&self.carrier.results);
        if let Some(state) = results.tell(connection) {
            state.begun += 1;
            state.under_way += 1;
            state.has_more = has_more;
        } else {
            results.flight.end(1); // nobody will count it off
        }
    }

    fn find(&self, connection: u64, producer: &Producer) -> Found {
        let now = Instant::now();
        let mut guard = lock(&self.known);
        let Known { connections, allowed, partition_count, preferred, signer, ids } = &mut *guard;
        let Some(incoming) = connections.get_mut(&connection) else {
            return Found::Odd;
        };
        if incoming.held.is_empty() {
            return Found::Nothing;
        }
        let (0, Some(signer)) = (u32::from(*partition_count == 0), signer.as_ref()) else {
            return Found::Odd;
        };
        if incoming.held.len() < incoming.needed {
            return Found::Nothing;
        }
        let (request, size) = match http::cut(&incoming.held, self.bounds.head_bytes) {
            Cut::Odd => return Found::Odd,
            Cut::Partial(needed) => {
                incoming.needed = needed;
                incoming.held_since.get_or_insert(now);
                return if needed > HELD_MAX { Found::Odd } else { Found::Nothing };
            }
            Cut::Whole(request, size) => (request, size),
        };
        let prepare; // holds what its half borrows
        let half = match request {
            Request::Half(half) => Some(half),
            Request::Prepare(body) => {
                prepare = prepare::read(body.content);
                prepare.as_ref().and_then(|read| read.half(body.host))
            }
            Request::End(end) => {
                let item = (end.host == incoming.host)
                    .then(|| end_item(connection, &end, signer, *partition_count, now))
                    .flatten();
                return match item {
                    Some((item, partition)) => Found::End(item, partition, size),
                    None => Found::Odd,
                };
            }
        };
        let Some(half) = half.filter(|half| half.host == incoming.host) else {
            return Found::Odd;
        };
        let places = (*partition_count, *preferred, signer);
        let Some((item, marker)) = self.half(connection, &half, allowed, places, ids, now) else {
            return Found::Odd;
        };
        let waiting = waiting(item, &marker.text, &half, producer);
        match half.name {
            None => Found::Half(waiting, size),
            Some(_) => Found::Named(Asked { waiting, digest: marker.digest, size }),
        }
    }

    fn half(
        &self,
        connection: u64,
        half: &http::Half<'_>,
        allowed: &Allowed,
        (partition_count, preferred, signer): (u32, u32, &Arc<Signer>),
        ids: &mut Vec<String>,
        now: Instant,
    ) -> Option<(HalfItem, Marker)> {
        let (group, topics) = allowed.get(half.group)?;
        let topic = topics.get(half.topic)?;
        let size_bytes = half.size_bytes();
        if size_bytes > self.bounds.message_bytes {
            return None;
        }
        let by_content = half.key.or(half.name.map(str::as_bytes));
        let partition = by_content.map_or(preferred, |it| crc32fast::hash(it) % partition_count);
        let transaction_id = half.name.map_or_else(|| new_id(ids), |name| Some(name.to_owned()))?;
        if partition >= partition_count || !self.carrier.reserve(size_bytes) {
            return None;
        }
        let digest = digest_of(topic.as_bytes(), half.key, half.value, &half.headers);
        let born = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let text = write::marker(born.as_millis(), &self.instance, digest);
        let item = HalfItem {
            ask: HalfAsk::Http {
                topic: topic.clone(),
                immunity_s: half.immunity_s,
                signer: signer.clone(),
                is_named: half.name.is_some(),
                is_json: half.is_json,
            },
            connection,
            partition: partition as i32,
            group: group.clone(),
            transaction_id,
            size_bytes,
            began: now,
            trace: trace_of(&half.headers),
        };
        Some((item, Marker { text, digest }))
    }
}

impl Reader for HttpFront {
    fn carrier(&self) -> &Arc<Carrier> {
        &self.carrier
    }

    fn arrived(&self, connection: u64, data: &[u8], rooms: Rooms) -> bool {
        let Some(held) = self.hold(connection, data) else {
            return false;
        };
        let Some(producer) = self.carrier.taking() else {
            return false;
        };
        {
            let mut results = lock(&self.carrier.results);
            let is_full = self.carrier.flight.is_full(rooms.all);
            let Some(state) = results.connections.get_mut(&connection) else {
                return false;
            };
            if state.is_stalled() || state.has_failed {
                return false;
            }
            if state.under_way > 0 {
                state.has_more = held > 0;
                return held <= HELD_MAX;
            }
            if is_full && held > 0 {
                return false;
            }
        }
        let size = match self.find(connection, &producer) {
            Found::Odd => return false,
            Found::Nothing => return held <= HELD_MAX,
            Found::Half(waiting, size) => {
                if !self.half_began(connection, waiting, held > size, rooms.all) {
                    return false;
                }
                size
            }
            Found::Named(asked) => {
                return self.ask(connection, asked, held, rooms.all) && held <= HELD_MAX;
            }
            Found::End(item, partition, size) => {
                if !self.end_began(item, partition, held > size, rooms.all) {
                    return false;
                }
                size
            }
        };
        if let Some(incoming) = lock(&self.known).connections.get_mut(&connection) {
            incoming.carried_out(size);
        }
        self.carrier.go_on(&producer);
        held - size <= HELD_MAX
    }
}

/// A record with the headers that `wire/half.py` gives it.
fn waiting(item: HalfItem, marker: &str, half: &http::Half<'_>, producer: &Producer) -> Waiting {
    let immunity = half.immunity_s.map(|seconds| seconds.to_string());
    let headers = half_headers(&item.transaction_id, marker, half, immunity.as_deref());
    let count = headers.len();
    let headers = producer.headers(headers, count);
    let key = half.key.map(<[u8]>::to_vec);
    Waiting { item: Box::new(item), key, value: half.value.to_vec(), headers }
}

pub fn half_headers<'a>(
    transaction_id: &'a str,
    marker: &'a str,
    half: &http::Half<'a>,
    immunity: Option<&'a str>,
) -> Vec<(&'a [u8], &'a [u8])> {
    let mut headers: Vec<(&[u8], &[u8])> = Vec::with_capacity(6 + half.headers.len());
    headers.extend_from_slice(&[
        (b"HALFHITCH", marker.as_bytes()),
        (b"UNIQ_KEY", transaction_id.as_bytes()),
        (b"PGROUP", half.group.as_bytes()),
        (b"REAL_TOPIC", half.topic.as_bytes()),
        (b"TRAN_MSG", b"true"),
    ]);
    if let Some(seconds) = immunity {
        headers.push((b"CHECK_IMMUNITY_TIME_IN_SECONDS", seconds.as_bytes()));
    }
    headers.extend_from_slice(&half.headers);
    headers
}

fn end_item(
    connection: u64,
    end: &http::End<'_>,
    signer: &Signer,
    partition_count: u32,
    now: Instant,
) -> Option<(EndItem, i32)> {
    let read = signer.decode(end.handle)?;
    let place = read.place()?;
    let group = plain_name(place.group.as_bytes())?;
    let transaction_id = plain_name(place.transaction_id.as_bytes())?;
    if u32::from(place.partition) >= partition_count
        || end.group.is_some_and(|named| named != group.as_bytes())
    {
        return None;
    }
    let item = EndItem {
        ask: EndAsk::Http,
        connection,
        identity: (group.into(), transaction_id.to_owned()),
        half_offset: i64::try_from(place.half_offset).ok()?,
        is_commit: end.is_commit,
        is_first: false,
        number: 0,
        began: now,
    };
    Some((item, place.partition.into()))
}

/// 128 random bits as 32 hexadecimal digits.
fn new_id(ids: &mut Vec<String>) -> Option<String> {
    if ids.is_empty() {
        let mut bits = [0u8; 16 * IDS_AT_ONCE];
        if unsafe { libc::getentropy(bits.as_mut_ptr().cast(), bits.len()) } != 0 {
            return None;
        }
        let hex = |piece: &[u8]| piece.iter().map(|byte| format!("{byte:02x}")).collect();
        ids.extend(bits.chunks(16).map(hex));
    }
    ids.pop()
}
