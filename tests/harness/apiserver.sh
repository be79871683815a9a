#!/bin/sh
# Kubernetes' API server, controllers and scheduler, and etcd, for `make test-cluster`, into the user's
# cache: those are built from their Go module, etcd is Debian's. With `node` also what runs pods, for
# `make test-kubelet`: the kubelet, and Debian's containerd, runc and network plugins, which are not
# installed. Run again it does nothing. It starts nothing.
set -eu

# As in harness/cluster.py.
version=1.36.0
cache=${HALFHITCH_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/halfhitch}/kubernetes/$version
mkdir -p "$cache"

fail() {
    echo "Kubernetes for the tests: $*" >&2
    exit 1
}

# PACKAGE FOLDER: what Debian's package has, unpacked into that folder of the cache.
unpack() {
    command -v apt-get >/dev/null 2>&1 && command -v dpkg-deb >/dev/null 2>&1 ||
        fail "it needs Debian's package $1, and this is no Debian that it could be taken from."
    folder=$(mktemp -d "$cache/$1.XXXXXX")
    # A machine just made has no lists; whoever is not root may have them all the same.
    (cd "$folder" && { apt-get download "$1" || { apt-get update && apt-get download "$1"; }; }) \
        >"$folder/log" 2>&1 || { tail -n 5 "$folder/log" >&2; fail "apt-get could not download $1."; }
    mkdir -p "$cache/$2"
    dpkg-deb -x "$folder/$1"_*.deb "$cache/$2"
    rm -rf "$folder"
}

if ! command -v etcd >/dev/null 2>&1 && [ ! -x "$cache/etcd" ]; then
    unpack etcd-server etcd-server
    mv "$cache/etcd-server/usr/bin/etcd" "$cache/etcd"
    rm -rf "$cache/etcd-server"
fi

programs="kube-apiserver kube-controller-manager kube-scheduler"
if [ "${1:-}" = node ]; then
    [ "$(uname)" = Linux ] && [ "$(id -u)" -eq 0 ] || fail "pods are run by root, on Linux."
    programs="$programs kubelet"
    for package in containerd runc containernetworking-plugins; do
        # The mark comes last: what was cut off is done again.
        [ -e "$cache/node/.$package" ] || { unpack "$package" node && touch "$cache/node/.$package"; }
    done
fi
missing=""
for program in $programs; do
    [ -x "$cache/$program" ] || missing="$missing ./cmd/$program"
done
[ -n "$missing" ] || exit 0

command -v go >/dev/null 2>&1 ||
    fail "it needs Go 1.26 or newer, to build Kubernetes $version from the module k8s.io/kubernetes."
minor=$(go env GOVERSION | sed -E 's/^go1\.([0-9]+).*/\1/')
[ "$minor" -ge 26 ] || fail "Kubernetes $version needs Go 1.26 or newer, and this is $(go env GOVERSION)."

echo "building$missing of Kubernetes $version, once (a quarter of an hour on two quiet processors, or more; 300 MB) ..."
module=$(go mod download -json "k8s.io/kubernetes@v$version" | sed -n 's/^[[:space:]]*"Dir": "\(.*\)",*$/\1/p')
[ -d "$module" ] || fail "the Go module k8s.io/kubernetes@v$version could not be downloaded."
folder=$(mktemp -d "$cache/build.XXXXXX")
trap 'rm -rf "$folder"' EXIT
# The module cache is read-only, and what its go.mod says of its neighbours is true of a checkout only.
cp -r "$module/." "$folder/"
chmod -R u+w "$folder"
cd "$folder"
rm -rf go.work go.work.sum go.sum vendor
sed -i -E "s#=> \./staging/src/(k8s\.io/[a-z0-9-]+)#=> \1 v0.${version#1.}#" go.mod
about=k8s.io/component-base/version
# shellcheck disable=SC2086
GOFLAGS=-mod=mod GOWORK=off CGO_ENABLED=0 go build -trimpath \
    -ldflags "-s -w -X $about.gitVersion=v$version -X $about.gitMajor=1 -X $about.gitMinor=36" \
    -o "$folder/built/" $missing
mv "$folder"/built/* "$cache"
