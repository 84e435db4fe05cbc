#!/usr/bin/env bash
# A network function given to a guest by Debian's own QEMU on the emulated host: of two virtual
# functions of an 82599 with a wire between, one stays with the host, the other goes to the guest with
# vfio-pci, and netperf sends from there with AVIC (or APICv) on and off.
# usage: passthrough.sh AVICENNA [CPU MODEL]
# Everything comes from packages by name and is unpacked below target/, nothing is installed. Says so and
# is skipped where packages cannot be had. Takes some minutes.
set -u
avicenna=$1
cpu=${2:-zen4}
root=$(cd "$(dirname "$0")/.." && pwd)
work=$root/target/passthrough
bytes=200000000
. "$root/demo/packages.sh"
need mke2fs modprobe depmod cpio xz awk
mkdir -p "$work"
apt_of trixie
if [ ! -e "$work/host.img" ]; then
    unpack qemu-system-x86 busybox-static netperf
    apt-cache policy qemu-system-x86 netperf > "$work/versions"
fi
find_kernel
host=$work/host
busybox=$host/usr/bin/busybox
[ -e "$busybox" ] || busybox=$host/bin/busybox

# The guest's initial RAM disk: busybox, the function's driver, netperf with its libraries.
tree=$work/guest
libraries=usr/lib/x86_64-linux-gnu
rm -rf "$tree" && mkdir -p "$tree"/{bin,dev,etc,proc,sys,lib64,usr/bin,"$libraries"}
ln -s usr/lib "$tree/lib"
cp "$busybox" "$tree/bin/"
cp "$host/usr/bin/netperf" "$tree/usr/bin/"
cp -L "$host/$libraries"/{libc.so.6,libm.so.6} "$tree/$libraries/"
cp -L "$host/usr/lib64/ld-linux-x86-64.so.2" "$tree/lib64/"
echo "127.0.0.1 localhost" > "$tree/etc/hosts"
unpack_modules "$tree/modules" ixgbevf
cp "$root/demo/passthrough-guest" "$tree/init"
chmod +x "$tree/init"
archive "$tree" "$work/guest.cpio"

# The host's disk: QEMU with its libraries and ROMs, netserver, the guest.
for folder in bin lib lib64 sbin; do
    [ -e "$host/$folder" ] || ln -s "usr/$folder" "$host/$folder"
done
mkdir -p "$host"/{etc,proc,sys,dev,run,tmp}
echo "127.0.0.1 localhost" > "$host/etc/hosts"
cp "$vmlinuz" "$host/vmlinuz"
cp "$work/guest.cpio" "$host/guest.cpio"
cp "$root/demo/passthrough-host" "$host/proof"
rm -rf "$host/modules" "$host/kvm"
unpack_modules "$host/modules" vfio_iommu_type1 vfio_pci ixgbevf
unpack_modules "$host/kvm" kvm-amd kvm-intel
rm -f "$work/host.img"
mke2fs -q -F -t ext4 -d "$host" "$work/host.img" 700M
disk_initrd "$work/tree.cpio" virtio_pci virtio_blk ext4 crc32c_generic

start=$(date +%s)
timeout 3600 "$avicenna" machine run --cpu "$cpu" --cpus 4 --memory 1G --iommu on --vf pair --kernel "$vmlinuz" \
    --initrd "$work/tree.cpio" --append "console=ttyS0 quiet bytes=$bytes" --disk "$work/host.img" \
    < /dev/null 2> "$work/err" | tr -d '\r' | tee "$work/out"
status=${PIPESTATUS[0]}
seconds=$(($(date +%s) - start))

passed=0 failed=0
check() { # what, command...
    local what=$1
    shift
    if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED: $what"; fi
}
says() { grep -qE -- "$1" "$work/out"; }
# What netperf sent arrived, at nine tenths of the wire's rate or more.
moves() { # mode
    awk -F, -v mode="$1" -v least="$bytes" '$1 ~ "^" mode " [0-9.]+$" {
        sub(/.* /, "", $1); found = $1 >= 9000 && $3 >= least && $4 >= least } END { exit !found }' "$work/out"
}
for mode in on off; do
    check "$mode: the guest's function has a link" says "^$mode .*NIC Link is Up 10 Gbps"
    check "$mode: all bytes arrive, at 9 Gb/s or more" moves "$mode"
    check "$mode: QEMU ends" says "^$mode qemu ended: 0"
done
check "on: KVM posts all three vectors" says "^on posted: 3"
check "on: the host takes none of the function's interrupts" says "^on host's interrupts of the function: 0$"
check "off: KVM posts none" says "^off posted: 0"
check "off: the host takes them" says "^off host's interrupts of the function: [1-9]"
check "no frame on the wire has a wrong checksum" test "$(grep -c ', 0 with a wrong checksum' "$work/err")" = 2
if says 'WARNING|BUG:'; then failed=$((failed + 1)); echo "FAILED: the kernel warned"; fi
[ "$status" = 0 ] || { failed=$((failed + 1)); echo "FAILED: status $status instead of power-off"; }
grep -a '^avicenna: ' "$work/err"
echo "$passed passed, $failed failed, $seconds s"
[ "$failed" -eq 0 ]
