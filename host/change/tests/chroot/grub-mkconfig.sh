# Hosts that have GRUB without Debian's shell around grub-mkconfig, such as Arch.
# shellcheck shell=sh disable=SC2154

if has grub-mkconfig && has grub-probe && ! has grubby; then
    aside update-grub kernelstub sdbootutil transactional-update
    put etc/modprobe.d/kvm.conf "options kvm_amd avic=0"
    put etc/default/grub 'GRUB_CMDLINE_LINUX_DEFAULT="quiet amd_iommu_intr=legacy"'
    mkdir -p "$root/boot/grub"
    chroot "$root" grub-mkconfig -o /boot/grub/grub.cfg >"$root/mnt/said" 2>&1 ||
        { cat "$root/mnt/said"; failed "grub-mkconfig does not run"; }
    configured() {
        modprobe_gives avic=1
        linux_lines | grep -q quiet && ! linux_lines | grep -q amd_iommu_intr
    }
    try "grub-mkconfig" configured
    rm -rf "$root/boot/grub" "$root/etc/default/grub" "$root/etc/modprobe.d/kvm.conf"
    put_back
else
    echo "not in this tree: grub-mkconfig, or grubby comes first"
fi
