#!/bin/bash
# Compares `avicenna exits report` with the installed `perf kvm stat report` on the same files in one
# run, the two by turns: median wall time, least CPU time, largest memory, and whether the tables are
# the same. Page cache warm; what each holds in memory does not count page cache that is not mapped.
#
# usage: bench/exits/run.sh [RUNS]
# AVICENNA=BINARY     that one instead of building it
# MEASURE='chrt -f 1' put in front of every command that is measured, on a machine that is not idle
# AVICENNA_DATA=DIR   has perf/mid.data.zst, of which the 16-CPU recording is made
#
# Recordings are made under TMPDIR from the committed ones: 2.2 GB of one CPU, and of 16 CPUs where
# vCPU threads move.
set -eu
cd "$(dirname "$0")/../.."
runs=${1:-5}
measure=${MEASURE:-}
work=${TMPDIR:-/tmp}/avicenna-bench-exits
data=host/capture/tests/data
mkdir -p "$work"
if [ -z "${AVICENNA:-}" ]; then
	cargo build --release -q -p avicenna
	AVICENNA=target/release/avicenna
fi

make_file() { # name source bytes copies
	if [ ! -s "$work/$1" ]; then
		cargo build --release -q -p avicenna-capture --example repeat_recording
		zstd -dqf "$2" -o "$work/source.data"
		target/release/examples/repeat_recording "$work/source.data" "$work/$1" "$3" "$4"
	fi
}
zstd -dqf "$data/small-x2apic-big.data.zst" -o "$work/small.data"
make_file one-cpu.data "$data/small-x2apic-big.data.zst" 2200000000 1
files="small.data one-cpu.data"
if [ -r "${AVICENNA_DATA:-/nonexistent}/perf/mid.data.zst" ]; then
	zstd -dqf "$AVICENNA_DATA/perf/mid.data.zst" -o "$work/mid.data"
	make_file sixteen-cpus.data "$AVICENNA_DATA/perf/mid.data.zst" 2200000000 8
	files="small.data mid.data one-cpu.data sixteen-cpus.data"
else
	echo "NOTICE: AVICENNA_DATA is not set: the recordings of 2 and of 16 CPUs are left out"
fi

once() { # log command...: appends wall ms, CPU ms and KB
	log=$1
	shift
	begun=${EPOCHREALTIME/./}
	$measure /usr/bin/time -f '%U %S %M' -o "$work/time" "$@" >"$work/out" 2>"$work/err" || true
	ended=${EPOCHREALTIME/./}
	tail -1 "$work/time" |
		awk -v us=$((ended - begun)) '{ print us / 1000, ($1 + $2) * 1000, $3 }' >>"$log"
}
median() { sort -n "$1" | awk '{ wall[NR] = $1 } END { print wall[int((NR + 1) / 2)] }'; }
least_cpu() { awk 'NR == 1 || $2 < least { least = $2 } END { print least }' "$1"; }
most_memory() { awk '$3 > most { most = $3 } END { print most / 1024 }' "$1"; }

echo "CPUs: $(nproc); load: $(cut -d' ' -f1-3 /proc/loadavg); $(uname -r); $(perf --version)"
printf '%-18s %5s | %9s %8s %8s | %9s %8s %8s | %6s %6s | %6s | %s\n' recording MB \
	'perf ms' 'CPU ms' 'MB' 'ours ms' 'CPU ms' 'MB' 'wall x' 'CPU x' 'GB/s' table
for file in $files; do
	path=$work/$file
	cat "$path" >/dev/null
	rm -f "$work/peer" "$work/ours"
	n=0
	while [ "$n" -lt "$runs" ]; do
		once "$work/peer" perf kvm --host -i "$path" stat report
		grep -h '%.*us' "$work/out" "$work/err" | sed 's/).*/)/; s/^ *//' >"$work/peer.table"
		once "$work/ours" "$AVICENNA" exits report "$path"
		grep -h '( +-' "$work/out" | sed 's/).*/)/; s/^ *//' >"$work/our.table"
		n=$((n + 1))
	done
	same=differs
	cmp -s "$work/peer.table" "$work/our.table" && same=same
	awk -v f="$file" -v b="$(stat -c %s "$path")" -v s="$same" \
		-v p="$(median "$work/peer")" -v pc="$(least_cpu "$work/peer")" \
		-v pm="$(most_memory "$work/peer")" -v o="$(median "$work/ours")" \
		-v oc="$(least_cpu "$work/ours")" -v om="$(most_memory "$work/ours")" 'BEGIN {
		printf "%-18s %5.0f | %9.1f %8.0f %8.1f | %9.1f %8.0f %8.1f | %6.1f %6s | %6.1f | %s\n", f,
			b / 1e6, p, pc, pm, o, oc, om, p / o, (oc > 0 ? sprintf("%.1f", pc / oc) : "-"),
			b / o / 1e6, s }'
done
dd if="$work/one-cpu.data" of=/dev/null bs=256k 2>&1 | tail -1 | sed "s/^/one thread that only reads: /"
