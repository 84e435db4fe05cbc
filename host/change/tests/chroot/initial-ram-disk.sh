# An initial RAM disk that loads the module is made anew by the host's own program, with the option in it.
# shellcheck shell=sh disable=SC2154

# What the disk says of the module, by its unpacked files.
disk_gives() {
    rm -rf "$root/mnt/disk"
    case $maker in
    update-initramfs) chroot "$root" unmkinitramfs "/boot/initrd.img-$kernel" /mnt/disk ;;
    # It chooses a place by what else is below /boot.
    dracut)
        disk=$(cd "$root" && find boot -type f -name 'init*' -size +100k | head -1)
        mkdir "$root/mnt/disk" && chroot "$root" sh -c "cd /mnt/disk && lsinitrd --unpack /$disk"
        ;;
    esac >"$root/mnt/unpacked" 2>&1 || { cat "$root/mnt/unpacked"; failed "$maker: what it made cannot be unpacked"; }
    find "$root/mnt/disk" -path '*modprobe.d/*' -type f -exec cat {} + | grep '^options kvm_amd' | tail -1
}

# Applied and taken back. The disk is packed again each time, so its bytes may differ; what it says may not.
ram_disk() {
    put "boot/loader/entries/0123-$kernel.conf" "options root=/dev/vda quiet"
    put "boot/config-$kernel" "CONFIG_BLK_DEV_INITRD=y
CONFIG_RD_GZIP=y"
    chroot "$root" depmod "$kernel" 2>/dev/null
    others() { state | grep -v '/init[^/]*$'; }
    before=$(others)
    "$avicenna" enable --root "$root" --chroot --apply --yes >"$root/mnt/said" 2>&1 ||
        { cat "$root/mnt/said"; failed "$maker: apply"; }
    [ "$(disk_gives)" = "options kvm_amd avic=1" ] || { cat "$root/mnt/said"; failed "$maker: $(disk_gives)"; }
    "$avicenna" rollback --root "$root" --chroot --yes >"$root/mnt/said" 2>&1 ||
        { cat "$root/mnt/said"; failed "$maker: rollback"; }
    rm -rf "$root/var/lib/avicenna"
    [ "$(disk_gives)" = "options kvm_amd avic=0" ] || failed "$maker: after rollback $(disk_gives)"
    [ "$before" = "$(others)" ] || failed "$maker: not taken back"
    rm -rf "$root/boot/loader"
    find "$root/boot" -type f -name 'init*' -delete
    ok "initial RAM disk by $maker"
}

put etc/modprobe.d/kvm.conf "options kvm_amd avic=0"
if has update-initramfs; then
    maker=update-initramfs
    put etc/initramfs-tools/modules kvm_amd
    aside kernelstub sdbootutil
    ram_disk
    put_back
    rm "$root/etc/initramfs-tools/modules"
else
    echo "not in this tree: initial RAM disk by update-initramfs"
fi
if has dracut; then
    maker=dracut
    # Of a host's modprobe.d it takes what it is told to where /proc/modules does not say which modules matter.
    put etc/dracut.conf.d/kvm.conf 'add_drivers+=" kvm_amd "
install_optional_items+=" /etc/modprobe.d/kvm.conf /etc/modprobe.d/avicenna.conf "'
    aside update-initramfs kernelstub sdbootutil
    ram_disk
    put_back
    rm "$root/etc/dracut.conf.d/kvm.conf"
else
    echo "not in this tree: initial RAM disk by dracut"
fi
rm "$root/etc/modprobe.d/kvm.conf"
