#!/bin/sh
# usage: chroot.sh AVICENNA ROOT
#
# Plans applied inside a root tree of a distribution (debootstrap makes one) with its own tools, their result read, and
# everything taken back and compared. Needs root. The tree is described as an AMD host whose AVIC and posted interrupts
# are off; mounts stay in a namespace of the script's own, files are put back. What cannot be tried is said.
set -eu

[ $# = 2 ] || { sed -n 2p "$0"; exit 2; }
if [ "${INSIDE:-}" != yes ]; then
    for tool in unshare chroot sha256sum; do
        command -v $tool >/dev/null || { echo "skipped: no $tool here"; exit 0; }
    done
    [ "$(id -u)" = 0 ] || { echo "skipped: needs root"; exit 0; }
    exec env INSIDE=yes unshare -m --propagation private "$0" "$@"
fi
avicenna=$(realpath "$1")
root=$(realpath "$2")
kernel=6.12.0-test

here=$(dirname "$(realpath "$0")")

# Programs that are not to be found for a while, since another one is tried.
moved=
aside() {
    for program in "$@"; do
        place=$(chroot "$root" sh -c "command -v $program") || continue
        mv "$root$place" "$root$place.aside"
        moved="$moved $place"
    done
}
put_back() {
    for place in $moved; do
        mv "$root$place.aside" "$root$place"
    done
    moved=
}
passed=0
ok() { passed=$((passed + 1)) && echo "ok: $1"; }
has() { chroot "$root" sh -c "command -v $1" >/dev/null 2>&1; }
failed() { echo "FAILED: $1"; exit 1; }
put() { mkdir -p "$root/$(dirname "$1")"; printf '%s\n' "$2" >"$root/$1"; }
linux_lines() { grep 'vmlinuz-' "$root/boot/grub/grub.cfg"; }

# What a plan may change: configuration and boot partition. Records are the program's own.
state() { (cd "$root" && find etc boot -type f ! -name '*.cache' -exec sha256sum {} + | sort -k 2); }

mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --bind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/sys"
mount -t tmpfs tmpfs "$root/mnt"

put mnt/cpuinfo "processor	: 0
vendor_id	: AuthenticAMD
cpu family	: 25
model		: 17
stepping	: 1
flags		: svm npt avic x2avic cx16"
put mnt/cmdline "root=/dev/vda quiet amd_iommu_intr=legacy"
put mnt/osrelease "$kernel"
for pair in cpuinfo:cpuinfo cmdline:cmdline osrelease:sys/kernel/osrelease; do
    mount --bind "$root/mnt/${pair%%:*}" "$root/proc/${pair#*:}"
done
module_is() {
    rm -rf "$root/sys/module/kvm_amd"
    put sys/module/kvm_amd/parameters/avic N
    put sys/module/kvm_amd/parameters/npt Y
    [ "$1" = built-in ] || { put sys/module/kvm_amd/initstate live; put sys/module/kvm_amd/refcnt 0; }
}
put sys/module/kvm/refcnt 1
put sys/class/iommu/ivhd0/amd-iommu/features 25bf732fa2295afe:1d

# The folders that plans touch, as they were; a kernel for the tools to find.
folders="etc/kernelstub etc/default etc/kernel etc/modprobe.d etc/initramfs-tools etc/dracut.conf.d boot"
saved=$(mktemp -d)
for folder in $folders; do
    mkdir -p "$root/$folder" "$saved/$folder"
    cp -a "$root/$folder/." "$saved/$folder/"
done
restore() {
    put_back
    for folder in $folders; do
        mkdir -p "$root/$folder"
        find "$root/$folder" -mindepth 1 -delete
        cp -a "$saved/$folder/." "$root/$folder/"
    done
    rm -rf "$root/usr/lib/modules/$kernel" "$root/var/lib/avicenna" "$saved"
}
trap restore EXIT
put "boot/vmlinuz-$kernel" kernel
put "boot/initrd.img-$kernel" initrd
put "usr/lib/modules/$kernel/vmlinuz" kernel

# What modprobe ends with, whoever wrote it.
modprobe_gives() {
    has modprobe || { echo "skipped: no modprobe in $root"; return 0; }
    given=$(chroot "$root" modprobe -c | grep '^options kvm_amd' | tr ' ' '\n' | grep '^avic=' | tail -1)
    [ "$given" = "$1" ] || failed "modprobe gives '$given', not '$1'"
}

# Applied, checked by the given function, taken back to the byte.
try() {
    before=$(state)
    "$avicenna" enable --root "$root" --chroot --apply --yes >"$root/mnt/said" 2>&1 ||
        { cat "$root/mnt/said"; failed "$1: apply"; }
    $2 || { cat "$root/mnt/said"; failed "$1: not what was planned"; }
    "$avicenna" rollback --root "$root" --chroot --yes >"$root/mnt/said" 2>&1 ||
        { cat "$root/mnt/said"; failed "$1: rollback"; }
    rm -rf "$root/var/lib/avicenna"
    if [ "$before" != "$(state)" ]; then
        state >"$root/mnt/after"
        echo "$before" | diff - "$root/mnt/after" || true
        failed "$1: not taken back"
    fi
    ok "$1"
}

# A boot partition, mounted below the root: of ext4, since it only has to be one. It goes with its last mount.
has_partitions() { command -v mkfs.ext4 >/dev/null && losetup -f >/dev/null 2>&1; }
partition() {
    truncate -s 16M "$root/mnt/partition"
    mkfs.ext4 -q -F "$root/mnt/partition"
    device=$(losetup -f --show "$root/mnt/partition")
    mkdir -p "$root/$1"
    mount "$device" "$root/$1"
    losetup -d "$device"
}

module_is loaded
# Where these are installed they come before the others.
aside kernelstub sdbootutil transactional-update
if has update-grub && has grub-probe; then
    put etc/modprobe.d/kvm.conf "# mine
options kvm_amd nested=1 \\
  avic=0"
    put etc/default/grub "GRUB_TIMEOUT=5
GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"
GRUB_CMDLINE_LINUX='amd_iommu_intr=legacy' # found by trial"
    put etc/default/grub.d/50-cloud.cfg 'GRUB_CMDLINE_LINUX_DEFAULT="console=ttyS0 amd_iommu_intr=legacy"'
    mkdir -p "$root/boot/grub"
    chroot "$root" update-grub >"$root/mnt/said" 2>&1 || { cat "$root/mnt/said"; failed "update-grub does not run"; }
    linux_lines | grep -q 'amd_iommu_intr=legacy console=ttyS0 amd_iommu_intr=legacy' ||
        failed "grub.d does not override: $(linux_lines)"
    modprobe_gives avic=0
    grub_is_changed() {
        modprobe_gives avic=1
        linux_lines | grep -q console=ttyS0 && ! linux_lines | grep -q amd_iommu_intr
    }
    try "update-grub" grub_is_changed
    # The same with the module built in: the option is a kernel argument, and goes where it counts.
    module_is built-in
    rm "$root/etc/modprobe.d/kvm.conf"
    argument_is_given() {
        linux_lines | grep -q 'console=ttyS0 kvm_amd.avic=1' && ! linux_lines | grep -q amd_iommu_intr
    }
    try "update-grub, module built in" argument_is_given
    module_is loaded
    rm -rf "$root/etc/default/grub" "$root/etc/default/grub.d/50-cloud.cfg" "$root/boot/grub"
else
    echo "not in this tree: update-grub"
    rm -rf "$root/etc/default/grub" "$root/etc/default/grub.d"
fi

put etc/modprobe.d/kvm.conf "options kvm_amd avic=0"
entry_is_changed() {
    modprobe_gives avic=1
    entry=$(grep -l "$kernel" "$root"/boot/loader/entries/*.conf) &&
        grep -q '^options.*quiet' "$entry" && ! grep -q amd_iommu_intr "$entry"
}
if has kernel-install && chroot "$root" kernel-install --help 2>&1 | grep -q add-all; then
    [ -s "$root/etc/machine-id" ] || put etc/machine-id 0123456789abcdef0123456789abcdef
    put etc/kernel/cmdline "root=/dev/vda quiet amd_iommu_intr=legacy"
    put etc/kernel/install.conf "layout=bls
BOOT_ROOT=/boot
initrd_generator=none"
    mkdir -p "$root/boot/loader/entries"
    chroot "$root" kernel-install add-all >"$root/mnt/said" 2>&1 ||
        { cat "$root/mnt/said"; failed "kernel-install add-all does not run"; }
    try "kernel-install" entry_is_changed
    rm -rf "$root/etc/kernel/cmdline" "$root/etc/kernel/install.conf" "$root/boot/loader" "$root/boot/$(cat "$root/etc/machine-id")"
else
    echo "not in this tree: kernel-install, or without add-all"
fi

mkdir -p "$root/boot/loader/entries"
put "boot/loader/entries/0123-$kernel.conf" "title Test
version $kernel
linux /boot/vmlinuz-$kernel
initrd /boot/initrd.img-$kernel
options root=/dev/vda amd_iommu_intr=legacy quiet"
try "entries written by hand" entry_is_changed
if has grubby; then
    put etc/default/grub "GRUB_ENABLE_BLSCFG=true
GRUB_CMDLINE_LINUX=\"amd_iommu_intr=legacy quiet\""
    try "grubby" entry_is_changed
else
    echo "not in this tree: grubby"
fi
rm -rf "$root/boot/loader" "$root/etc/modprobe.d/kvm.conf" "$root/etc/default/grub"

put_back
for part in "$here"/chroot/*.sh; do
    # shellcheck source=/dev/null
    . "$part"
done
echo "$passed passed, 0 failed"
