#!/usr/bin/env bash
# An NVM Express controller given to a guest by Debian's own QEMU on the emulated host, with AVIC (or
# APICv) on and off: the host uses the file system on its namespace first, then a guest's two
# processors, each through a pair of queues of its own.
# usage: passthrough-nvme.sh AVICENNA [CPU MODEL]
# Everything comes from packages by name and is unpacked below target/, nothing is installed. Says so and
# is skipped where packages cannot be had. Takes some minutes.
set -u
avicenna=$1
cpu=${2:-zen4}
reads=2000
root=$(cd "$(dirname "$0")/.." && pwd)
work=$root/target/passthrough
kernel=kernel-trixie
. "$root/demo/packages.sh"
need mke2fs e2fsck debugfs modprobe depmod cpio xz awk
mkdir -p "$work"
# What passthrough.sh unpacks will do.
if [ ! -e "$work/versions" ]; then
    apt_of trixie
    unpack qemu-system-x86 busybox-static netperf
    mv "$work/kernel" "$work/$kernel"
    apt-cache policy qemu-system-x86 netperf > "$work/versions"
fi
find_kernel "$kernel"
host=$work/host
busybox=$host/usr/bin/busybox
[ -e "$busybox" ] || busybox=$host/bin/busybox
own=$work/nvme-$cpu
rm -rf "$own" && mkdir -p "$own"

tree=$own/guest
mkdir -p "$tree"/{bin,dev,proc,sys,namespace}
cp "$busybox" "$tree/bin/"
unpack_modules "$tree/modules" nvme ext4 crc32c_generic
cp "$root/demo/passthrough-nvme-guest" "$tree/init"
chmod +x "$tree/init"
archive "$tree" "$own/guest.cpio"

# The host's disk: QEMU with its libraries and ROMs, the guest.
for folder in bin lib lib64 sbin; do
    [ -e "$host/$folder" ] || ln -s "usr/$folder" "$host/$folder"
done
mkdir -p "$host"/{etc,proc,sys,dev,run,tmp} "$own/disk"
cp -al "$host/." "$own/disk/"
cp "$vmlinuz" "$own/disk/vmlinuz"
cp "$own/guest.cpio" "$own/disk/guest.cpio"
cp "$root/demo/passthrough-nvme-host" "$own/disk/proof"
unpack_modules "$own/disk/modules" vfio_iommu_type1 vfio_pci nvme
unpack_modules "$own/disk/kvm" kvm-amd kvm-intel
mke2fs -q -F -t ext4 -d "$own/disk" "$own/host.img" 700M
rm -rf "$own/disk"
disk_initrd "$own/tree.cpio" virtio_pci virtio_blk ext4 crc32c_generic

# The namespace: a file system with a file that everybody is to read.
given=$own/given
mkdir "$given"
seq 1 4000000 | head -c 16M > "$given/given"
(cd "$given" && sha256sum given > given.sha256)
mke2fs -q -F -t ext4 -d "$given" "$own/nvme.img" 128M

start=$(date +%s)
timeout 3600 "$avicenna" machine run --cpu "$cpu" --cpus 4 --memory 1G --iommu on --nvme "$own/nvme.img,write-through" \
    --kernel "$vmlinuz" --initrd "$own/tree.cpio" --append "console=ttyS0 quiet reads=$reads" \
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
at_least() { # a line's beginning, number
    awk -F': ' -v start="$1" -v least="$2" '$1 == start && $2 >= least { found = 1 } END { exit !found }' "$own/out"
}
# A copy that the host or the guest has made, as the image has it now.
is_given() { # name
    debugfs -R "cat /$1" "$own/nvme.img" 2> /dev/null | cmp -s - "$given/given"
}
check "the host reads what was given" says "^host given: OK"
check "the host has a vector for each of its processors" says "^host .* nvme0q4$"
check "what the host wrote is in the image" is_given host
for mode in on off; do
    check "$mode: the guest reads what was given" says "^$mode given: OK"
    check "$mode: the guest has a vector for each of its processors" says "^$mode .* nvme0q2$"
    check "$mode: what the guest's first processor wrote is in the image" is_given "$mode-1"
    check "$mode: what its second wrote is in the image" is_given "$mode-2"
    check "$mode: QEMU ends" says "^$mode qemu ended: 0"
done
check "on: KVM posts all three vectors" says "^on posted: 3"
check "off: KVM posts none" says "^off posted: 0"
for phase in waits runs; do
    check "on: the host takes none of the function's interrupts, the guest $phase" \
        says "^on $phase host's interrupts of the function: 0$"
    check "off: the host takes each, the guest $phase" at_least "off $phase host's interrupts of the function" $((2 * reads))
done
check "the file system in the image is whole" eval 'e2fsck -fn "$own/nvme.img" > "$own/fsck" 2>&1'
if says 'WARNING|BUG:'; then failed=$((failed + 1)); echo "FAILED: a kernel warned"; fi
[ "$status" = 0 ] || { failed=$((failed + 1)); echo "FAILED: status $status instead of power-off"; }
grep -a '^avicenna: ' "$own/err"
echo "$passed passed, $failed failed, $seconds s"
[ "$failed" -eq 0 ]
