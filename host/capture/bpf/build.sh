#!/bin/sh
# Builds the committed object; only needed after a change of exits.bpf.c.
set -eu
cd "$(dirname "$0")"
clang -O2 -target bpf -Wall -c exits.bpf.c -o exits.bpf.o
llvm-strip -g exits.bpf.o 2>/dev/null || true
