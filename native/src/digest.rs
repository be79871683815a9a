//! What a message says, in 64 bits, as `wire/digest.py` has it.

use blake2b_simd::Params;

/// Names under which tracing hands its context on; what they hold changes with each try.
const TRACING: [&[u8]; 21] = [
    b"traceparent",
    b"tracestate",
    b"baggage",
    b"b3",
    b"x-b3-traceid",
    b"x-b3-spanid",
    b"x-b3-parentspanid",
    b"x-b3-sampled",
    b"x-b3-flags",
    b"uber-trace-id",
    b"sw8",
    b"sw8-correlation",
    b"sw8-x",
    b"elastic-apm-traceparent",
    b"x-datadog-trace-id",
    b"x-datadog-parent-id",
    b"x-datadog-sampling-priority",
    b"x-datadog-origin",
    b"x-datadog-tags",
    b"x-amzn-trace-id",
    b"x-cloud-trace-context",
];

/// Nothing longer is well-formed (doors/http/trace_context.py).
const TRACE_BYTES_MAX: usize = 256;

/// Of a message whose partition is not its producer's choice, with value and headers that are not
/// null. Names of headers are ASCII.
pub fn digest_of(
    topic: &[u8],
    key: Option<&[u8]>,
    value: &[u8],
    headers: &[(&[u8], &[u8])],
) -> u64 {
    let mut state = Params::new().hash_length(8).to_state();
    state.update(&(-1i32).to_be_bytes());
    state.update(&size(topic));
    state.update(&key.map_or((-1i32).to_be_bytes(), size));
    state.update(&size(value));
    state.update(topic);
    state.update(key.unwrap_or_default());
    let mut sorted: Vec<_> = headers.iter().filter(|(name, _)| !is_tracing(name)).collect();
    sorted.sort_by_key(|(name, _)| *name);
    for (name, value) in sorted {
        state.update(&size(name)).update(&size(value)).update(name).update(value);
    }
    state.update(value);
    let mut digest = [0; 8];
    digest.copy_from_slice(state.finalize().as_bytes());
    u64::from_be_bytes(digest)
}

/// What a message says of its trace: the loop reads it.
pub fn trace_of(headers: &[(&[u8], &[u8])]) -> Option<Box<[u8]>> {
    let found = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(TRACING[0]));
    found.filter(|(_, said)| said.len() <= TRACE_BYTES_MAX).map(|(_, said)| (*said).into())
}

fn size(part: &[u8]) -> [u8; 4] {
    (part.len() as i32).to_be_bytes()
}

fn is_tracing(name: &[u8]) -> bool {
    TRACING.iter().any(|known| name.eq_ignore_ascii_case(known))
}
