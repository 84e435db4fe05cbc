# Sourced by the demonstrations that unpack a release's packages: apt with a state of its own, an
# empty system that knows one release, below $work. Nothing is installed.

keyring=/usr/share/keyrings/debian-archive-keyring.gpg

# Ends with a word where something that is needed is not installed.
need() { # tools...
    local tool
    for tool in apt-get dpkg-deb "$@"; do
        command -v "$tool" > /dev/null || { echo "skipped: $tool is not installed"; exit 0; }
    done
    [ -e "$keyring" ] || { echo "skipped: $keyring is missing (package debian-archive-keyring)"; exit 0; }
}

apt_of() { # release
    mkdir -p "$work"/apt/{lists/partial,cache/archives/partial,empty}
    : > "$work/apt/status"
    echo "deb [arch=amd64 signed-by=$keyring] http://deb.debian.org/debian $1 main" > "$work/apt/sources.list"
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
}

# Packages with all that they depend on into $work/host, the release's kernel into $work/kernel.
unpack() { # packages...
    local package
    { apt-get -qq update && apt-get -qq --download-only -y install "$@"; } \
        > "$work/apt.log" 2>&1 || { echo "skipped: packages cannot be had, see $work/apt.log"; exit 0; }
    rm -rf "$work/host" && mkdir -p "$work/host"
    for package in "$work"/apt/cache/archives/*.deb; do
        case $package in */linux-image-*) ;; *) dpkg-deb -x "$package" "$work/host" ;; esac
    done
    rm -rf "$work"/host/usr/share/{doc,man,locale} "$work"/apt/cache/archives/*.deb
    unpack_kernel kernel
}

# The kernel of the release that apt knows into a folder of $work.
unpack_kernel() { # folder
    local kernel package
    apt-get -qq update >> "$work/apt.log" 2>&1
    kernel=$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
    # Since 7.x the image and the modules are packages of their own.
    kernel="$kernel $(apt-cache depends "$kernel" | sed -n 's/.*Depends: \(linux-\(binary\|modules\)-[0-9].*\)/\1/p')"
    (cd "$work/apt/cache/archives" && apt-get -qq download $kernel) \
        || { echo "skipped: the packages $kernel cannot be had"; exit 0; }
    rm -rf "${work:?}/$1" && mkdir -p "$work/$1"
    for package in "$work"/apt/cache/archives/linux-*.deb; do dpkg-deb -x "$package" "$work/$1"; done
    rm -f "$work"/apt/cache/archives/*.deb
}

# Which kernel a folder of $work has: $package, $version and $vmlinuz.
find_kernel() { # folder, without it `kernel`
    package=$work/${1:-kernel}
    version=$(basename "$(ls -d "$package"/usr/lib/modules/* "$package"/lib/modules/* 2> /dev/null | head -n 1)")
    vmlinuz=$package/boot/vmlinuz-$version
    [ -e "$vmlinuz" ] || vmlinuz=$package/usr/lib/modules/$version/vmlinuz
    [ -e "$package/lib" ] || ln -s usr/lib "$package/lib"
    depmod -b "$package" "$version"
}

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

# An initial RAM disk that loads modules and runs /proof of the disk /dev/vda.
disk_initrd() { # file, modules...
    local file=$1 tree=${1%.cpio}
    shift
    rm -rf "$tree" && mkdir -p "$tree"/{bin,dev,proc,sys,root}
    cp "$busybox" "$tree/bin/"
    unpack_modules "$tree/modules" "$@"
    cat > "$tree/init" << 'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t devtmpfs dev /dev
for module in /modules/*.ko; do insmod "$module"; done
until [ -b /dev/vda ]; do sleep 0.1; done
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
    archive "$tree" "$file"
}
