#!/bin/sh
# Checks a package: packaging/test.sh PACKAGE [SUITE [MIRROR]]
#
# Lintian finds nothing, and in a fresh root of debootstrap the package installs without anything that
# is not there, `avicenna check` answers, the man page is found, and nothing is left when it is purged.
set -eu
package=$1
suite=${2:-bookworm}
mirror=${3:-http://deb.debian.org/debian}
[ "$(id -u)" = 0 ] || { echo "test.sh: root is needed for debootstrap and chroot" >&2; exit 2; }
for tool in lintian debootstrap; do
	command -v "$tool" >/dev/null || { echo "test.sh: $tool is missing" >&2; exit 2; }
done
lintian --fail-on error,warning "$package"
echo "lintian: no error and no warning"

root=$(mktemp -d)
clean() {
	umount "$root/proc" "$root/sys" 2>/dev/null || true
	rm -rf --one-file-system "$root"
}
trap clean EXIT
debootstrap --variant=minbase "$suite" "$root" "$mirror" >"$root.log" 2>&1 ||
	{ tail -20 "$root.log"; exit 1; }
rm -f "$root.log"
before=$(cd "$root" && find usr etc var/lib -xdev -not -path 'var/lib/dpkg/*' | sort | md5sum)
cp "$package" "$root/tmp/avicenna.deb"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
chroot "$root" dpkg -i /tmp/avicenna.deb >/dev/null
echo "installed: $(chroot "$root" avicenna -V)"
status=0
chroot "$root" avicenna check || status=$?
case $status in
0 | 1 | 3) echo "avicenna check: exit status $status" ;;
*) echo "avicenna check: exit status $status" >&2; exit 1 ;;
esac
test -s "$root/usr/share/man/man1/avicenna-check.1.gz"
chroot "$root" dpkg --purge avicenna >/dev/null
after=$(cd "$root" && find usr etc var/lib -xdev -not -path 'var/lib/dpkg/*' | sort | md5sum)
[ "$before" = "$after" ] || { echo "test.sh: purging left something behind" >&2; exit 1; }
echo "purged: nothing is left"
