#!/usr/bin/env bash
# Debian's own QEMU on the emulated host: Debian 13's kernel boots on the machine, its KVM and its
# qemu-system-x86_64 run a guest with the same kernel, and `avicenna why` looks at that process.
# usage: nested-qemu.sh AVICENNA [CPU MODEL WITH AVIC]
# Everything comes from packages by name and is unpacked below target/, nothing is installed. Says so and
# is skipped where packages cannot be had. Takes some minutes.
set -u
avicenna=$1
cpu=${2:-zen4}
case $cpu in
    zen*) ;;
    *) echo "nested-qemu.sh: what it proves of AVIC takes a zen model, not $cpu; passthrough.sh runs QEMU on either vendor" >&2
       exit 2 ;;
esac
root=$(cd "$(dirname "$0")/.." && pwd)
work=$root/target/nested-qemu
. "$root/demo/packages.sh"
need mke2fs modprobe depmod cpio xz
mkdir -p "$work"
apt_of trixie

if [ ! -e "$work/host.img" ]; then
    unpack qemu-system-x86 busybox-static
    apt-cache policy qemu-system-x86 > "$work/versions"
fi
find_kernel

# The guest's initial RAM disk: busybox, and a first process that says so.
tree=$work/guest
rm -rf "$tree" && mkdir -p "$tree"/{bin,dev,proc,sys}
busybox=$work/host/usr/bin/busybox
[ -e "$busybox" ] || busybox=$work/host/bin/busybox
cp "$busybox" "$tree/bin/"
cp "$root/demo/nested-qemu-guest" "$tree/init"
chmod +x "$tree/init"
archive "$tree" "$work/guest.cpio"

# The host's disk: QEMU with its libraries and ROMs, this program, the guest.
host=$work/host
for folder in bin lib lib64 sbin; do
    [ -e "$host/$folder" ] || ln -s "usr/$folder" "$host/$folder"
done
mkdir -p "$host"/{proc,sys,dev,run,tmp,modules}
cp "$avicenna" "$host/usr/bin/avicenna"
strip "$host/usr/bin/avicenna" 2> /dev/null
cp "$vmlinuz" "$host/vmlinuz"
cp "$work/guest.cpio" "$host/guest.cpio"
cp "$root/demo/nested-qemu-host" "$host/proof"
chmod +x "$host/proof"
rm -rf "$host/modules" && unpack_modules "$host/modules" kvm-amd
rm -f "$work/host.img"
mke2fs -q -F -t ext4 -d "$host" "$work/host.img" 700M

# The host's initial RAM disk: the way to that disk.
disk_initrd "$work/tree.cpio" virtio_pci virtio_blk ext4 crc32c_generic

start=$(date +%s)
timeout 3600 "$avicenna" machine run --cpu "$cpu" --cpus 4 --memory 1G --kernel "$vmlinuz" \
    --initrd "$work/tree.cpio" --append "console=ttyS0 quiet" --disk "$work/host.img" \
    < /dev/null 2> "$work/err" | tee "$work/out"
status=${PIPESTATUS[0]}
seconds=$(($(date +%s) - start))

passed=0 failed=0
check() { # what, pattern
    if grep -qE -- "$2" "$work/out"; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED: $1"; fi
}
check "kvm_amd says that AVIC is on" '^avic=(Y|1)'
for name in split default; do
    check "$name: the guest reaches its first process" "^$name guest: first process, 2 processors"
    check "$name: the guest powers off and QEMU ends" "^$name qemu ended: 0"
done
check "split: avicenna says that AVIC is active" '^split why: 0'
check "split: no inhibit stays" '^split inhibits at the end: inhibits=0x0'
check "default: avicenna says that AVIC is not active" '^default why: 1'
check "default: and lint sees it in QEMU's arguments" '^default lint: 1'
check "default: it watched the timer in reinject mode inhibit" 'PIT_REINJ for its whole life, certain'
if grep -qE 'WARNING|BUG:' "$work/out"; then failed=$((failed + 1)); echo "FAILED: the kernel warned"; fi
[ "$status" = 0 ] || { failed=$((failed + 1)); echo "FAILED: status $status instead of power-off"; }
tail -n 1 "$work/err"
echo "$passed passed, $failed failed, $seconds s"
[ "$failed" -eq 0 ]
