#!/usr/bin/env bash
# Network functions given to guests by Debian's own QEMU on the emulated host, with AVIC (or APICv) on
# and off: of two virtual functions of an 82599 with a wire between, one stays with the host, the other
# goes to a guest with vfio-pci, and netperf sends from there. Throughput and processor time, as the
# guest sees it and as the host does, are compared.
# usage: passthrough.sh AVICENNA [CPU MODEL [RUNS [GUESTS [RELEASE]]]]
#   RUNS     SIZE:LENGTH,... messages of SIZE bytes for LENGTH seconds, or until -LENGTH bytes are sent
#            (default 16384:-400000000,64:-20000000)
#   GUESTS   1 with two virtual processors on two of the host's (default), or 2 with one each that
#            share a processor, each with a function and a wire of its own
#   RELEASE  whose kernel both have: bookworm (6.1), trixie (6.12, default), sid
#   APPEND   in the environment: further words for the host's kernel, such as intremap=nopost
# Everything comes from packages by name and is unpacked below target/, nothing is installed. Says so and
# is skipped where packages cannot be had. Takes some minutes.
set -u
avicenna=$1
cpu=${2:-zen4}
runs=${3:-16384:-400000000,64:-20000000}
guests=${4:-1}
release=${5:-trixie}
root=$(cd "$(dirname "$0")/.." && pwd)
work=$root/target/passthrough
kernel=kernel-$release
. "$root/demo/packages.sh"
need mke2fs modprobe depmod cpio xz awk
mkdir -p "$work"
# All other packages are trixie's: netperf is not in main before.
if [ ! -e "$work/versions" ]; then
    apt_of trixie
    unpack qemu-system-x86 busybox-static netperf
    mv "$work/kernel" "$work/kernel-trixie"
    apt-cache policy qemu-system-x86 netperf > "$work/versions"
fi
if [ ! -e "$work/$kernel" ]; then
    apt_of "$release"
    unpack_kernel "$kernel"
fi
find_kernel "$kernel"
host=$work/host
busybox=$host/usr/bin/busybox
[ -e "$busybox" ] || busybox=$host/bin/busybox
# Runs beside each other have files of their own.
own=$work/$cpu-$release-$guests${APPEND:+-${APPEND//[^a-z0-9]/-}}
rm -rf "$own" && mkdir -p "$own"

. "$root/demo/netperf-guest.sh"
netperf_guest "$own/guest" "$own/guest.cpio"

# The host's disk: QEMU with its libraries and ROMs, netserver, the guest.
for folder in bin lib lib64 sbin; do
    [ -e "$host/$folder" ] || ln -s "usr/$folder" "$host/$folder"
done
mkdir -p "$host"/{etc,proc,sys,dev,run,tmp} "$own/disk"
echo "127.0.0.1 localhost" > "$host/etc/hosts"
cp -al "$host/." "$own/disk/"
cp "$vmlinuz" "$own/disk/vmlinuz"
cp "$own/guest.cpio" "$own/disk/guest.cpio"
cp "$root/demo/passthrough-host" "$own/disk/proof"
cp "$root/demo/passthrough-gate" "$own/disk/gate"
unpack_modules "$own/disk/modules" vfio_iommu_type1 vfio_pci ixgbevf
unpack_modules "$own/disk/kvm" kvm-amd kvm-intel
mke2fs -q -F -t ext4 -d "$own/disk" "$own/host.img" 700M
rm -rf "$own/disk"
disk_initrd "$own/tree.cpio" virtio_pci virtio_blk ext4 crc32c_generic

pairs=()
for _ in $(seq "$guests"); do pairs+=(--vf pair); done
start=$(date +%s)
timeout 3600 "$avicenna" machine run --cpu "$cpu" --cpus 4 --memory 1G "${pairs[@]}" \
    --kernel "$vmlinuz" --initrd "$own/tree.cpio" --append "console=ttyS0 quiet guests=$guests runs=$runs ${APPEND:-}" \
    --disk "$own/host.img" < /dev/null 2> "$own/err" | sed -u 's/\r//g' | tee "$own/out"
status=${PIPESTATUS[0]}
seconds=$(($(date +%s) - start))
rm -f "$own/host.img"

passed=0 failed=0
check() { # what, command...
    local what=$1
    shift
    if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED: $what"; fi
}
says() { grep -qE -- "$1" "$own/out"; }
number() { # a line's beginning
    sed -n "s/^$1 //p" "$own/out" | head -n 1
}
# One number of all guests: throughput (1), bytes sent (3) and received (4). [mode, run, which]
sum() {
    awk -F, -v start="^$1 [0-9]+ netperf $2 " -v which="$3" '$0 ~ start { sub(/.* /, "", $1); sum += $which
        found++ } END { print found ? sum : "none" }' "$own/out"
}
# The guests' own view: processor time in microseconds (busy), and of how many (elapsed).
busy() { sed -n "s/^$1 [0-9]* busy $2 \([0-9]*\) of.*/\1/p" "$own/out" | awk '{ sum += $1 } END { print sum }'; }
arrives() { # mode, run
    awk -v sent="$(sum "$1" "$2" 3)" -v received="$(sum "$1" "$2" 4)" -v least="${2#*:}" -v guests="$guests" 'BEGIN {
        exit !(sent > 0 && (least > 0 || sent >= -least * guests && received >= -least * guests)) }'
}
fast() { # mode, run: nine tenths of the wire's rate
    awk -v rate="$(sum "$1" "$2" 1)" 'BEGIN { exit !(rate >= 9000) }'
}
posts() { case $cpu-${APPEND:-} in ivy-bridge-ep-* | haswell-ep-* | *intremap=nopost* | *intr=legacy*) return 1 ;; esac; }
for mode in on off; do
    for guest in $(seq "$guests"); do
        check "$mode: the function of guest $guest has a link" says "^$mode $guest .*NIC Link is Up 10 Gbps"
        check "$mode: QEMU $guest ends" says "^$mode qemu $guest ended: 0"
    done
    for run in ${runs//,/ }; do
        check "$mode: all bytes of $run arrive" arrives "$mode" "$run"
        [ "${run%:*}" -lt 16384 ] || check "$mode: $run at 9 Gb/s or more" fast "$mode" "$run"
        if [ "$mode" = on ] && posts; then
            check "on: the host takes no interrupt of a function in $run" says "^on host $run interrupts 0$"
        else
            check "$mode: the host takes the functions' interrupts in $run" says "^$mode host $run interrupts [1-9]"
        fi
    done
done
if posts; then check "on: KVM posts all three vectors of each" says "^on posted: $((3 * guests))\$"; fi
check "off: KVM posts none" says "^off posted: 0"
check "no frame on a wire has a wrong checksum" test "$(grep -c ', 0 with a wrong checksum' "$own/err")" = $((2 * guests))
if says 'WARNING|BUG:'; then failed=$((failed + 1)); echo "FAILED: a kernel warned"; fi
[ "$status" = 0 ] || { failed=$((failed + 1)); echo "FAILED: status $status instead of power-off"; }
grep -a '^avicenna: ' "$own/err"

# What the published tests give: the same with APICv against without it.
printf '%-22s %12s %12s %9s\n' "$cpu, $version" off on change
row() { # name, off, on
    awk -v name="$1" -v off="$2" -v on="$3" 'BEGIN {
        printf "%-22s %12.0f %12.0f %8.1f%%\n", name, off, on, off ? 100 * (on / off - 1) : 0 }'
}
for run in ${runs//,/ }; do
    echo "$run"
    row "Mb/s" "$(sum off "$run" 1)" "$(sum on "$run" 1)"
    row "guests busy, us" "$(busy off "$run")" "$(busy on "$run")"
    for what in executing polling exits halt_exits irq_exits interrupts; do
        row "host: $what" "$(number "off host $run $what")" "$(number "on host $run $what")"
    done
done
echo "$passed passed, $failed failed, $seconds s"
[ "$failed" -eq 0 ]
