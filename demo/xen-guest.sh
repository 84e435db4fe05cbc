#!/usr/bin/env bash
# A guest of Xen on the emulated machine: Debian's Xen with its own dom0, xl and QEMU starts a Linux
# HVM guest, xentrace records its exits, and `avicenna exits report` reads them; they have to be those
# that the machine itself has counted. Or the guest is given a virtual function of an 82599, and sends
# by netperf to another that dom0 has.
# usage: xen-guest.sh AVICENNA [CPU MODEL [XEN OPTIONS [GUEST OPTION [RELEASE [IOMMU [RUNS]]]]]]
#   XEN OPTIONS   such as apicv=0 (default apicv=1), or "apicv=1 iommu=intpost"
#   GUEST OPTION  nopv (default: no channels of Xen's beside the APIC), or quiet for a guest with them
#   RELEASE       bookworm (Xen 4.17), trixie (Xen 4.20)
#   IOMMU         off (default), on, or function, which needs trixie: netperf is not in main before
#   RUNS          what netperf sends, as in passthrough.sh (default 16384:-1000000000,64:-20000000)
# Everything comes from packages by name and is unpacked below target/, nothing is installed. Says so
# and is skipped where packages cannot be had. Takes some minutes.
set -u
avicenna=$1
cpu=${2:-skylake-sp}
option=${3:-apicv=1}
guest=${4:-nopv}
release=${5:-bookworm}
iommu=${6:-off}
runs=${7:-16384:-1000000000,64:-20000000}
packages=(xen-utils-common qemu-system-xen qemu-system-data seabios busybox-static)
modules=(xen-evtchn xen-privcmd xen-gntdev xen-gntalloc xenfs)
machine=()
case $iommu in
    off) machine=(--iommu off) ;;
    on) machine=(--iommu on) ;;
    function)
        packages+=(netperf)
        modules+=(xen-pciback ixgbevf)
        machine=(--iommu on --vf pair) ;;
    *) echo "no way is known to have the IOMMU $iommu"; exit 2 ;;
esac
case $release in bookworm) xen=4.17 ;; trixie) xen=4.20 ;; *) echo "no Xen is known of $release"; exit 2 ;; esac
root=$(cd "$(dirname "$0")/.." && pwd)
work=$root/target/xen-guest-$release
. "$root/demo/packages.sh"
. "$root/demo/netperf-guest.sh"
need mke2fs modprobe depmod cpio xz python3
mkdir -p "$work"
if [ ! -e "$work/host/usr/bin/xl-is-there" ] || { [ "$iommu" = function ] && [ ! -e "$work/host/usr/bin/netperf" ]; }; then
    apt_of "$release"
    unpack "xen-hypervisor-$xen-amd64" "xen-utils-$xen" "${packages[@]}"
    mkdir -p "$work/host/usr/bin" && : > "$work/host/usr/bin/xl-is-there"
fi
find_kernel
host=$work/host
for folder in bin lib lib64 sbin; do
    [ -e "$host/$folder" ] || ln -s "usr/$folder" "$host/$folder"
done
busybox=$host/usr/bin/busybox
[ -e "$busybox" ] || busybox=$host/bin/busybox
# Runs beside each other have files of their own.
own=$work/$cpu-${option//[^a-z0-9]/-}-$guest-$iommu
rm -rf "$own" && mkdir -p "$own"

if [ "$iommu" = function ]; then
    netperf_guest "$own/guest" "$own/guest.cpio"
else
    # The guest's first process is this program, which runs threads that wake each other.
    tree=$own/guest
    mkdir -p "$tree"/{bin,dev,proc,sys,tmp}
    cp "$avicenna" "$tree/init"
    strip "$tree/init" 2> /dev/null
    for library in $(ldd "$avicenna" | grep -o '/[^ ]*\.so[^ ]*'); do
        mkdir -p "$tree$(dirname "$library")" && cp -L "$library" "$tree$library"
    done
    archive "$tree" "$own/guest.cpio"
fi

mkdir -p "$host"/{proc,sys,dev,run,tmp,etc/xen}
rm -rf "$host/var/run" && mkdir -p "$host/var" && ln -s /run "$host/var/run"
: > "$host/etc/xen/xl.conf"
echo "127.0.0.1 localhost" > "$host/etc/hosts"
rm -rf "$host/modules" "$host/proof" "$host/guest.cpio" "$host/vmlinuz"
mkdir "$own/disk" && cp -al "$host/." "$own/disk/"
cp "$vmlinuz" "$own/disk/vmlinuz"
gzip -c "$own/guest.cpio" > "$own/disk/guest.cpio"
cp "$root/demo/xen-guest-host" "$own/disk/proof"
cp "$root/demo/passthrough-gate" "$own/disk/gate"
unpack_modules "$own/disk/modules" "${modules[@]}"
mke2fs -q -F -t ext4 -d "$own/disk" "$own/host.img" 900M
rm -rf "$own/disk"
disk_initrd "$own/tree.cpio" virtio_pci virtio_blk ext4 crc32c_generic
gzip -cf "$own/tree.cpio" > "$own/tree.cpio.gz"
truncate -s 256M "$own/xentrace.img"
if [ "$iommu" = function ]; then words="function=0000:00:15.0 runs=$runs"; else words=""; fi
if [ "$iommu" != function ]; then machine+=(--trace "$own/machine.trace"); fi

timeout 3600 "$avicenna" machine run --cpu "$cpu" --cpus 4 --memory 2G "${machine[@]}" \
    --kernel "$host/boot/xen-$xen-amd64.gz" --module "$vmlinuz console=hvc0 quiet guest=$guest $words" \
    --module "$own/tree.cpio.gz" \
    --append "console=com1 com1=115200,8n1 dom0_mem=1300M dom0_max_vcpus=2 dom0_vcpus_pin loglvl=all $option" \
    --disk "$own/host.img" --disk "$own/xentrace.img,write-through" \
    < /dev/null 2> "$own/err" | sed -u 's/\r//g' | tee "$own/out"
status=${PIPESTATUS[0]}
bytes=$(sed -n 's/^xentrace: \([0-9]*\) bytes$/\1/p' "$own/out")
head -c "${bytes:-0}" "$own/xentrace.img" > "$own/xentrace"
rm -f "$own/host.img" "$own/xentrace.img"
grep -a '^avicenna: ' "$own/err"

if [ "$iommu" != function ]; then
    mhz=$(sed -n 's/_//g; s/^tschertz = \([0-9]*\)000000$/\1/p' "$root/machine/cpu/models/$cpu.toml")
    "$avicenna" exits report --tsc-mhz "$mhz" --format json "$own/xentrace" > "$own/xentrace.json"
    "$avicenna" exits report --format json "$own/machine.trace" > "$own/machine.json"
fi
python3 "$root/demo/xen-guest-checks.py" "$own" "$cpu" "$option" "$iommu" "$status"
