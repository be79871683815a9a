//! The part of librdkafka that appends need, from the library that confluent-kafka has brought.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

pub type Opaque = *mut c_void;

#[repr(C)]
pub struct Message {
    pub err: c_int,
    rkt: *mut c_void,
    partition: i32,
    payload: *mut c_void,
    len: usize,
    key: *mut c_void,
    key_len: usize,
    pub offset: i64,
    pub private: Opaque,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Piece {
    pub ptr: *const c_void,
    pub size: usize,
}

#[repr(C)]
pub union Value {
    pub ptr: *mut c_void,
    pub int: c_int,
    pub i32: i32,
    pub piece: Piece,
    _room: [u8; 64],
}

/// One of what `produceva` is given.
#[repr(C)]
pub struct Argument {
    pub kind: c_int,
    pub value: Value,
}

pub const RKT: c_int = 2;
pub const PARTITION: c_int = 3;
pub const VALUE: c_int = 4;
pub const KEY: c_int = 5;
const OPAQUE: c_int = 6;
pub const FLAGS: c_int = 7;
pub const HEADERS: c_int = 10;
pub const FLAG_COPY: c_int = 2;
pub const CONF_OK: c_int = 0;
const PRODUCER: c_int = 0;
const PURGE_ALL: c_int = 3;
pub const ERR_FATAL: c_int = -150;
/// Given up before it was sent.
pub const ERR_PURGED: c_int = -152;
pub const ERR_UNKNOWN: c_int = -1;

type Report = unsafe extern "C" fn(*mut c_void, *const Message, Opaque);
type Line = unsafe extern "C" fn(*const c_void, c_int, *const c_char, *const c_char);

macro_rules! api {
    ($api:ident: $($name:ident: fn($($kind:ty),*) $(-> $result:ty)?;)*) => {
        #[allow(non_snake_case)]
        pub struct $api { $(pub $name: unsafe extern "C" fn($($kind),*) $(-> $result)?,)* }

        impl $api {
            /// The library stays loaded: its threads run as long as the process.
            fn load(path: &str) -> Result<$api, libloading::Error> {
                unsafe {
                    let library = Box::leak(Box::new(libloading::Library::new(path)?));
                    Ok($api { $($name: *library.get(concat!("rd_kafka_", stringify!($name)))?,)* })
                }
            }
        }
    };
}
pub(crate) use api;

api! { Api:
    conf_new: fn() -> *mut c_void;
    conf_set: fn(*mut c_void, *const c_char, *const c_char, *mut c_char, usize) -> c_int;
    conf_destroy: fn(*mut c_void);
    conf_set_dr_msg_cb: fn(*mut c_void, Report);
    conf_set_log_cb: fn(*mut c_void, Line);
    conf_set_opaque: fn(*mut c_void, Opaque);
    opaque: fn(*const c_void) -> Opaque;
    new: fn(c_int, *mut c_void, *mut c_char, usize) -> *mut c_void;
    destroy: fn(*mut c_void);
    topic_new: fn(*mut c_void, *const c_char, *mut c_void) -> *mut c_void;
    topic_destroy: fn(*mut c_void);
    headers_new: fn(usize) -> *mut c_void;
    header_add: fn(*mut c_void, *const c_char, isize, *const c_void, isize) -> c_int;
    headers_destroy: fn(*mut c_void);
    produceva: fn(*mut c_void, *const Argument, usize) -> *mut c_void;
    error_code: fn(*const c_void) -> c_int;
    error_destroy: fn(*mut c_void);
    poll: fn(*mut c_void, c_int) -> c_int;
    flush: fn(*mut c_void, c_int) -> c_int;
    purge: fn(*mut c_void, c_int) -> c_int;
}

/// Who hears of what became of each record, on the thread that polls.
pub trait Listener: Send + Sync + 'static {
    /// # Safety
    /// `private` is what was given to `append`, once.
    unsafe fn delivered(&self, private: Opaque, err: c_int, offset: i64);
    fn logged(&self, level: i32, facility: String, line: String);
}

unsafe extern "C" fn report<L: Listener>(_: *mut c_void, message: *const Message, opaque: Opaque) {
    unsafe {
        let (listener, message) = (&*(opaque as *const L), &*message);
        listener.delivered(message.private, message.err, message.offset);
    }
}

/// Of the callback for log lines, which is not told whose they are.
static OPAQUE_OF: OnceLock<unsafe extern "C" fn(*const c_void) -> Opaque> = OnceLock::new();

unsafe extern "C" fn line<L: Listener>(
    handle: *const c_void,
    level: c_int,
    facility: *const c_char,
    text: *const c_char,
) {
    if let Some(opaque_of) = OPAQUE_OF.get().filter(|_| !handle.is_null()) {
        unsafe {
            let listener = &*(opaque_of(handle) as *const L);
            listener.logged(level, owned(facility), owned(text));
        }
    }
}

/// Headers of one record, made in librdkafka's own memory.
pub struct RecordHeaders {
    raw: *mut c_void,
    destroy: unsafe extern "C" fn(*mut c_void),
}

unsafe impl Send for RecordHeaders {}

impl Drop for RecordHeaders {
    fn drop(&mut self) {
        if !self.raw.is_null() {
            unsafe { (self.destroy)(self.raw) }
        }
    }
}

/// One idempotent producer with two topics.
pub struct Producer {
    api: Api,
    handle: *mut c_void,
    topics: [*mut c_void; 2],
}

unsafe impl Send for Producer {}
unsafe impl Sync for Producer {}

pub const HALF: usize = 0;
pub const OP: usize = 1;

impl Producer {
    /// `listener` must outlive the producer.
    pub fn new<L: Listener>(
        library: &str,
        config: &[(String, String)],
        topics: [&str; 2],
        listener: *const L,
    ) -> Result<Producer, String> {
        let api = Api::load(library).map_err(|error| error.to_string())?;
        let mut room = [0 as c_char; 512];
        let _ = OPAQUE_OF.set(api.opaque); // the same in every producer
        unsafe {
            let conf = (api.conf_new)();
            for (name, value) in config {
                let pair = (text(name)?, text(value)?);
                let set =
                    (api.conf_set)(conf, pair.0.as_ptr(), pair.1.as_ptr(), room.as_mut_ptr(), 512);
                if set != CONF_OK {
                    (api.conf_destroy)(conf);
                    return Err(said(&room));
                }
            }
            (api.conf_set_dr_msg_cb)(conf, report::<L>);
            (api.conf_set_log_cb)(conf, line::<L>);
            (api.conf_set_opaque)(conf, listener as Opaque);
            let handle = (api.new)(PRODUCER, conf, room.as_mut_ptr(), 512);
            if handle.is_null() {
                (api.conf_destroy)(conf);
                return Err(said(&room));
            }
            let mut handles = [ptr::null_mut(); 2];
            for (place, name) in topics.iter().enumerate() {
                handles[place] = (api.topic_new)(handle, text(name)?.as_ptr(), ptr::null_mut());
            }
            Ok(Producer { api, handle, topics: handles })
        }
    }

    pub fn headers<'a>(
        &self,
        pairs: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
        count: usize,
    ) -> RecordHeaders {
        let api = &self.api;
        let raw = unsafe { (api.headers_new)(count) };
        for (name, value) in pairs {
            let (name_at, value_at) = (name.as_ptr().cast(), value.as_ptr().cast());
            unsafe {
                (api.header_add)(raw, name_at, name.len() as isize, value_at, value.len() as isize)
            };
        }
        RecordHeaders { raw, destroy: api.headers_destroy }
    }

    /// Hand a record over; the error number if it is not taken, and `private` is the caller's again.
    pub fn append(
        &self,
        topic: usize,
        partition: i32,
        key: Option<&[u8]>,
        value: &[u8],
        mut headers: RecordHeaders,
        private: Opaque,
    ) -> Result<(), c_int> {
        let key = match key {
            None => Piece { ptr: ptr::null(), size: 0 },
            Some(key) => piece(key),
        };
        let arguments = [
            Argument { kind: RKT, value: Value { ptr: self.topics[topic] } },
            Argument { kind: PARTITION, value: Value { i32: partition } },
            Argument { kind: FLAGS, value: Value { int: FLAG_COPY } },
            Argument { kind: VALUE, value: Value { piece: piece(value) } },
            Argument { kind: KEY, value: Value { piece: key } },
            Argument { kind: HEADERS, value: Value { ptr: headers.raw } },
            Argument { kind: OPAQUE, value: Value { ptr: private } },
        ];
        unsafe {
            let error = (self.api.produceva)(self.handle, arguments.as_ptr(), arguments.len());
            if error.is_null() {
                headers.raw = ptr::null_mut(); // librdkafka's now
                return Ok(());
            }
            let code = (self.api.error_code)(error);
            (self.api.error_destroy)(error);
            Err(code)
        }
    }

    /// Serve delivery reports, waiting so long for the first.
    pub fn poll(&self, wait_ms: c_int) -> c_int {
        unsafe { (self.api.poll)(self.handle, wait_ms) }
    }

    /// Wait until everything is delivered; false when that took longer.
    pub fn flush(&self, wait_ms: c_int) -> bool {
        unsafe { (self.api.flush)(self.handle, wait_ms) == 0 }
    }

    /// Give up what is not delivered: it is reported as failed.
    pub fn purge(&self) {
        unsafe { (self.api.purge)(self.handle, PURGE_ALL) };
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        unsafe {
            for topic in self.topics {
                (self.api.topic_destroy)(topic);
            }
            (self.api.destroy)(self.handle);
        }
    }
}

pub fn piece(bytes: &[u8]) -> Piece {
    // An empty value is not a missing one: its address must not be null, and Rust's never is.
    Piece { ptr: bytes.as_ptr().cast(), size: bytes.len() }
}

pub fn text(value: &str) -> Result<CString, String> {
    CString::new(value).map_err(|_| "a NUL inside a setting".to_owned())
}

pub fn said(room: &[c_char]) -> String {
    unsafe { CStr::from_ptr(room.as_ptr()) }.to_string_lossy().into_owned()
}

pub unsafe fn owned(line: *const c_char) -> String {
    if line.is_null() {
        return String::new();
    }
    unsafe { CStr::from_ptr(line) }.to_string_lossy().into_owned()
}
