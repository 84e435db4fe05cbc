# kernelstub, which keeps its words in a file of JSON and writes entries onto the boot partition.
# shellcheck shell=sh disable=SC2154

if ! has kernelstub; then
    echo "not in this tree: kernelstub"
elif ! has_partitions; then
    echo "skipped: kernelstub: no mkfs.ext4 or no loop device here"
else
    put etc/modprobe.d/kvm.conf "options kvm_amd avic=0"
    put "boot/initrd.img-$kernel" initrd
    partition boot/efi
    # What it takes the disk's name from.
    mkdir -p "$root/sys/class/block"
    ln -s "../../devices/pci/block/vda/${device##*/}" "$root/sys/class/block/${device##*/}"
    put etc/kernelstub/configuration '{
  "default": {"kernel_options": ["quiet"], "esp_path": "/boot/efi", "setup_loader": true, "manage_mode": true,
    "force_update": false, "live_mode": false, "config_rev": 3},
  "user": {"kernel_options": ["quiet", "amd_iommu_intr=legacy", "console=tty0", "console=ttyS0", "splash"],
    "esp_path": "/boot/efi", "setup_loader": true, "manage_mode": true,
    "force_update": false, "live_mode": false, "config_rev": 3}
}'
    chroot "$root" kernelstub >"$root/mnt/said" 2>&1 || { cat "$root/mnt/said"; failed "kernelstub does not run"; }
    on_partition() { grep '^options' "$root"/boot/efi/loader/entries/*-current.conf; }
    on_partition | grep -q 'quiet amd_iommu_intr=legacy console=tty0' || { cat "$root/mnt/said"; failed "no entry"; }
    stub_is_changed() {
        modprobe_gives avic=1
        on_partition | grep -q 'quiet console=tty0 console=ttyS0 splash'
    }
    try "kernelstub" stub_is_changed
    umount "$root/boot/efi"
    rm -rf "$root/etc/kernelstub" "$root/boot/efi" "$root/etc/modprobe.d/kvm.conf" "$root/var/log/kernelstub.log"
fi
