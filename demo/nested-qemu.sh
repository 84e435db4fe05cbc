#!/usr/bin/env bash
# Debian's own QEMU on the emulated host: Debian 13's kernel boots on the machine, its KVM and its
# qemu-system-x86_64 run a guest with the same kernel, and `avicenna why` looks at that process.
# usage: nested-qemu.sh AVICENNA [CPU MODEL]
# Everything comes from packages by name and is unpacked below target/, nothing is installed. Says so and
# is skipped where packages cannot be had. Takes some minutes.
set -u
avicenna=$1
cpu=${2:-zen4}
root=$(cd "$(dirname "$0")/.." && pwd)
work=$root/target/nested-qemu
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
for tool in apt-get dpkg-deb mke2fs modprobe depmod cpio xz; do
    command -v "$tool" > /dev/null || { echo "skipped: $tool is not installed"; exit 0; }
done
[ -e "$keyring" ] || { echo "skipped: $keyring is missing (package debian-archive-keyring)"; exit 0; }
mkdir -p "$work"

# apt with a state of its own: an empty system that knows one release.
mkdir -p "$work"/apt/{lists/partial,cache/archives/partial,empty}
: > "$work/apt/status"
echo "deb [arch=amd64 signed-by=$keyring] http://deb.debian.org/debian trixie main" > "$work/apt/sources.list"
cat > "$work/apt/apt.conf" << CONF
Dir::Etc::sourcelist "$work/apt/sources.list";
Dir::Etc::sourceparts "$work/apt/empty";
Dir::State::lists "$work/apt/lists";
Dir::State::status "$work/apt/status";
Dir::Cache "$work/apt/cache";
APT::Architecture "amd64";
APT::Architectures "amd64";
APT::Sandbox::User "root";
APT::Install-Recommends "false";
CONF
export APT_CONFIG=$work/apt/apt.conf

if [ ! -e "$work/host.img" ]; then
    { apt-get -qq update && apt-get -qq --download-only -y install qemu-system-x86 busybox-static; } \
        > "$work/apt.log" 2>&1 || { echo "skipped: packages cannot be had, see $work/apt.log"; exit 0; }
    kernel=$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
    (cd "$work/apt/cache/archives" && apt-get -qq download "$kernel") \
        || { echo "skipped: the package $kernel cannot be had"; exit 0; }
    rm -rf "$work/host" "$work/kernel" && mkdir -p "$work/host" "$work/kernel"
    for package in "$work"/apt/cache/archives/*.deb; do
        case $package in
            */linux-image-*) dpkg-deb -x "$package" "$work/kernel" ;;
            *) dpkg-deb -x "$package" "$work/host" ;;
        esac
    done
    rm -rf "$work"/host/usr/share/{doc,man,locale} "$work/apt/cache/archives"
    apt-cache policy qemu-system-x86 > "$work/versions"
fi
package=$work/kernel
version=$(basename "$(ls -d "$package"/usr/lib/modules/* "$package"/lib/modules/* 2> /dev/null | head -n 1)")
vmlinuz=$package/boot/vmlinuz-$version
[ -e "$package/lib" ] || ln -s usr/lib "$package/lib"
depmod -b "$package" "$version"

# The modules that a list of names needs, in order, into a folder.
unpack_modules() { # folder, names...
    local folder=$1 number=10 module file name
    shift
    mkdir -p "$folder"
    for module in "$@"; do
        for file in $(modprobe -d "$package" -S "$version" --show-depends "$module" 2> /dev/null \
            | sed -n 's/^insmod \([^ ]*\).*/\1/p'); do
            name=$(basename "$file" .xz)
            ls "$folder"/*-"$name" > /dev/null 2>&1 && continue
            case $file in *.xz) xz -dc "$file" > "$folder/$number-$name" ;; *) cp "$file" "$folder/$number-$name" ;; esac
            number=$((number + 1))
        done
    done
}

archive() { # folder, file
    (cd "$1" && find . | cpio -o -H newc --quiet) > "$2"
}

# The guest's initial RAM disk: busybox, and a first process that says so.
tree=$work/guest
rm -rf "$tree" && mkdir -p "$tree"/{bin,dev,proc,sys}
busybox=$work/host/usr/bin/busybox
[ -e "$busybox" ] || busybox=$work/host/bin/busybox
cp "$busybox" "$tree/bin/"
cp "$root/demo/nested-qemu-guest" "$tree/init"
chmod +x "$tree/init"
archive "$tree" "$work/guest.cpio"

# The host's disk: QEMU with its libraries and ROMs, this program, the guest.
host=$work/host
for folder in bin lib lib64 sbin; do
    [ -e "$host/$folder" ] || ln -s "usr/$folder" "$host/$folder"
done
mkdir -p "$host"/{proc,sys,dev,run,tmp,modules}
cp "$avicenna" "$host/usr/bin/avicenna"
strip "$host/usr/bin/avicenna" 2> /dev/null
cp "$vmlinuz" "$host/vmlinuz"
cp "$work/guest.cpio" "$host/guest.cpio"
cp "$root/demo/nested-qemu-host" "$host/proof"
chmod +x "$host/proof"
rm -rf "$host/modules" && unpack_modules "$host/modules" kvm-amd
rm -f "$work/host.img"
mke2fs -q -F -t ext4 -d "$host" "$work/host.img" 700M

# The host's initial RAM disk: the way to that disk.
tree=$work/tree
rm -rf "$tree" && mkdir -p "$tree"/{bin,dev,proc,sys,root}
cp "$busybox" "$tree/bin/"
unpack_modules "$tree/modules" virtio_pci virtio_blk ext4 crc32c_generic
cat > "$tree/init" << 'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t devtmpfs dev /dev
for module in /modules/*.ko; do insmod "$module"; done
mount -t ext4 /dev/vda /root
mount -t proc proc /root/proc
mount -t sysfs sys /root/sys
mount -t devtmpfs dev /root/dev
mount -t tracefs trace /root/sys/kernel/tracing
mount -t tmpfs tmp /root/run
chroot /root /bin/busybox sh /proof
sync
poweroff -f
INIT
chmod +x "$tree/init"
archive "$tree" "$work/tree.cpio"

start=$(date +%s)
timeout 3600 "$avicenna" machine run --cpu "$cpu" --cpus 4 --memory 1G --kernel "$vmlinuz" \
    --initrd "$work/tree.cpio" --append "console=ttyS0 quiet" --disk "$work/host.img" \
    < /dev/null 2> "$work/err" | tee "$work/out"
status=${PIPESTATUS[0]}
seconds=$(($(date +%s) - start))

passed=0 failed=0
check() { # what, pattern
    if grep -qE -- "$2" "$work/out"; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED: $1"; fi
}
check "kvm_amd says that AVIC is on" '^avic=(Y|1)'
for name in split default; do
    check "$name: the guest reaches its first process" "^$name guest: first process, 2 processors"
    check "$name: the guest powers off and QEMU ends" "^$name qemu ended: 0"
done
check "split: avicenna says that AVIC is active" '^split why: 0'
check "split: no inhibit stays" '^split inhibits at the end: inhibits=0x0'
check "default: avicenna says that AVIC is not active" '^default why: 1'
check "default: and lint sees it in QEMU's arguments" '^default lint: 1'
check "default: it watched the timer in reinject mode inhibit" 'PIT_REINJ for its whole life, certain'
if grep -qE 'WARNING|BUG:' "$work/out"; then failed=$((failed + 1)); echo "FAILED: the kernel warned"; fi
[ "$status" = 0 ] || { failed=$((failed + 1)); echo "FAILED: status $status instead of power-off"; }
tail -n 1 "$work/err"
echo "$passed passed, $failed failed, $seconds s"
[ "$failed" -eq 0 ]
