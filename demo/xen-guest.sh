#!/usr/bin/env bash
# A guest of Xen on the emulated machine: Debian's Xen with its own dom0, xl and QEMU starts a Linux
# HVM guest, xentrace records its exits, and `avicenna exits report` reads them; they have to be those
# that the machine itself has counted.
# usage: xen-guest.sh AVICENNA [CPU MODEL [XEN OPTION [GUEST OPTION [RELEASE]]]]
#   XEN OPTION    such as apicv=0 (default apicv=1); GUEST OPTION: nopv (default: no channels of Xen's
#   beside the APIC), or quiet for a guest with them; RELEASE: bookworm (Xen 4.17), trixie (Xen 4.20)
# Everything comes from packages by name and is unpacked below target/, nothing is installed. Says so
# and is skipped where packages cannot be had. Takes some minutes.
set -u
avicenna=$1
cpu=${2:-skylake-sp}
option=${3:-apicv=1}
guest=${4:-nopv}
release=${5:-bookworm}
case $release in bookworm) xen=4.17 ;; trixie) xen=4.20 ;; *) echo "no Xen is known of $release"; exit 2 ;; esac
root=$(cd "$(dirname "$0")/.." && pwd)
work=$root/target/xen-guest-$release
. "$root/demo/packages.sh"
need mke2fs modprobe depmod cpio xz python3
mkdir -p "$work"
apt_of "$release"
if [ ! -e "$work/host/usr/bin/xl-is-there" ]; then
    unpack "xen-hypervisor-$xen-amd64" "xen-utils-$xen" xen-utils-common qemu-system-xen qemu-system-data seabios busybox-static
    mkdir -p "$work/host/usr/bin" && : > "$work/host/usr/bin/xl-is-there"
fi
find_kernel
host=$work/host
for folder in bin lib lib64 sbin; do
    [ -e "$host/$folder" ] || ln -s "usr/$folder" "$host/$folder"
done
busybox=$host/usr/bin/busybox
[ -e "$busybox" ] || busybox=$host/bin/busybox

# The guest's first process is this program, which runs threads that wake each other.
tree=$work/guest
rm -rf "$tree" && mkdir -p "$tree"/{bin,dev,proc,sys,tmp}
cp "$avicenna" "$tree/init"
strip "$tree/init" 2> /dev/null
for library in $(ldd "$avicenna" | grep -o '/[^ ]*\.so[^ ]*'); do
    mkdir -p "$tree$(dirname "$library")" && cp -L "$library" "$tree$library"
done
archive "$tree" "$work/guest.cpio"

mkdir -p "$host"/{proc,sys,dev,run,tmp,modules,etc/xen}
rm -rf "$host/var/run" && mkdir -p "$host/var" && ln -s /run "$host/var/run"
: > "$host/etc/xen/xl.conf"
cp "$vmlinuz" "$host/vmlinuz"
gzip -c "$work/guest.cpio" > "$host/guest.cpio"
cp "$root/demo/xen-guest-host" "$host/proof"
rm -rf "$host/modules" && unpack_modules "$host/modules" xen-evtchn xen-privcmd xen-gntdev xen-gntalloc xenfs
rm -f "$work/host.img"
mke2fs -q -F -t ext4 -d "$host" "$work/host.img" 900M
disk_initrd "$work/tree.cpio" virtio_pci virtio_blk ext4 crc32c_generic
gzip -cf "$work/tree.cpio" > "$work/tree.cpio.gz"
truncate -s 0 "$work/xentrace.img" && truncate -s 256M "$work/xentrace.img"

timeout 3600 "$avicenna" machine run --cpu "$cpu" --cpus 4 --memory 2G \
    --kernel "$host/boot/xen-$xen-amd64.gz" --module "$vmlinuz console=hvc0 quiet guest=$guest" \
    --module "$work/tree.cpio.gz" \
    --append "console=com1 com1=115200,8n1 dom0_mem=1300M dom0_max_vcpus=2 dom0_vcpus_pin $option" \
    --disk "$work/host.img" --disk "$work/xentrace.img,write-through" --trace "$work/machine.trace" \
    < /dev/null 2> "$work/err" | tr -d '\r' | tee "$work/out"
status=${PIPESTATUS[0]}
bytes=$(sed -n 's/^xentrace: \([0-9]*\) bytes$/\1/p' "$work/out")
head -c "${bytes:-0}" "$work/xentrace.img" > "$work/xentrace"
rm -f "$work/host.img" "$work/xentrace.img"

mhz=$(sed -n 's/_//g; s/^tschertz = \([0-9]*\)000000$/\1/p' "$root/machine/cpu/models/$cpu.toml")
"$avicenna" exits report --tsc-mhz "$mhz" --format json "$work/xentrace" > "$work/xentrace.json"
"$avicenna" exits report --format json "$work/machine.trace" > "$work/machine.json"
tail -n 1 "$work/err"
python3 - "$work/xentrace.json" "$work/machine.json" "$status" << 'PY'
import json, sys
def counts(path):
    report = json.load(open(path))["reports"][0]
    return {row["name"]: row["count"] for row in report["summary"]["table"]["rows"]}
xen, machine = (counts(path) for path in sys.argv[1:3])
for name in sorted(machine, key=machine.get, reverse=True):
    print(f"{name:20} {xen.get(name, 0):8} {machine[name]:8}")
print(f"{'total':20} {sum(xen.values()):8} {sum(machine.values()):8}")
checks = {
    "the machine powered off": sys.argv[3] == "0",
    "the guest ran": sum(machine.values()) > 1000,
    "xentrace and the machine counted the same exits": xen == machine,
}
for what, holds in checks.items():
    holds or print("FAILED:", what)
print(f"{sum(checks.values())} passed, {len(checks) - sum(checks.values())} failed")
sys.exit(0 if all(checks.values()) else 1)
PY
