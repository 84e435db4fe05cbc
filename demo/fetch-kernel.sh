#!/usr/bin/env bash
# Puts a distribution kernel and an initial RAM disk of static busybox under target/kernels, fetched
# by package name. Prints the two paths. Fails where packages cannot be had (no apt, no network).
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
store=$root/target/kernels
mkdir -p "$store"
cd "$store"

fetch() { # package
    apt-get download -qq "$1" >&2 || { apt-get update -qq >&2 && apt-get download -qq "$1" >&2; }
}

if [ ! -e vmlinuz ]; then
    package=$(apt-cache depends linux-image-amd64 2>/dev/null | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
    if [ -z "$package" ]; then
        apt-get update -qq >&2
        package=$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
    fi
    [ -n "$package" ] || { echo "no package named linux-image-amd64 here" >&2; exit 1; }
    fetch "$package"
    rm -rf kernel-package && mkdir kernel-package
    dpkg-deb -x "$package"_*.deb kernel-package
    cp kernel-package/boot/vmlinuz-* vmlinuz
fi

if [ ! -e initrd.cpio ]; then
    fetch busybox-static
    rm -rf busybox-package tree && mkdir -p busybox-package tree/bin tree/proc tree/sys tree/dev tree/lib
    dpkg-deb -x busybox-static_*.deb busybox-package
    cp busybox-package/bin/busybox tree/bin/
    cp "$root/demo/init" tree/init
    # A few modules with no dependencies, to be loaded by hand.
    find kernel-package/lib/modules -name dummy.ko -o -name loop.ko | while read -r module; do
        cp "$module" tree/lib/
    done
    (cd tree && find . | cpio -o -H newc --quiet) > initrd.cpio
fi
echo "$store/vmlinuz $store/initrd.cpio"
