#!/usr/bin/env bash
# Boots the distribution's kernel to its first process and power-off on the machine and, where it is
# installed, on QEMU TCG; prints processor seconds and their ratio. usage: machine.sh AVICENNA
set -eu
avicenna=$1
root=$(cd "$(dirname "$0")/.." && pwd)
images=$("$root/demo/fetch-kernel.sh") || { echo "no distribution kernel can be fetched here"; exit 0; }
kernel=${images%% *} initrd=${images##* }
log=$(mktemp)
TIMEFORMAT='%U %S'
seconds() { # command...
    { time timeout 600 "$@" < /dev/null > "$log.out" 2> "$log.err"; } 2> "$log"
    awk '{ printf "%.2f", $1 + $2 }' "$log"
}
ours=$(seconds "$avicenna" machine run --cpu zen4 --memory 512M --kernel "$kernel" --initrd "$initrd" \
    --append "console=ttyS0 quiet")
grep -q "avicenna: done" "$log.out" || { echo "the machine did not boot"; tail -n 5 "$log.out" "$log.err"; exit 1; }
echo "avicenna  $ours s   $(tail -n 1 "$log.err")"
if command -v qemu-system-x86_64 > /dev/null; then
    theirs=$(seconds qemu-system-x86_64 -accel tcg -cpu max -m 512 -nographic -no-reboot -kernel "$kernel" \
        -initrd "$initrd" -append "console=ttyS0 quiet")
    echo "QEMU TCG  $theirs s   $(qemu-system-x86_64 --version | head -n 1)"
    awk -v a="$ours" -v b="$theirs" 'BEGIN { printf "ratio     %.2f (avicenna / QEMU)\n", a / b }'
else
    echo "QEMU is not installed: no comparison"
fi
rm -f "$log" "$log.out" "$log.err"
