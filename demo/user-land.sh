#!/usr/bin/env bash
# Runs a distribution's user land from a root file system on a virtio disk, and compares what bash,
# python3, perl, coreutils and openssl say with known answers. usage: user-land.sh AVICENNA
# Needs root, debootstrap, mke2fs and kmod; says so and is skipped without them.
set -u
avicenna=$1
root=$(cd "$(dirname "$0")/.." && pwd)
for tool in debootstrap mke2fs modprobe depmod cpio; do
    command -v "$tool" > /dev/null || { echo "skipped: $tool is not installed"; exit 0; }
done
[ "$(id -u)" = 0 ] || { echo "skipped: debootstrap needs root"; exit 0; }
"$root/demo/fetch-kernel.sh" > /dev/null || { echo "skipped: no distribution kernel can be fetched here"; exit 0; }
store=$root/target/kernels
work=$root/target/user-land
mkdir -p "$work"

if [ ! -e "$work/root.img" ]; then
    rm -rf "$work/root"
    release=$(. /etc/os-release && echo "${VERSION_CODENAME:-bookworm}")
    debootstrap --variant=minbase --include=python3,perl,openssl "$release" "$work/root" \
        > "$work/debootstrap.log" 2>&1 || { echo "skipped: debootstrap failed, see $work/debootstrap.log"; exit 0; }
    rm -rf "$work"/root/var/cache/apt/archives/*.deb "$work"/root/var/lib/apt/lists/*
    cp "$root/demo/user-land-questions" "$work/root/questions"
    mke2fs -q -F -t ext4 -d "$work/root" "$work/root.img.new" 800M
    mv "$work/root.img.new" "$work/root.img"
fi

# An initial RAM disk with the modules that reach the disk, in the order of their dependencies.
tree=$work/tree
rm -rf "$tree" && mkdir -p "$tree"/{bin,dev,proc,sys,lib,root}
cp "$store/tree/bin/busybox" "$tree/bin/"
package=$store/kernel-package
version=$(ls "$package/lib/modules")
depmod -b "$package" "$version"
number=10
for module in virtio_pci virtio_blk ext4 crc32c_generic; do
    for file in $(modprobe -d "$package" -S "$version" --show-depends "$module" 2> /dev/null | sed -n 's/^insmod \([^ ]*\).*/\1/p'); do
        name=$(basename "$file" .xz)
        ls "$tree"/lib/*-"$name" > /dev/null 2>&1 && continue
        case $file in *.xz) xz -dc "$file" > "$tree/lib/$number-$name" ;; *) cp "$file" "$tree/lib/$number-$name" ;; esac
        number=$((number + 1))
    done
done
cat > "$tree/init" << 'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t devtmpfs dev /dev
for module in /lib/*.ko; do insmod "$module"; done
mount -t ext4 /dev/vda /root && mount -t devtmpfs dev /root/dev && chroot /root /bin/bash /questions
umount /root/dev
umount /root && echo "unmounted"
poweroff -f
INIT
chmod +x "$tree/init"
(cd "$tree" && find . | cpio -o -H newc --quiet) > "$work/initrd.cpio"

before=$(sha256sum < "$work/root.img")
timeout 1800 "$avicenna" machine run --cpu zen4 --cpus 2 --memory 1G --kernel "$store/vmlinuz" \
    --initrd "$work/initrd.cpio" --append "console=ttyS0 quiet" --disk "$work/root.img" \
    < /dev/null > "$work/out" 2> "$work/err"
status=$?
passed=0 failed=0
while IFS= read -r line; do
    [ -n "$line" ] || continue
    if grep -qF -- "$line" "$work/out"; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "MISSING: $line"; fi
done < "$root/demo/user-land-answers"
[ "$status" = 0 ] || { failed=$((failed + 1)); echo "FAILED: status $status instead of power-off"; }
[ "$before" = "$(sha256sum < "$work/root.img")" ] || { failed=$((failed + 1)); echo "FAILED: the image was changed"; }
tail -n 1 "$work/err"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] || { tail -n 30 "$work/out"; exit 1; }
