//! What one connection is to be told, and its socket while that is lent.

use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::sync::Arc;

pub struct ConnectionState {
    pub id_prefix: String,
    /// Answers that nobody has written yet.
    pub out: Vec<u8>,
    /// Requests that ended since the loop was told.
    pub finished: u32,
    /// Requests that came over the lent socket since the loop was told.
    pub begun: u32,
    /// What came so and is the loop's, and the loop has not read.
    pub unread_bytes: usize,
    /// Of all those that came so, how many have not ended.
    pub under_way: usize,
    /// Among those with something to be told.
    pub is_ready: bool,
    pub socket: Option<Arc<TcpStream>>,
    /// The next request has come already, and waits for the answer to this one.
    pub has_more: bool,
    /// The loop has still to answer one that failed.
    pub has_failed: bool,
    is_stalled: bool,
}

pub enum Flushed {
    Sent,
    /// Just now: the loop is to take the socket back, it knows how to wait for a slow reader.
    Stalled,
    NotOurs,
}

impl ConnectionState {
    pub fn new(id_prefix: String) -> ConnectionState {
        ConnectionState {
            id_prefix,
            out: Vec::new(),
            finished: 0,
            begun: 0,
            unread_bytes: 0,
            under_way: 0,
            is_ready: false,
            socket: None,
            has_more: false,
            has_failed: false,
            is_stalled: false,
        }
    }

    pub fn lend(&mut self, socket: Arc<TcpStream>) {
        self.socket = Some(socket);
        self.is_stalled = false;
        self.has_more = false;
        self.has_failed = false;
    }

    /// Its reader does not read: nothing more is begun for it.
    pub fn is_stalled(&self) -> bool {
        self.is_stalled
    }

    /// Write what waits, as far as the kernel takes it.
    pub fn flush(&mut self) -> Flushed {
        let Some(socket) = &self.socket else {
            return Flushed::NotOurs;
        };
        if self.is_stalled || self.out.is_empty() {
            return Flushed::Sent;
        }
        let sent = send(socket, &self.out);
        if sent == self.out.len() {
            self.out.clear();
            return Flushed::Sent;
        }
        self.out.drain(..sent);
        self.is_stalled = true;
        Flushed::Stalled
    }
}

/// How much of it was written before the kernel took no more, or the connection failed.
fn send(mut socket: &TcpStream, data: &[u8]) -> usize {
    let mut sent = 0;
    while sent < data.len() {
        match socket.write(&data[sent..]) {
            Ok(count) if count > 0 => sent += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            _ => break,
        }
    }
    sent
}
