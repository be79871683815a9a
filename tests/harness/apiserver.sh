#!/bin/sh
# Kubernetes' API server, controllers and scheduler, and etcd, for `make test-cluster`, into the user's
# cache: those are built from their Go module, etcd is Debian's. Run again it does nothing. It starts
# nothing.
set -eu

# As in harness/cluster.py.
version=1.36.0
cache=${HALFHITCH_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/halfhitch}/kubernetes/$version
mkdir -p "$cache"

fail() {
    echo "make test-cluster: $*" >&2
    exit 1
}

if ! command -v etcd >/dev/null 2>&1 && [ ! -x "$cache/etcd" ]; then
    command -v apt-get >/dev/null 2>&1 && command -v dpkg-deb >/dev/null 2>&1 ||
        fail "it needs etcd on the PATH, and this is no Debian that it could be taken from."
    folder=$(mktemp -d "$cache/etcd.XXXXXX")
    # A machine just made has no lists; whoever is not root may have them all the same.
    (cd "$folder" && { apt-get download etcd-server || { apt-get update && apt-get download etcd-server; }; }) \
        >"$folder/log" 2>&1 || { tail -n 5 "$folder/log" >&2; fail "apt-get could not download etcd-server."; }
    dpkg-deb -x "$folder"/etcd-server*.deb "$folder/root"
    mv "$folder/root/usr/bin/etcd" "$cache/etcd"
    rm -rf "$folder"
fi

programs="kube-apiserver kube-controller-manager kube-scheduler"
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
