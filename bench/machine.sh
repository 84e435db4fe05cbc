#!/usr/bin/env bash
# The machine's speed beside other emulators' that are installed, in one run, as ratios of processor
# seconds: the distribution kernel's boot to its first process and power-off, and the two mixes of
# guest/workload. usage: machine.sh AVICENNA [SCALE]
#
# What an emulator takes to start (for Bochs: its BIOS, GRUB and loading from a CD) is measured with
# a workload that does nothing, and taken off. avicenna and QEMU get the same unpacked kernel, which
# they enter by its PVH note, so both execute the same instructions. GRUB knows no PVH: Bochs gets
# the packed image and executes its decompressor, which its figure says.
set -eu
avicenna=$1 scale=${2:-20}
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
workload=$root/target/guest/workload.elf
[ -e "$workload" ] || (cd "$root" && cargo xtask guest > /dev/null)
kernel="" initrd=""
if images=$(cd "$root" && cargo xtask kernel "$avicenna"); then kernel=${images%% *} initrd=${images##* }; fi

# A field of the kernel's setup header, little-endian. [Linux, x86 boot protocol]
field() { # offset, bytes
    od -An -v -t "u$2" -j "$1" -N "$2" "$kernel" | tr -d ' '
}

# The kernel inside the image: behind the setup sectors, where the header says.
unpack_kernel() {
    local start length
    start=$((($(field 0x1f1 1) + 1) * 512 + $(field 0x248 4)))
    length=$(field 0x24c 4)
    # The payload ends with the size of what is in it, four bytes that gzip alone makes its own.
    tail -c "+$((start + 1))" "$kernel" | head -c "$length" > "$work/payload"
    local magic
    magic=$(od -An -v -t x1 -N 4 "$work/payload" | tr -d ' ')
    case $magic in
    1f8b*) gzip -dc < "$work/payload" ;;
    fd377a58) head -c "-4" "$work/payload" | xz -dc ;;
    28b52ffd) head -c "-4" "$work/payload" | zstd -dcq ;;
    *) echo "the kernel is packed in a way that is not known here: $magic" >&2; return 1 ;;
    esac > "$work/vmlinux"
}
if [ -n "$kernel" ] && ! unpack_kernel; then kernel=""; fi
shares=$(ls -d /usr/share/bochs 2> /dev/null || true)

has() { command -v "$1" > /dev/null; }

# Why an emulator takes no part, or nothing.
lacks() { # emulator
    case $1 in
    qemu) has qemu-system-x86_64 || echo "qemu-system-x86 is not installed" ;;
    bochs)
        for tool in bochs grub-mkrescue xorriso mcopy; do has "$tool" || echo "$tool is not installed"; done
        [ -e "$shares/BIOS-bochs-latest" ] && [ -e "$shares/VGABIOS-lgpl-latest" ] && [ -d /usr/lib/grub/i386-pc ] ||
            echo "bochsbios, vgabios or grub-pc-bin is not installed"
        ;;
    esac | head -n 1
}

# GRUB's entry for a part of the benchmark.
entry() { # part
    case $1 in
    boot) echo "linux /kernel console=ttyS0 quiet"; echo "initrd /initrd" ;;
    *) echo "multiboot /workload mix=$1 scale=$scale" ;;
    esac
}

prepare_bochs() { # part
    local folder=$work/iso-$1
    mkdir -p "$folder/boot/grub"
    cp "$workload" "$folder/workload"
    [ "$1" != boot ] || cp "$kernel" "$folder/kernel"
    [ "$1" != boot ] || cp "$initrd" "$folder/initrd"
    { echo "set timeout=0"; echo "menuentry x {"; entry "$1"; echo "}"; } > "$folder/boot/grub/grub.cfg"
    grub-mkrescue -o "$work/$1.iso" "$folder" > /dev/null 2>&1
    # The newest that this build knows.
    local model
    model=$(bochs --help cpu 2>&1 | grep -xE "corei7_haswell_4770|corei7_sandy_bridge_2600k" | sort | head -n 1)
    cat > "$work/bochsrc" << END
plugin_ctrl: unmapped=1, biosdev=1, extfpuirq=1, serial=1, speaker=0, parallel=0
display_library: rfb, options="timeout=0"
memory: guest=512, host=512
romimage: file=$shares/BIOS-bochs-latest
vgaromimage: file=$shares/VGABIOS-lgpl-latest
boot: cdrom
ata0: enabled=1, ioaddr1=0x1f0, ioaddr2=0x3f0, irq=14
ata0-master: type=cdrom, path=$work/$1.iso, status=inserted
cpu: model=$model, count=1, ips=300000000, reset_on_triple_fault=0, ignore_bad_msrs=1
clock: sync=none, time0=utc
com1: enabled=1, mode=file, dev=$work/out
log: $work/log
panic: action=fatal
error: action=ignore
info: action=ignore
END
    # Debian's Bochs has its debugger built in, which waits for a command.
    echo continue > "$work/commands"
}

run() { # emulator, part
    local append="console=ttyS0 quiet" image=$work/vmlinux disk=(-initrd "$initrd")
    [ "$2" = boot ] || { append="mix=$2 scale=$scale"; image=$workload; disk=(); }
    case $1 in
    avicenna)
        "$avicenna" machine run --cpu zen4 --iommu off --memory 512M --kernel "$image" ${disk[@]+"${disk[@]/#-initrd/--initrd}"} \
            --append "$append" > "$work/out" 2> "$work/err"
        ;;
    qemu)
        qemu-system-x86_64 -accel tcg -cpu max -m 512 -nographic -no-reboot -kernel "$image" \
            ${disk[@]+"${disk[@]}"} -append "$append" -device isa-debug-exit,iobase=0xf4,iosize=4 \
            > "$work/out" 2> "$work/err"
        ;;
    bochs)
        local commands=()
        ! bochs --help 2>&1 | grep -q -- "-rc " || commands=(-rc "$work/commands")
        bochs -q -f "$work/bochsrc" ${commands[@]+"${commands[@]}"} > "$work/err" 2>&1
        ;;
    esac < /dev/null
}

# Whether the guest did its work to the end.
finished() { # part
    case $1 in
    # The power goes before a slow serial line has shown the last words.
    boot) grep -qsE "avicenna: done|reboot: Power down" "$work/out" ;;
    *) grep -qs '"passed":true' "$work/out" ;;
    esac
}

# Processor seconds of the best of some runs; nothing if the guest did not finish.
TIMEFORMAT='%U %S'
seconds() { # emulator, part, runs
    [ "$1" != bochs ] || prepare_bochs "$2"
    for _ in $(seq "$3"); do
        rm -f "$work/out"
        { time run "$1" "$2" || true; } 2> "$work/time"
        finished "$2" || { tail -n 3 "$work/err" >&2; break; }
        tail -n 1 "$work/time" | awk '{ print $1 + $2 }'
    done | sort -n | head -n 1
}

emulators="avicenna"
for emulator in bochs qemu; do
    reason=$(lacks $emulator)
    if [ -z "$reason" ]; then emulators="$emulators $emulator"; else echo "without $emulator: $reason"; fi
done
parts="compute system"
[ -z "$kernel" ] || parts="boot $parts"
echo "$(nproc) processors, load $(cut -d ' ' -f 1 /proc/loadavg); workload scale $scale; processor seconds"
printf "%-10s%12s%8s%12s%10s%12s%10s\n" part avicenna MIPS Bochs ratio "QEMU TCG" ratio
declare -A start
for emulator in $emulators; do start[$emulator]=$(seconds "$emulator" none 3); done
for part in $parts; do
    declare -A taken=()
    for emulator in $emulators; do
        runs=3
        [ "$emulator" != bochs ] || runs=1
        all=$(seconds "$emulator" "$part" "$runs")
        [ -z "$all" ] || taken[$emulator]=$(awk -v a="$all" -v b="${start[$emulator]:-0}" 'BEGIN { print a - b }')
        [ "$emulator" != avicenna ] || instructions=$(grep -o "[0-9]* instructions" "$work/err" | cut -d ' ' -f 1)
    done
    awk -v part="$part" -v count="${instructions:-0}" -v a="${taken[avicenna]:-0}" -v b="${taken[bochs]:-0}" -v q="${taken[qemu]:-0}" '
        function ratio(x) { return x > 0 && a > 0 ? sprintf("%.2f", x / a) : "-" }
        function shown(x) { return x > 0 ? sprintf("%.2f", x) : "-" }
        BEGIN {
            mips = (a > 0) ? count / a / 1e6 : 0
            printf "%-10s%12s%8.0f%12s%10s%12s%10s\n", part, shown(a), mips, shown(b), ratio(b), shown(q), ratio(q)
        }'
done
[ -z "$kernel" ] || case $emulators in *bochs*) echo "Bochs's boot includes the kernel's own decompressor." ;; esac
echo "ratio: the other's seconds per second of avicenna; above 1 avicenna is faster. start taken off:" \
    "$(for emulator in $emulators; do echo -n "$emulator ${start[$emulator]:-?} s  "; done)"
if [ -x /usr/bin/time ] && [ -n "$kernel" ]; then
    /usr/bin/time -f %M "$avicenna" machine run --cpu zen4 --iommu off --memory 512M --kernel "$work/vmlinux" --initrd "$initrd" \
        --append "console=ttyS0 quiet" < /dev/null 2>&1 > /dev/null | tail -n 1 |
        awk '{ printf "peak memory of the boot: %d MB, of which guest RAM is what was touched of 512 MB\n", $1 / 1024 }'
fi
