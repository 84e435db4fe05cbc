#!/bin/sh
# Puts a Debian package together: packaging/deb.sh BINARY FOLDER
#
# BINARY is avicenna, built for this machine; the package is written to FOLDER. Same binary, same bytes:
# times are those of the newest entry of the changelog.
set -eu
binary=$1
folder=$2
here=$(dirname "$0")
for tool in dpkg-deb dpkg-shlibdeps dpkg-parsechangelog gzip strip; do
	command -v "$tool" >/dev/null || { echo "deb.sh: $tool is missing: apt-get install dpkg-dev binutils" >&2; exit 1; }
done
version=$(dpkg-parsechangelog -l "$here/debian/changelog" -S Version)
epoch=$(dpkg-parsechangelog -l "$here/debian/changelog" -S Timestamp)
case "$("$binary" -V)" in
"avicenna $version") ;;
*) echo "deb.sh: $("$binary" -V) is built, the changelog is about $version" >&2; exit 1 ;;
esac
architecture=$(dpkg --print-architecture)
umask 022
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
share=$root/usr/share

install -D -m 755 "$binary" "$root/usr/bin/avicenna"
strip --remove-section=.comment --remove-section=.note "$root/usr/bin/avicenna"
"$binary" generate man "$share/man/man1"
gzip -9n "$share"/man/man1/*.1
install -d "$share/bash-completion/completions" "$share/zsh/vendor-completions" \
	"$share/fish/vendor_completions.d"
"$binary" generate completions bash >"$share/bash-completion/completions/avicenna"
"$binary" generate completions zsh >"$share/zsh/vendor-completions/_avicenna"
"$binary" generate completions fish >"$share/fish/vendor_completions.d/avicenna.fish"
for unit in "$here"/systemd/*; do
	install -D -m 644 "$unit" "$root/usr/lib/systemd/system/$(basename "$unit")"
done
install -D -m 644 "$here/debian/copyright" "$share/doc/avicenna/copyright"
install -m 644 "$here/debian/changelog" "$share/doc/avicenna/changelog"
gzip -9n "$share/doc/avicenna/changelog"
# What other programs take: alerts, a dashboard, SQL, job files.
for one in prometheus grafana fleet jobs; do
	cp -R "$here/$one" "$share/doc/avicenna/"
done
chmod -R u=rwX,go=rX "$share/doc/avicenna"

# What the binary is linked with, as Debian names it.
mkdir -p "$work/debian"
printf 'Source: avicenna\n\nPackage: avicenna\nArchitecture: any\n' >"$work/debian/control"
depends=$(cd "$work" && dpkg-shlibdeps -O root/usr/bin/avicenna 2>/dev/null | sed 's/^shlibs:Depends=//')

mkdir "$root/DEBIAN"
size=$(cd "$root" && find . -type f -printf '%s\n' | awk '{ sum += int(($1 + 1023) / 1024) } END { print sum }')
sed -e "s/@VERSION@/$version/; s/@ARCHITECTURE@/$architecture/; s/@SIZE@/$size/; s/@DEPENDS@/$depends/" \
	-e '/^Depends: $/d' "$here/debian/control" >"$root/DEBIAN/control"
(cd "$root" && find usr -type f | LC_ALL=C sort | xargs md5sum) >"$root/DEBIAN/md5sums"
find "$root" -exec touch -h -d "@$epoch" {} +

mkdir -p "$folder"
SOURCE_DATE_EPOCH=$epoch dpkg-deb --root-owner-group -Zxz --build "$root" "$folder" >/dev/null
echo "$folder/avicenna_${version}_$architecture.deb"
