//! Appends on their way and back: two threads, one that polls librdkafka and one that gathers.
//!
//! A thread holds one of the locks `producer`, `lanes`, `results` and the front's `known` at a
//! time. The one exception is the gathering thread as it stops: it looks for the producer while it
//! holds `lanes`, and nobody takes these two the other way round. `open_ones` comes before `results`
//! and `lanes`, and nobody who holds one of these takes it. None of the five is held while
//! records are handed to librdkafka, polled, flushed or purged, for its callbacks take `lanes` and
//! `results`. Under `known` librdkafka makes the headers of a record, which waits for nothing and
//! calls nobody.
//!
//! A lent socket's own lock comes before all of these, and is held until what the socket brought is
//! carried out: its records are handed to librdkafka under it. No callback takes such a lock. Of
//! the RocketMQ door `looked` comes after `known` and before `results` and `lanes`; it is held until
//! the ends that were read are in their lanes.

use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use polling::Poller;

use crate::connection_state::{ConnectionState, Flushed};
use crate::events::{Counts, Decided, Failed, HttpFailed, Line, Told};
use crate::flight::Flight;
use crate::frame::Form;
use crate::half_lane::HalfLane;
use crate::handle::Place;
use crate::kafka::{ERR_FATAL, ERR_PURGED, ERR_UNKNOWN, HALF, Listener, OP, Opaque, Producer};
use crate::lanes::{
    EndAsk, EndBatch, EndItem, EndLane, HalfAsk, HalfItem, Lanes, Waiting, memory_key,
};
use crate::memory::Forgotten;
use crate::open::OpenOnes;
use crate::read;
use crate::write::{self, ReplyStart};

const POLL_MS: c_int = 100;
const LINES_MAX: usize = 100;
/// So late may the loop hear of what was answered without it.
const QUIET: Duration = Duration::from_millis(20);
/// Prepares with a trace that the loop is told of at once: one for each bucket of a histogram.
const TRACED_MAX: usize = 16;

enum Pending {
    Half(Box<HalfItem>),
    Ends(Box<EndBatch>),
}

#[derive(Default)]
pub struct Results {
    pub connections: HashMap<u64, ConnectionState>,
    /// Those with something to be told.
    pub ready: Vec<u64>,
    /// What came over lent sockets and is the loop's.
    pub unread: Vec<(u64, Vec<u8>)>,
    /// Lent sockets that the loop should take back.
    pub due: Vec<u64>,
    /// Since when only counts wait to be told.
    quiet: Option<Instant>,
    /// Requests of connections whose sockets are lent, and what the loop tells of its own.
    pub flight: Arc<Flight>,
    pub failures: Vec<Failed>,
    pub http_failures: Vec<HttpFailed>,
    /// Transactions of the data door: stored, and ended.
    pub prepared_ids: Vec<String>,
    pub ended_ids: Vec<String>,
    /// Connections with a half whose name the loop is to look at.
    pub asking: Vec<u64>,
    /// Connections whose next request has waited for the answer to the one before.
    pub resume: Vec<u64>,
    pub prepared_s: Vec<f64>,
    /// Of prepares as JSON.
    pub json_prepared_s: Vec<f64>,
    pub committed_s: Vec<f64>,
    pub rolled_back_s: Vec<f64>,
    /// See `Events`: at most so many as histograms have buckets to show one in.
    pub traced: Vec<(f64, Vec<u8>)>,
    pub lines: Vec<Line>,
}

pub struct Config {
    pub library: String,
    pub options: Vec<(String, String)>,
    pub half_topic: String,
    pub op_topic: String,
    pub reply_start: ReplyStart,
    /// A pipe: read from the first, write to the second.
    pub wake: (c_int, c_int),
    /// Half messages in flight take at most so much.
    pub in_flight_bytes_max: usize,
    /// Of what is prepared over HTTP and asks for no other one.
    pub immunity: Duration,
}

pub struct Carrier {
    config: Config,
    producer: Mutex<Option<Arc<Producer>>>,
    lanes: Mutex<Lanes>,
    gathering: Condvar,
    pub results: Mutex<Results>,
    pub flight: Arc<Flight>,
    pub open_ones: Mutex<OpenOnes>,
    /// Of the thread that reads sockets: to be told of requests that need not wait any more.
    pub reading: OnceLock<Arc<Poller>>,
    in_flight_bytes: AtomicUsize,
    is_signalled: AtomicBool,
    /// The loop was woken for more than names, and has not seen it.
    has_told: AtomicBool,
    is_stopping: AtomicBool,
    is_broken: AtomicBool,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Carrier {
    pub fn start(config: Config) -> Result<Arc<Carrier>, String> {
        let flight = Arc::new(Flight::default());
        let results = Results { flight: flight.clone(), ..Results::default() };
        let carrier = Arc::new(Carrier {
            open_ones: Mutex::new(OpenOnes::new(config.immunity, Instant::now())),
            reading: OnceLock::new(),
            config,
            producer: Mutex::new(None),
            lanes: Mutex::new(Lanes::default()),
            gathering: Condvar::new(),
            results: Mutex::new(results),
            flight,
            in_flight_bytes: AtomicUsize::new(0),
            is_signalled: AtomicBool::new(false),
            has_told: AtomicBool::new(false),
            is_stopping: AtomicBool::new(false),
            is_broken: AtomicBool::new(false),
            threads: Mutex::new(Vec::new()),
        });
        *lock(&carrier.producer) = Some(Arc::new(carrier.new_producer()?));
        let mut threads = lock(&carrier.threads);
        for (name, run) in [
            ("hh-poll", Carrier::poll as fn(&Carrier)),
            ("hh-gather", Carrier::gather as fn(&Carrier)),
        ] {
            let carrier = carrier.clone();
            let thread = std::thread::Builder::new().name(name.to_owned());
            threads.push(thread.spawn(move || run(&carrier)).map_err(|error| error.to_string())?);
        }
        drop(threads);
        Ok(carrier)
    }

    fn new_producer(&self) -> Result<Producer, String> {
        let config = &self.config;
        let topics = [config.half_topic.as_str(), config.op_topic.as_str()];
        // Inside an Arc, that outlives its producers: the address stays good.
        Producer::new(&config.library, &config.options, topics, std::ptr::from_ref(self))
    }

    /// None: nothing more is taken.
    pub fn taking(&self) -> Option<Arc<Producer>> {
        if self.is_stopping.load(Ordering::Relaxed) { None } else { self.producer() }
    }

    fn producer(&self) -> Option<Arc<Producer>> {
        lock(&self.producer).clone()
    }

    /// Lanes for so many half partitions.
    pub fn open(&self, partition_count: usize) {
        let now = Instant::now();
        let mut lanes = lock(&self.lanes);
        while lanes.halves.len() < partition_count {
            lanes.halves.push(HalfLane::default());
            lanes.ends.push(EndLane::new(now));
        }
    }

    /// Room for a half message of so many bytes; false: it is the loop's, which knows how to refuse.
    pub fn reserve(&self, size_bytes: usize) -> bool {
        let before = self.in_flight_bytes.fetch_add(size_bytes, Ordering::Relaxed);
        let fits = before.saturating_add(size_bytes) <= self.config.in_flight_bytes_max;
        if !fits {
            self.release(size_bytes);
        }
        fits
    }

    pub fn release(&self, size_bytes: usize) {
        self.in_flight_bytes.fetch_sub(size_bytes, Ordering::Relaxed);
    }

    // What the loop asks for.

    /// What `go_on` sends.
    pub fn queue(&self, halves: Vec<Waiting>, ends: Vec<(i32, EndItem)>) {
        let mut lanes = lock(&self.lanes);
        for waiting in halves {
            let partition = waiting.item.partition;
            lanes.halves[partition as usize].push(waiting);
        }
        for (partition, item) in ends {
            lanes.ends[partition as usize].push(item);
        }
    }

    pub fn decisions(
        &self,
        partition: usize,
        group: &str,
        transaction_id: &str,
    ) -> Option<Vec<Decided>> {
        let mut lanes = lock(&self.lanes);
        let lane = lanes.ends.get_mut(partition)?;
        lane.memory.decisions(&memory_key(group, transaction_id), Instant::now())
    }

    /// Of the decisions here: the half and op offset below which some are remembered no more.
    pub fn forgotten(&self, partition: usize) -> (i64, i64) {
        let lanes = lock(&self.lanes);
        let forgotten = lanes.ends.get(partition).map(|lane| lane.memory.forgotten);
        let Forgotten { half_end, op_end } = forgotten.unwrap_or_default();
        (half_end, op_end)
    }

    /// How far owners here have read the op log of each half partition; negative: none works here.
    pub fn owners_read(&self, read_to: &[i64]) {
        for (lane, read_to) in lock(&self.lanes).ends.iter_mut().zip(read_to) {
            lane.read_to = *read_to;
        }
    }

    /// Through here, within the last minute.
    pub fn was_rolled_back(&self, partition: usize, group: &str, transaction_id: &str) -> bool {
        let mut lanes = lock(&self.lanes);
        let Some(lane) = lanes.ends.get_mut(partition) else {
            return false;
        };
        lane.memory.forget(Instant::now());
        lane.memory.was_rolled_back(&memory_key(group, transaction_id))
    }

    fn send(&self, producer: &Arc<Producer>, halves: Vec<Waiting>, batches: Vec<EndBatch>) {
        for Waiting { item, key, value, headers } in halves {
            let partition = item.partition;
            let private = Box::into_raw(Box::new(Pending::Half(item))) as Opaque;
            let key = key.as_deref();
            if let Err(code) = producer.append(HALF, partition, key, &value, headers, private) {
                unsafe { self.delivered(private, code, -1) };
            }
        }
        for batch in batches {
            let partition = batch.partition;
            let tag: &[u8] = if batch.items[0].is_commit { b"c" } else { b"r" };
            let (value, entries) = write::decisions(&batch.items);
            let headers = producer.headers([(&b"TAGS"[..], tag), (b"HALFHITCH", &entries)], 2);
            let private = Box::into_raw(Box::new(Pending::Ends(Box::new(batch)))) as Opaque;
            if let Err(code) = producer.append(OP, partition, None, &value, headers, private) {
                unsafe { self.delivered(private, code, -1) };
            }
        }
    }

    // Threads.

    fn poll(&self) {
        while let Some(producer) = self.producer() {
            producer.poll(POLL_MS);
            self.go_on(&producer);
            self.wake();
            if self.is_broken.swap(false, Ordering::Relaxed) {
                self.replace(producer);
            }
        }
    }

    /// After requests and reports: what need not wait (any longer).
    pub fn go_on(&self, producer: &Arc<Producer>) {
        let now = Instant::now();
        let mut due: Vec<Waiting> = Vec::new();
        let mut batches: Vec<EndBatch> = Vec::new();
        let mut is_gathering = false;
        {
            let mut lanes = lock(&self.lanes);
            for lane in &mut lanes.halves {
                due.append(&mut lane.due(now));
                is_gathering |= lane.is_news();
            }
            for (partition, lane) in lanes.ends.iter_mut().enumerate() {
                let before = lane.deadline();
                batches.append(&mut lane.due(partition as i32, now, false));
                let is_earlier = |at| before.is_none_or(|known| at < known);
                is_gathering |= lane.deadline().is_some_and(is_earlier);
            }
        }
        if is_gathering {
            self.gathering.notify_one();
        }
        self.send(producer, due, batches);
    }

    fn gather(&self) {
        let mut lanes = lock(&self.lanes);
        loop {
            let all = self.is_stopping.load(Ordering::Relaxed);
            let now = Instant::now();
            let mut halves: Vec<Waiting> = Vec::new();
            for lane in &mut lanes.halves {
                if lane.deadline().is_some_and(|deadline| deadline <= now) {
                    halves.append(&mut lane.due(now));
                }
            }
            let mut batches: Vec<EndBatch> = Vec::new();
            for (partition, lane) in lanes.ends.iter_mut().enumerate() {
                if all || lane.deadline().is_some_and(|deadline| deadline <= now) {
                    batches.append(&mut lane.due(partition as i32, now, all));
                }
            }
            if !(halves.is_empty() && batches.is_empty()) {
                drop(lanes);
                match self.producer() {
                    Some(producer) => self.send(&producer, halves, batches),
                    None => self.give_up(halves, batches),
                }
                lanes = lock(&self.lanes);
                continue;
            }
            if all && lock(&self.producer).is_none() {
                return;
            }
            let halves = lanes.halves.iter().filter_map(HalfLane::deadline);
            let ends = lanes.ends.iter().filter_map(EndLane::deadline);
            let first = halves.chain(ends).min();
            // Where a record is in flight at the deadline, its report will send what waits.
            let wait = match first {
                None if !all => Duration::from_secs(1),
                Some(deadline) if deadline > now => deadline - now,
                _ => Duration::from_millis(2),
            };
            lanes = match self.gathering.wait_timeout(lanes, wait) {
                Ok((lanes, _)) => lanes,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }

    /// A fatal error of an idempotent producer is final for that producer only.
    fn replace(&self, broken: Arc<Producer>) {
        let line = "the native record producer met a fatal error and is replaced".to_owned();
        self.logged(3, "FATAL".to_owned(), line);
        match self.new_producer() {
            Ok(producer) => {
                let producer = Arc::new(producer);
                let mut place = lock(&self.producer);
                if place.is_none() {
                    return; // stopped meanwhile: the threads would never end
                }
                *place = Some(producer);
            }
            Err(reason) => {
                self.logged(3, "FATAL".to_owned(), reason);
                self.is_broken.store(true, Ordering::Relaxed);
                std::thread::sleep(Duration::from_secs(1));
                return;
            }
        }
        broken.purge();
        broken.flush(1_000);
        // Its last reports say nothing of the new one.
        self.is_broken.store(false, Ordering::Relaxed);
        self.wake();
    }

    /// Write what can be written from here, and wake the loop for the rest.
    pub fn wake(&self) {
        let (has_news, resumes) = {
            let mut results = lock(&self.results);
            (results.has_news(Instant::now()), !results.resume.is_empty())
        };
        if resumes && let Some(poller) = self.reading.get() {
            let _ = poller.notify();
        }
        if has_news {
            self.has_told.store(true, Ordering::Release);
            self.signal();
        }
    }

    /// Wake the loop.
    pub fn signal(&self) {
        if !self.is_signalled.swap(true, Ordering::AcqRel) {
            let one = 1u64.to_ne_bytes();
            unsafe { libc::write(self.config.wake.1, one.as_ptr().cast(), one.len()) };
        }
    }

    /// Before the results are taken: what comes later wakes again.
    pub fn awake(&self) {
        let mut room = [0u8; 8];
        unsafe { libc::read(self.config.wake.0, room.as_mut_ptr().cast(), room.len()) };
        self.is_signalled.store(false, Ordering::Release);
    }

    /// Whether there is something for `tell_all`, after `awake`.
    pub fn has_told(&self) -> bool {
        self.has_told.swap(false, Ordering::AcqRel)
    }

    /// Wait for what is in flight, at most so long, and end the threads.
    pub fn stop(&self, drain: Duration) {
        {
            let _lanes = lock(&self.lanes); // else the notice could fall just before the wait
            self.is_stopping.store(true, Ordering::Relaxed);
            self.gathering.notify_one();
        }
        let give_up = Instant::now() + drain;
        while Instant::now() < give_up {
            let lanes = lock(&self.lanes);
            let count: usize = lanes.halves.iter().map(HalfLane::count).sum::<usize>()
                + lanes.ends.iter().map(EndLane::count).sum::<usize>();
            drop(lanes);
            if count == 0 {
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let producer = lock(&self.producer).take();
        self.gathering.notify_one();
        for thread in lock(&self.threads).drain(..) {
            let _ = thread.join();
        }
        if let Some(producer) = producer {
            producer.purge();
            producer.flush(500);
        }
        // What has waited behind that is reported too.
        loop {
            let now = Instant::now();
            let mut lanes = lock(&self.lanes);
            let halves: Vec<Waiting> =
                lanes.halves.iter_mut().flat_map(|lane| lane.all(now)).collect();
            let ends = lanes.ends.iter_mut().enumerate();
            let batches: Vec<EndBatch> =
                ends.flat_map(|(partition, lane)| lane.due(partition as i32, now, true)).collect();
            drop(lanes);
            if halves.is_empty() && batches.is_empty() {
                return;
            }
            self.give_up(halves, batches);
        }
    }

    /// Report as failed what was not handed over.
    fn give_up(&self, halves: Vec<Waiting>, batches: Vec<EndBatch>) {
        let halves = halves.into_iter().map(|waiting| Pending::Half(waiting.item));
        let batches = batches.into_iter().map(|batch| Pending::Ends(Box::new(batch)));
        for pending in halves.chain(batches) {
            let private = Box::into_raw(Box::new(pending)) as Opaque;
            unsafe { self.delivered(private, ERR_PURGED, -1) };
        }
    }
}

impl Carrier {
    /// Answer a half that lies there; false: it has no proof of that.
    fn stored(&self, item: &HalfItem, offset: i64) -> bool {
        let (partition, group, id) = (item.partition, &item.group, &item.transaction_id);
        match &item.ask {
            HalfAsk::Remoting { form, opaque, queue_id, seals } => {
                let Some(seal) = seals.make(partition, offset, group, id) else {
                    return false;
                };
                let ask = (*form, *opaque, *queue_id);
                lock(&self.results).stored(item, ask, offset, seal, &self.config.reply_start);
            }
            HalfAsk::Http { topic, signer, is_json, .. } => {
                let half_offset = offset as u64;
                let handle = signer.encode(&Place {
                    partition: partition as u16,
                    half_offset,
                    group,
                    transaction_id: id,
                    topic,
                });
                // Before its end can come.
                lock(&self.open_ones).stored(group, id, half_offset);
                lock(&self.results).stored_over_http(item, &handle, *is_json);
            }
        }
        true
    }
}

impl Listener for Carrier {
    unsafe fn delivered(&self, private: Opaque, err: c_int, offset: i64) {
        let pending = unsafe { Box::from_raw(private as *mut Pending) };
        if err == ERR_FATAL {
            self.is_broken.store(true, Ordering::Relaxed);
        }
        match *pending {
            Pending::Half(item) => {
                self.release(item.size_bytes);
                lock(&self.lanes).half_landed(&item);
                if err == 0 && offset >= 0 && self.stored(&item, offset) {
                    return;
                }
                // An earlier try was stored, and the broker does not remember where.
                let err = if err == 0 { ERR_UNKNOWN } else { err };
                lock(&self.results).half_failed(*item, err);
            }
            Pending::Ends(batch) => {
                let now = Instant::now();
                lock(&self.lanes).ends_landed(&batch, err, offset, now);
                lock(&self.results).ended(&batch, err, now);
            }
        }
    }

    fn logged(&self, level: i32, facility: String, text: String) {
        let mut results = lock(&self.results);
        if results.lines.len() < LINES_MAX {
            results.lines.push(Line { level, facility, text });
        }
    }
}

impl Results {
    /// Whether the loop must be woken. Of a lent socket it need not hear of every answer.
    fn has_news(&mut self, now: Instant) -> bool {
        let has_failed = !(self.failures.is_empty() && self.http_failures.is_empty());
        let mut is_urgent = has_failed || !self.lines.is_empty();
        for connection in &self.ready {
            if let Some(state) = self.connections.get_mut(connection) {
                match state.flush() {
                    Flushed::Sent => {}
                    Flushed::Stalled => self.due.push(*connection),
                    Flushed::NotOurs => is_urgent = true,
                }
            }
        }
        is_urgent |= !(self.unread.is_empty() && self.due.is_empty());
        if !is_urgent {
            if self.ready.is_empty() {
                return false;
            }
            let since = *self.quiet.get_or_insert(now);
            if now.duration_since(since) < QUIET {
                return false;
            }
        }
        self.quiet = None;
        true
    }

    /// All that the loop has not heard of.
    pub fn tell_all(&mut self) -> Told {
        let mut progress = Vec::with_capacity(self.ready.len());
        for connection in self.ready.drain(..) {
            let Some(state) = self.connections.get_mut(&connection) else {
                continue;
            };
            state.is_ready = false;
            // Of a lent socket it is written from here, and nobody else would: it is not ready any
            // more.
            let answers = match state.flush() {
                Flushed::NotOurs => std::mem::take(&mut state.out),
                Flushed::Sent => Vec::new(),
                Flushed::Stalled => {
                    self.due.push(connection);
                    Vec::new()
                }
            };
            state.unread_bytes = 0;
            progress.push(Counts {
                connection,
                begun_count: std::mem::take(&mut state.begun),
                done_count: std::mem::take(&mut state.finished),
                answers,
            });
        }
        Told {
            progress,
            failures: std::mem::take(&mut self.failures),
            http_failures: std::mem::take(&mut self.http_failures),
            prepared_ids: std::mem::take(&mut self.prepared_ids),
            ended_ids: std::mem::take(&mut self.ended_ids),
            prepared_s: std::mem::take(&mut self.prepared_s),
            json_prepared_s: std::mem::take(&mut self.json_prepared_s),
            committed_s: std::mem::take(&mut self.committed_s),
            rolled_back_s: std::mem::take(&mut self.rolled_back_s),
            traced: std::mem::take(&mut self.traced),
            lines: std::mem::take(&mut self.lines),
            unread: std::mem::take(&mut self.unread),
            due: std::mem::take(&mut self.due),
        }
    }

    /// The loop is to hear of this connection.
    pub fn tell(&mut self, connection: u64) -> Option<&mut ConnectionState> {
        let found = self.connections.get_mut(&connection)?;
        if !found.is_ready {
            found.is_ready = true;
            self.ready.push(connection);
        }
        Some(found)
    }

    /// One request of this connection has ended, well or not.
    pub fn landed(&mut self, connection: u64) -> Option<&mut ConnectionState> {
        let found = self.tell(connection)?;
        if found.under_way > 0 {
            found.under_way -= 1;
            self.flight.end(1);
        }
        self.connections.get_mut(&connection)
    }

    fn finish(&mut self, connection: u64) -> Option<&mut ConnectionState> {
        let found = self.landed(connection)?;
        found.finished += 1;
        Some(found)
    }

    fn fail(&mut self, failure: Failed) {
        self.landed(failure.connection);
        self.failures.push(failure);
    }

    /// The loop answers it, and goes on with the connection.
    fn fail_over_http(&mut self, failure: HttpFailed) {
        if let Some(state) = self.landed(failure.connection) {
            state.has_failed = true;
            state.has_more = false;
        }
        self.due.push(failure.connection);
        self.http_failures.push(failure);
    }

    fn half_failed(&mut self, item: HalfItem, error_number: c_int) {
        let HalfItem { ask, connection, partition, group, transaction_id, .. } = item;
        match ask {
            HalfAsk::Remoting { form, opaque, .. } => self.fail(Failed {
                connection,
                request_code: read::SEND_V2,
                opaque,
                is_json: form == Form::Json,
                error_number,
            }),
            HalfAsk::Http { is_named, is_json, .. } => self.fail_over_http(HttpFailed {
                connection,
                route: if is_json { "prepare" } else { "half" },
                error_number,
                partition,
                group: group.to_string(),
                transaction_id,
                is_named,
            }),
        }
    }

    fn has_stored(&mut self, item: &HalfItem, is_json: bool) {
        let passed_s = item.began.elapsed().as_secs_f64();
        let seconds = if is_json { &mut self.json_prepared_s } else { &mut self.prepared_s };
        seconds.push(passed_s);
        if let Some(said) = &item.trace {
            if self.traced.len() >= TRACED_MAX {
                self.traced.remove(0);
            }
            self.traced.push((passed_s, said.to_vec()));
        }
    }

    fn stored_over_http(&mut self, item: &HalfItem, handle: &str, is_json: bool) {
        self.has_stored(item, is_json);
        self.prepared_ids.push(item.transaction_id.clone());
        if let Some(state) = self.answered(item.connection) {
            let write = if is_json { write::http_prepared } else { write::http_stored };
            write(&mut state.out, handle, &item.transaction_id);
        }
    }

    /// Of a connection that has one request under way at a time.
    fn answered(&mut self, connection: u64) -> Option<&mut ConnectionState> {
        let state = self.finish(connection)?;
        if std::mem::take(&mut state.has_more) {
            self.resume.push(connection);
        }
        self.connections.get_mut(&connection)
    }

    fn stored(
        &mut self,
        item: &HalfItem,
        (form, opaque, queue_id): (Form, i32, i32),
        offset: i64,
        seal: i64,
        start: &ReplyStart,
    ) {
        self.has_stored(item, false);
        if let Some(state) = self.finish(item.connection) {
            let ConnectionState { out, id_prefix, .. } = state;
            let reply = write::Reply {
                form,
                opaque,
                id_prefix,
                queue_id,
                position: write::position(item.partition, offset),
                seal,
                transaction_id: &item.transaction_id,
            };
            write::stored_reply(out, start, &reply);
        }
    }

    fn ended(&mut self, batch: &EndBatch, err: c_int, now: Instant) {
        for item in &batch.items {
            if err != 0 {
                self.end_failed(item, batch.partition, err);
                continue;
            }
            let passed_s = now.duration_since(item.began).as_secs_f64();
            if item.is_commit {
                self.committed_s.push(passed_s);
            } else {
                self.rolled_back_s.push(passed_s);
            }
            if let EndAsk::Http = item.ask {
                self.ended_ids.push(item.identity.1.clone());
                if let Some(state) = self.answered(item.connection) {
                    write::http_ended(&mut state.out, &item.identity.1, item.is_commit);
                }
            } else {
                self.finish(item.connection);
            }
        }
    }

    fn end_failed(&mut self, item: &EndItem, partition: i32, error_number: c_int) {
        match item.ask {
            EndAsk::Remoting { form, opaque } => self.fail(Failed {
                connection: item.connection,
                request_code: read::END,
                opaque,
                is_json: form == Form::Json,
                error_number,
            }),
            EndAsk::Http => self.fail_over_http(HttpFailed {
                connection: item.connection,
                route: if item.is_commit { "commit" } else { "rollback" },
                error_number,
                partition,
                group: item.identity.0.to_string(),
                transaction_id: item.identity.1.clone(),
                is_named: true,
            }),
        }
    }
}
