//! The part of librdkafka that an owner's reading and forwarding need; loaded once, never let go of.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

use crate::kafka::{Argument, Opaque, api};

pub type Handle = *mut c_void;

#[repr(C)]
pub struct Message {
    pub err: c_int,
    pub rkt: *mut c_void,
    pub partition: i32,
    pub payload: *const u8,
    pub len: usize,
    pub key: *const u8,
    pub key_len: usize,
    pub offset: i64,
    private: *mut c_void,
}

#[repr(C)]
pub struct TopicPartition {
    pub topic: *const c_char,
    pub partition: i32,
    pub offset: i64,
    pub metadata: *const u8,
    pub metadata_size: usize,
    opaque: *mut c_void,
    pub err: c_int,
    private: *mut c_void,
}

#[repr(C)]
pub struct TopicPartitions {
    pub count: c_int,
    size: c_int,
    pub elems: *mut TopicPartition,
}

type Line = unsafe extern "C" fn(*const c_void, c_int, *const c_char, *const c_char);

api! { OwnerApi:
    conf_new: fn() -> *mut c_void;
    conf_set: fn(*mut c_void, *const c_char, *const c_char, *mut c_char, usize) -> c_int;
    conf_destroy: fn(*mut c_void);
    conf_set_log_cb: fn(*mut c_void, Line);
    conf_set_opaque: fn(*mut c_void, Opaque);
    opaque: fn(*const c_void) -> Opaque;
    new: fn(c_int, *mut c_void, *mut c_char, usize) -> Handle;
    destroy: fn(Handle);
    poll_set_consumer: fn(Handle) -> c_int;
    queue_get_consumer: fn(Handle) -> *mut c_void;
    queue_destroy: fn(*mut c_void);
    queue_yield: fn(*mut c_void);
    consumer_poll: fn(Handle, c_int) -> *mut Message;
    consume_batch_queue: fn(*mut c_void, c_int, *mut *mut Message, usize) -> isize;
    consumer_close: fn(Handle) -> c_int;
    message_destroy: fn(*mut Message);
    message_timestamp: fn(*const Message, *mut c_int) -> i64;
    message_headers: fn(*const Message, *mut *mut c_void) -> c_int;
    header_get_all: fn(*const c_void, usize, *mut *const c_char, *mut *const c_void, *mut usize) -> c_int;
    topic_name: fn(*const c_void) -> *const c_char;
    topic_partition_list_new: fn(c_int) -> *mut TopicPartitions;
    topic_partition_list_add: fn(*mut TopicPartitions, *const c_char, i32) -> *mut TopicPartition;
    topic_partition_list_destroy: fn(*mut TopicPartitions);
    assign: fn(Handle, *const TopicPartitions) -> c_int;
    pause_partitions: fn(Handle, *mut TopicPartitions) -> c_int;
    resume_partitions: fn(Handle, *mut TopicPartitions) -> c_int;
    committed: fn(Handle, *mut TopicPartitions, c_int) -> c_int;
    query_watermark_offsets: fn(Handle, *const c_char, i32, *mut i64, *mut i64, c_int) -> c_int;
    err2str: fn(c_int) -> *const c_char;
    topic_new: fn(Handle, *const c_char, *mut c_void) -> *mut c_void;
    topic_destroy: fn(*mut c_void);
    headers_new: fn(usize) -> *mut c_void;
    header_add: fn(*mut c_void, *const c_char, isize, *const c_void, isize) -> c_int;
    headers_destroy: fn(*mut c_void);
    produceva: fn(Handle, *const Argument, usize) -> *mut c_void;
    error_code: fn(*const c_void) -> c_int;
    error_string: fn(*const c_void) -> *const c_char;
    error_is_fatal: fn(*const c_void) -> c_int;
    error_is_retriable: fn(*const c_void) -> c_int;
    error_txn_requires_abort: fn(*const c_void) -> c_int;
    error_destroy: fn(*mut c_void);
}

static API: OnceLock<OwnerApi> = OnceLock::new();

/// The library that confluent-kafka has brought; the same for all.
pub fn load(path: &str) -> Result<&'static OwnerApi, String> {
    if let Some(api) = API.get() {
        return Ok(api);
    }
    let api = OwnerApi::load(path).map_err(|error| error.to_string())?;
    Ok(API.get_or_init(|| api))
}

pub fn loaded() -> Option<&'static OwnerApi> {
    API.get()
}

/// What a number means, in librdkafka's words.
pub fn words(api: &OwnerApi, code: c_int) -> String {
    unsafe { CStr::from_ptr((api.err2str)(code)) }.to_string_lossy().into_owned()
}
