//! An owner's logs without the interpreter: what is read stays here, Python is told small facts of
//! it, and what is forwarded goes out from here.

pub mod api;
pub mod consumer;
pub mod forward;
pub mod record;
pub mod story;
pub mod usual;
