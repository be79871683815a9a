#!/bin/sh
# The bases of deploy/Dockerfile, as `docker build` takes them: its own where they can be pulled, else
# two made of Debian's packages (root, debootstrap; three minutes, once): halfhitch-build-base with
# Python, pip and a shell; halfhitch-base with Python and no shell, as distroless is made.
set -eu

fail() {
    echo "make image: $*" >&2
    exit 1
}
has() { docker image inspect "$1" >/dev/null 2>&1; }

wanted=$(sed -n 's/^ARG BASE=//p' deploy/Dockerfile)
if has "$wanted" || docker pull --quiet "$wanted" >/dev/null 2>&1; then exit 0; fi
echo "--build-arg BUILD_BASE=halfhitch-build-base --build-arg BASE=halfhitch-base"
if has halfhitch-build-base && has halfhitch-base; then exit 0; fi

PATH="$PATH:/usr/sbin:/sbin"
[ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1 ||
    fail "$wanted cannot be pulled, and a base is made by root, on Debian. Name one with BASES=."
command -v debootstrap >/dev/null 2>&1 || {
    apt-get update && apt-get install --yes --no-install-recommends debootstrap
} >/dev/null 2>&1 || fail "apt-get could not install debootstrap."
echo "$wanted cannot be pulled: making bases of Debian's packages (three minutes) ..." >&2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
root=$folder/root
debootstrap --variant=minbase --include=python3-venv,python3-pip,ca-certificates bookworm "$root" \
    >"$folder/log" 2>&1 || { tail -n 5 "$folder/log" >&2; fail "debootstrap could not make a base."; }
rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*
tar -C "$root" -c . | docker import - halfhitch-build-base >/dev/null

# Of these packages only, and none of their scripts have run but what they made: the certificates.
packages="base-files base-passwd ca-certificates libbz2-1.0 libc6 libcrypt1 libexpat1 libffi8 libgcc-s1
    liblzma5 libpython3-stdlib libpython3.11-minimal libpython3.11-stdlib libsqlite3-0 libssl3
    libstdc++6 libuuid1 media-types python3 python3-minimal python3.11 python3.11-minimal
    tzdata zlib1g"
{
    for place in bin lib lib64 sbin tmp run etc/passwd etc/group etc/nsswitch.conf etc/ld.so.cache; do
        [ ! -e "$root/$place" ] || echo "$place"
    done
    (cd "$root" && find etc/ssl)
    # shellcheck disable=SC2086
    dpkg-query --admindir="$root/var/lib/dpkg" --listfiles $packages | sed -n 's,^/,,p' |
        grep -v -E '^(bin|lib|lib64|sbin)(/|$)|^usr/share/(doc|man|lintian|locale)/' || true
    # dpkg knows what stands in /lib by the way it came.
    # shellcheck disable=SC2086
    dpkg-query --admindir="$root/var/lib/dpkg" --listfiles $packages | sed -n -E 's,^/((lib|lib64|bin)/),usr/\1,p'
} | sort -u | while read -r path; do
    if [ -e "$root/$path" ] || [ -L "$root/$path" ]; then echo "$path"; fi
done >"$folder/files"
tar -C "$root" --no-recursion -c --files-from "$folder/files" | docker import - halfhitch-base >/dev/null
