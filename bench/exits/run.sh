#!/bin/bash
# Compares `avicenna exits report` with the installed `perf kvm stat report` on the same files in one
# run, the two by turns: median wall time, least CPU time, largest memory, and whether the tables are
# the same. Page cache warm; what each holds in memory does not count page cache that is not mapped.
#
# usage: bench/exits/run.sh [RUNS]
# AVICENNA=BINARY     that one instead of building it
# MEASURE='chrt -f 1' put in front of what measures and what is measured, on a machine that is not idle
# ANEW=1             read the long recordings from disk before, which puts them into large pages of the
#                    cache where the file system does that; what has just been written is in small ones
# AVICENNA_DATA=DIR   has perf/mid.data.zst, of which the 16-CPU recording is made
#
# Recordings are made under TMPDIR from the committed ones: 2.2 GB of one CPU, and of 16 CPUs where
# vCPU threads move. Ends with status 1 if a table differs, or if the 2.2 GB of one CPU are not read
# GOAL times as fast as perf reads them: on a machine that is idle.
set -eu
cd "$(dirname "$0")/../.."
runs=${1:-5}
measure=${MEASURE:-}
GOAL=12
status=0
work=${TMPDIR:-/tmp}/avicenna-bench-exits
data=host/capture/tests/data
mkdir -p "$work"
if [ -z "${AVICENNA:-}" ]; then
	cargo build --profile dist -q -p avicenna
	AVICENNA=target/dist/avicenna
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

echo "CPUs: $(nproc); load: $(cut -d' ' -f1-3 /proc/loadavg); $(uname -r); $(perf --version)"
printf '%-18s %5s | %9s %8s %8s | %9s %8s %8s | %6s %6s | %6s | %s\n' recording MB \
	'perf ms' 'CPU ms' 'MB' 'ours ms' 'CPU ms' 'MB' 'wall x' 'CPU x' 'GB/s' table
for file in $files; do
	path=$work/$file
	if [ -n "${ANEW:-}" ]; then
		sync "$path"
		dd of="$path" oflag=nocache conv=notrunc,fdatasync count=0 2>/dev/null
	fi
	cat "$path" >/dev/null
	# shellcheck disable=SC2086
	$measure python3 bench/exits/measure.py "$runs" "$work/out" \
		perf kvm --host -i "$path" stat report -- "$AVICENNA" exits report "$path" >"$work/figures"
	grep '%.*us' "$work/out0" | sed 's/).*/)/; s/^ *//' >"$work/peer.table"
	grep '( +-' "$work/out1" | sed 's/).*/)/; s/^ *//' >"$work/our.table"
	same=differs
	if cmp -s "$work/peer.table" "$work/our.table"; then same=same; else status=1; fi
	tr '\n' ' ' <"$work/figures" | awk -v f="$file" -v b="$(stat -c %s "$path")" -v s="$same" '{
		printf "%-18s %5.0f | %9.1f %8.0f %8.1f | %9.1f %8.0f %8.1f | %6.1f %6.1f | %6.1f | %s\n", f,
			b / 1e6, $1, $2, $3, $4, $5, $6, $1 / $4, $2 / $5, b / $4 / 1e6, s }'
	if [ "$file" = one-cpu.data ] && ! tr '\n' ' ' <"$work/figures" | awk -v goal=$GOAL '{ exit $1 < goal * $4 }'; then
		echo "below the goal of $GOAL times for $file"
		status=1
	fi
done
# The longer recording may have driven it out of the cache.
cat "$work/one-cpu.data" >/dev/null
dd if="$work/one-cpu.data" of=/dev/null bs=256k 2>&1 | tail -1 | sed "s/^/one thread that only reads: /"
exit $status
