#!/bin/sh
# dtm and wrk for `make bench-dtm`, into build/bench-dtm: dtm is built from its Go module, whose parts
# server/go.sum names by their digests; wrk is Debian's package, unpacked there and not installed.
# Run again it does nothing. It starts nothing.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
folder=$(cd "$here/../.." && pwd)/build/bench-dtm
version=1.19.0
mkdir -p "$folder"

fail() {
    echo "the benchmark beside dtm: $*" >&2
    exit 1
}

# PACKAGE: what Debian's package has, unpacked.
unpack() {
    command -v apt-get >/dev/null 2>&1 && command -v dpkg-deb >/dev/null 2>&1 ||
        fail "it needs wrk on the PATH, and this is no Debian that it could be taken from."
    from=$(mktemp -d "$folder/$1.XXXXXX")
    # A machine just made has no lists; whoever is not root may have them all the same.
    (cd "$from" && { apt-get download "$1" || { apt-get update && apt-get download "$1"; }; }) \
        >"$from/log" 2>&1 || { tail -n 5 "$from/log" >&2; fail "apt-get could not download $1."; }
    dpkg-deb -x "$from/$1"_*.deb "$folder/debian"
    rm -rf "$from"
}

if ! command -v wrk >/dev/null 2>&1 && [ ! -e "$folder/debian/.whole" ]; then
    for package in wrk libluajit-5.1-2 libluajit-5.1-common; do
        unpack "$package"
    done
    touch "$folder/debian/.whole" # the mark comes last: what was cut off is done again
fi

[ ! -x "$folder/dtm-$version" ] || exit 0
command -v go >/dev/null 2>&1 || fail "it needs Go 1.24 or newer, to build dtm $version."
echo "building dtm $version, once (some minutes) ..."
rm -rf "$folder/server"
cp -r "$here/server" "$folder/server" # the file of the module is rewritten by building
(cd "$folder/server" && go build -mod=mod -ldflags "-X main.Version=v$version" -o "$folder/dtm.part" \
    github.com/dtm-labs/dtm) || fail "dtm could not be built."
mv "$folder/dtm.part" "$folder/dtm-$version"
