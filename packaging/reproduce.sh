#!/bin/sh
# Builds this commit once more in another folder and compares: packaging/reproduce.sh BINARY
set -eu
binary=$(realpath "$1")
other=$(mktemp -d)
trap 'rm -rf "$other"' EXIT
git archive HEAD | tar -x -C "$other"
make -s -C "$other" --eval='built: ; $(MAPPED_BUILD)' built
cmp "$binary" "$other/target/dist/avicenna"
echo "the same $(stat -c %s "$binary") bytes: $(sha256sum "$binary" | cut -c1-16)"
