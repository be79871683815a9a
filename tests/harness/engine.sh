#!/bin/sh
# tests/harness/engine.sh COMMAND ...: runs it with a container engine. That is the engine that answers
# already; else one of Debian's docker.io, installed where root may, that ends with the command and
# leaves its images in the user's cache.
set -eu

has() { PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin" command -v "$1" >/dev/null 2>&1; }
if has docker && docker info >/dev/null 2>&1; then exec "$@"; fi
PATH="$PATH:/usr/sbin:/sbin"
export PATH

missing=""
has dockerd || missing="$missing docker.io"
has iptables || missing="$missing iptables"
if [ "$(id -u)" -ne 0 ] || { [ -n "$missing" ] && ! has apt-get; }; then
    echo "No container engine answers (docker info). Start one, or say with DOCKER_HOST where it is." >&2
    exit 1
fi
if [ -n "$missing" ]; then
    # Debian's package starts its service at once, unless this says no.
    policy=/usr/sbin/policy-rc.d
    if [ ! -e "$policy" ]; then
        trap 'rm -f "$policy"' EXIT
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod +x "$policy"
    else
        policy=""
    fi
    log=$(mktemp)
    # shellcheck disable=SC2086
    { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
        -o DPkg::Lock::Timeout=120 $missing; } >"$log" 2>&1 ||
        { tail -n 15 "$log" >&2; echo "apt-get could not install$missing." >&2; exit 1; }
    rm -f "$log"
    [ -z "$policy" ] || rm -f "$policy"
fi

images=${HALFHITCH_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/halfhitch}/engine
folder=$(mktemp -d)
mkdir -p "$images"
dockerd --host "unix://$folder/docker.sock" --data-root "$images" --exec-root "$folder/exec" \
    --pidfile "$folder/pid" >"$folder/log" 2>&1 &
engine=$!
# The engine leaves its network's namespace mounted. What ran decides how this ends, and not the sweeping.
swept() {
    kill "$engine" 2>/dev/null || true
    wait "$engine" || true
    umount "$folder"/exec/netns/* 2>/dev/null || true
    rm -rf "$folder" || true
}
trap swept EXIT
trap 'exit 130' INT TERM
DOCKER_HOST=unix://$folder/docker.sock
export DOCKER_HOST
tries=0
until docker info >/dev/null 2>&1; do
    tries=$((tries + 1))
    if [ "$tries" -gt 60 ] || ! kill -0 "$engine" 2>/dev/null; then
        tail -n 15 "$folder/log" >&2
        echo "Debian's docker engine does not start here." >&2
        exit 1
    fi
    sleep 1
done
"$@"
