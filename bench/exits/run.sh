#!/bin/sh
# Compares `avicenna exits report` with the installed `perf kvm stat report` on the same files in one
# run: wall time (best of RUNS, page cache warm), peak resident memory, and the same table.
#
# usage: bench/exits/run.sh [RUNS]
# Recordings are made under TMPDIR from the committed ones: 2.2 GB of one CPU, and of 16 CPUs where
# vCPU threads move (needs AVICENNA_DATA for the two-CPU recording; left out where it is missing).
set -eu
cd "$(dirname "$0")/../.."
runs=${1:-5}
work=${TMPDIR:-/tmp}/avicenna-bench-exits
data=host/capture/tests/data
mkdir -p "$work"
cargo build --release -q -p avicenna
cargo build --release -q -p avicenna-capture --example repeat_recording
avicenna=target/release/avicenna
repeat=target/release/examples/repeat_recording

make_file() { # name source bytes copies
	if [ ! -s "$work/$1" ]; then
		zstd -dqf "$2" -o "$work/source.data"
		"$repeat" "$work/source.data" "$work/$1" "$3" "$4"
	fi
}
zstd -dqf "$data/small-x2apic-big.data.zst" -o "$work/small.data"
make_file one-cpu.data "$data/small-x2apic-big.data.zst" 2200000000 1
files="small.data one-cpu.data"
if [ -r "${AVICENNA_DATA:-/nonexistent}/perf/mid.data.zst" ]; then
	make_file sixteen-cpus.data "$AVICENNA_DATA/perf/mid.data.zst" 2200000000 8
	files="$files sixteen-cpus.data"
else
	echo "NOTICE: AVICENNA_DATA is not set: the 16-CPU recording is left out"
fi

best() { # command...: prints best seconds and largest memory in KB
	n=0
	while [ "$n" -lt "$runs" ]; do
		/usr/bin/time -f '%e %U %S %M' -o "$work/time" "$@" >"$work/out" 2>"$work/err" || true
		tail -1 "$work/time"
		n=$((n + 1))
	done | sort -n | awk 'NR == 1 { wall = $1; cpu = $2 + $3 } $4 > memory { memory = $4 }
		END { print wall, cpu, memory }'
}

echo "CPUs: $(nproc); load: $(cut -d' ' -f1-3 /proc/loadavg); $(uname -r); $(perf --version)"
printf '%-18s %8s | %9s %8s %9s | %9s %8s %9s | %6s %6s | %s\n' recording MB \
	'perf s' 'CPU s' 'MB' 'ours s' 'CPU s' 'MB' 'ratio' 'GB/s' 'table'
for file in $files; do
	path=$work/$file
	cat "$path" >/dev/null
	set -- $(best perf kvm --host -i "$path" stat report)
	peer=$1 peer_cpu=$2 peer_memory=$3
	grep -h '%.*us' "$work/out" "$work/err" | sed 's/).*/)/; s/^ *//' >"$work/peer.table"
	set -- $(best "$avicenna" exits report "$path")
	grep -h '( +-' "$work/out" | sed 's/).*/)/; s/^ *//' >"$work/our.table"
	same=differs
	cmp -s "$work/peer.table" "$work/our.table" && same=same
	size=$(stat -c %s "$path")
	awk -v f="$file" -v b="$size" -v p="$peer" -v pc="$peer_cpu" -v pm="$peer_memory" -v o="$1" \
		-v oc="$2" -v om="$3" -v s="$same" 'BEGIN {
		r = o > 0 ? sprintf("%.1f", p / o) : ">" p / 0.01
		printf "%-18s %8.0f | %9.2f %8.2f %9.1f | %9.2f %8.2f %9.1f | %6s %6.1f | %s\n", f, b / 1e6,
			p, pc, pm / 1024, o, oc, om / 1024, r, o > 0 ? b / o / 1e9 : 0, s }'
done
