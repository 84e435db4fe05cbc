# proxmox-boot-tool, which mounts each boot partition and fills it: here one of ext4, since it only has to be mounted.
# shellcheck shell=sh disable=SC2154

if ! has proxmox-boot-tool; then
    echo "not in this tree: proxmox-boot-tool"
elif ! has_partitions; then
    echo "skipped: proxmox-boot-tool: no mkfs.ext4 or no loop device here"
else
    put etc/modprobe.d/kvm.conf "options kvm_amd avic=0"
    put etc/kernel/cmdline "root=ZFS=rpool/ROOT/pve-1 quiet amd_iommu_intr=legacy"
    put etc/kernel/proxmox-boot-uuids ABCD-1234
    put etc/kernel/proxmox-boot-manual-kernels "$kernel"
    put "boot/initrd.img-$kernel" initrd
    partition mnt/esp
    made_disk=
    [ -d "$root/dev/disk" ] || { mkdir "$root/dev/disk" && made_disk=yes; }
    mount -t tmpfs tmpfs "$root/dev/disk"
    mkdir -p "$root/dev/disk/by-uuid" "$root/sys/firmware/efi" "$root/mnt/esp/EFI/proxmox" "$root/mnt/esp/loader/entries"
    ln -s "$device" "$root/dev/disk/by-uuid/ABCD-1234"
    put mnt/esp/loader/loader.conf "timeout 3"
    chroot "$root" proxmox-boot-tool refresh >"$root/mnt/said" 2>&1 ||
        { cat "$root/mnt/said"; failed "proxmox-boot-tool refresh does not run"; }
    on_partition() { grep '^options' "$root"/mnt/esp/loader/entries/proxmox-*.conf; }
    on_partition | grep -q 'pve-1 quiet amd_iommu_intr=legacy' || { cat "$root/mnt/said"; failed "no entry was made"; }
    entry=$(sha256sum "$root"/mnt/esp/loader/entries/*)
    partition_is_changed() { modprobe_gives avic=1 && on_partition | grep -q 'pve-1 quiet$'; }
    try "proxmox-boot-tool" partition_is_changed
    [ "$entry" = "$(sha256sum "$root"/mnt/esp/loader/entries/*)" ] || failed "proxmox-boot-tool: the entry is not as it was"
    umount "$root/mnt/esp" "$root/dev/disk"
    [ -z "$made_disk" ] || rmdir "$root/dev/disk"
    rm -rf "$root"/etc/kernel/cmdline "$root"/etc/kernel/proxmox-* "$root/etc/modprobe.d/kvm.conf"
fi
