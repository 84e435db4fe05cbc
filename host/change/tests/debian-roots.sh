#!/bin/sh
# usage: [SUITES='bookworm trixie'] debian-roots.sh AVICENNA
#
# Root trees of Debian's releases, made of its packages, and plans tried in them with their own tools: see chroot.sh.
# Needs root and mmdebstrap. A tree that cannot be made is said to be skipped.
set -eu

[ $# -ge 1 ] || { sed -n 2p "$0"; exit 2; }
avicenna=$(realpath "$1")
here=$(dirname "$(realpath "$0")")
[ "$(id -u)" = 0 ] || { echo "skipped: root trees need root"; exit 0; }
command -v mmdebstrap >/dev/null || { echo "skipped: root trees need mmdebstrap"; exit 0; }

folder=$(mktemp -d)
trap 'rm -rf --one-file-system "$folder"' EXIT
tools=grub-pc,grub2-common,kmod,systemd,systemd-sysv,initramfs-tools,dracut-core
for suite in ${SUITES:-bookworm trixie}; do
    if ! mmdebstrap --quiet --variant=minbase --include=$tools "$suite" "$folder/$suite" 2>"$folder/log"; then
        tail -3 "$folder/log"
        echo "skipped: a root tree of $suite cannot be made"
        continue
    fi
    echo "$suite: $(cat "$folder/$suite/etc/debian_version")"
    "$here/chroot.sh" "$avicenna" "$folder/$suite"
    rm -rf --one-file-system "${folder:?}/$suite"
done
