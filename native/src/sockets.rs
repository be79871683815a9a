//! Sockets that are read here, so that no request waits for the interpreter.
//!
//! The loop lends them: it goes on owning the connection, and takes the socket back whenever
//! something is not plain sailing (the end, a slow reader, too much under way, a large frame).

use std::collections::HashMap;
use std::ffi::c_int;
use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::num::NonZeroUsize;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use polling::{Event, Events, PollMode, Poller};

use crate::carrier::{Carrier, lock};
use crate::front::Rooms;

const ROOM_BYTES: usize = 262_144;
const EVENTS_MAX: NonZeroUsize = NonZeroUsize::new(64).unwrap();

/// Who knows what the bytes mean.
pub trait Reader: Send + Sync + 'static {
    fn carrier(&self) -> &Arc<Carrier>;
    /// From a lent socket; without bytes: the answer that those before have waited for is written.
    /// False: the loop is to take it back.
    fn arrived(&self, connection: u64, data: &[u8], rooms: Rooms) -> bool;
}

struct Lent {
    socket: Arc<TcpStream>,
    rooms: Rooms,
    is_read: bool,
}

pub struct Sockets<R> {
    front: Arc<R>,
    poller: Arc<Poller>,
    lent: Mutex<HashMap<u64, Arc<Mutex<Lent>>>>,
    is_stopping: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl<R: Reader> Sockets<R> {
    pub fn start(front: Arc<R>) -> std::io::Result<Arc<Sockets<R>>> {
        let poller = Arc::new(Poller::new()?);
        let _ = front.carrier().reading.set(poller.clone());
        let sockets = Arc::new(Sockets {
            front,
            poller,
            lent: Mutex::new(HashMap::new()),
            is_stopping: AtomicBool::new(false),
            thread: Mutex::new(None),
        });
        let own = sockets.clone();
        let thread = std::thread::Builder::new().name("hh-read".to_owned());
        *lock(&sockets.thread) = Some(thread.spawn(move || own.run())?);
        Ok(sockets)
    }

    /// Read and write this socket from now on; false: it cannot be.
    pub fn lend(&self, connection: u64, fd: c_int, rooms: Rooms) -> bool {
        if fd < 0 {
            return false; // closed: nothing to borrow
        }
        let Ok(socket) = unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned() else {
            return false;
        };
        let socket = Arc::new(TcpStream::from(socket));
        if self.is_stopping.load(Ordering::Relaxed) {
            return false;
        }
        // Before it is watched: what the next lines wake may note there at once that more has come.
        match lock(&self.front.carrier().results).connections.get_mut(&connection) {
            Some(state) => state.lend(socket.clone()),
            None => return false,
        }
        let lent = Arc::new(Mutex::new(Lent { socket: socket.clone(), rooms, is_read: true }));
        lock(&self.lent).insert(connection, lent);
        // Left by `take_back`, before the socket is closed.
        let readable = Event::readable(connection as usize);
        let watched = unsafe { self.poller.add_with_mode(&*socket, readable, PollMode::Level) };
        if watched.is_err() {
            lock(&self.lent).remove(&connection);
            let mut results = lock(&self.front.carrier().results);
            if let Some(state) = results.connections.get_mut(&connection) {
                state.socket = None;
            }
            return false;
        }
        true
    }

    /// Back to the loop: what is still to be written, and how many requests it has not been told
    /// of. When this returns, nothing more is read or written here.
    pub fn take_back(&self, connection: u64) -> (Vec<u8>, u32) {
        let lent = lock(&self.lent).remove(&connection);
        if let Some(lent) = lent {
            let mut lent = lock(&lent); // waits for what is being read
            if lent.is_read {
                lent.is_read = false;
                let _ = self.poller.delete(&*lent.socket);
            }
        }
        let mut results = lock(&self.front.carrier().results);
        let Some(state) = results.connections.get_mut(&connection) else {
            return (Vec::new(), 0);
        };
        state.socket = None;
        (std::mem::take(&mut state.out), std::mem::take(&mut state.begun))
    }

    fn run(&self) {
        let mut room = vec![0u8; ROOM_BYTES];
        let mut events = Events::with_capacity(EVENTS_MAX);
        while !self.is_stopping.load(Ordering::Relaxed) {
            events.clear();
            if self.poller.wait(&mut events, None).is_err() {
                continue; // interrupted
            }
            for event in events.iter() {
                self.look(event.key as u64, Some(&mut room));
            }
            let resumed = std::mem::take(&mut lock(&self.front.carrier().results).resume);
            for connection in resumed {
                self.look(connection, None);
            }
        }
    }

    /// Without room: what has come is looked at, and nothing more is read.
    fn look(&self, connection: u64, room: Option<&mut Vec<u8>>) {
        let Some(lent) = lock(&self.lent).get(&connection).cloned() else {
            return; // taken back meanwhile
        };
        let mut lent = lock(&lent);
        if !lent.is_read {
            return;
        }
        let goes_on = match room {
            Some(room) => self.receive(connection, &lent, room),
            None => self.front.arrived(connection, &[], lent.rooms),
        };
        if !goes_on {
            lent.is_read = false;
            let _ = self.poller.delete(&*lent.socket);
            lock(&self.front.carrier().results).due.push(connection);
            self.front.carrier().wake();
        }
    }

    /// False: the loop is to take it back.
    fn receive(&self, connection: u64, lent: &Lent, room: &mut [u8]) -> bool {
        match (&*lent.socket).read(room) {
            Ok(0) => false,
            Ok(count) => self.front.arrived(connection, &room[..count], lent.rooms),
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }

    pub fn stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
        let _ = self.poller.notify();
        if let Some(thread) = lock(&self.thread).take() {
            let _ = thread.join();
        }
    }
}
