//! Bodies that the client compressed, undone without ever making more than was allowed, as
//! `wire/remoting/compression.py` undoes them. RocketMQ's clients compress with zlib what has more
//! than 4 KiB. None: the interpreted door says what is wrong.

use flate2::{Decompress, FlushDecompress, Status};

const ROOM_BYTES_MIN: usize = 4_096;
/// What bodies come to, as a rule; more is made room for when it comes.
const RATIO: usize = 4;

pub fn zlib(body: &[u8], bytes_max: usize) -> Option<Vec<u8>> {
    let mut stream = Decompress::new(true);
    let room = body.len().saturating_mul(RATIO).max(ROOM_BYTES_MIN);
    let mut inflated = Vec::with_capacity(room.min(bytes_max.saturating_add(1)));
    loop {
        let (taken, made) = (stream.total_in() as usize, inflated.len());
        let status = stream.decompress_vec(&body[taken..], &mut inflated, FlushDecompress::None);
        if inflated.len() > bytes_max {
            return None;
        }
        match status.ok()? {
            // What lies behind the end would be dropped, and success be answered.
            Status::StreamEnd if stream.total_in() as usize == body.len() => return Some(inflated),
            Status::StreamEnd => return None,
            _ if inflated.len() == inflated.capacity() => {
                let more = inflated.len().min(bytes_max + 1 - inflated.len());
                inflated.reserve_exact(more.max(1));
            }
            _ if stream.total_in() as usize == taken && inflated.len() == made => return None,
            _ => {}
        }
    }
}
