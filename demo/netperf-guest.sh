# Sourced after packages.sh: the initial RAM disk of a guest that sends by netperf over a 82599's
# virtual function: busybox, the function's driver, netperf with its libraries.
netperf_guest() { # folder, file
    local tree=$1 file=$2 libraries=usr/lib/x86_64-linux-gnu
    rm -rf "$tree" && mkdir -p "$tree"/{bin,dev,etc,proc,sys,lib64,usr/bin,"$libraries"}
    ln -s usr/lib "$tree/lib"
    cp "$busybox" "$tree/bin/"
    cp "$host/usr/bin/netperf" "$tree/usr/bin/"
    cp -L "$host/$libraries"/{libc.so.6,libm.so.6} "$tree/$libraries/"
    cp -L "$host/usr/lib64/ld-linux-x86-64.so.2" "$tree/lib64/"
    echo "127.0.0.1 localhost" > "$tree/etc/hosts"
    unpack_modules "$tree/modules" ixgbevf
    cp "$root/demo/passthrough-guest" "$tree/init"
    chmod +x "$tree/init"
    archive "$tree" "$file"
}
