#!/usr/bin/env bash
# Boots the distribution's kernel on 1 and 2 emulated processors, checks what its first process says,
# and that the same run twice has the same trace hash. usage: boot-test.sh AVICENNA
set -u
avicenna=$1
root=$(cd "$(dirname "$0")/.." && pwd)
passed=0 failed=0
verdict() { # condition-status, what
    if [ "$1" -eq 0 ]; then passed=$((passed + 1)); echo "ok: $2"; else failed=$((failed + 1)); echo "FAILED: $2"; fi
}
images=$("$root/demo/fetch-kernel.sh") || { echo "skipped: no distribution kernel can be fetched here"; exit 0; }
set -- $images
log=$root/target/boot-test
mkdir -p "$log"
boot() { # processors, log name
    timeout 900 "$avicenna" machine run --cpu zen4 --cpus "$1" --memory 512M --kernel "${images%% *}" \
        --initrd "${images##* }" --append "console=ttyS0 quiet" < /dev/null > "$log/$2.out" 2> "$log/$2.err"
    echo $? > "$log/$2.status"
}
for processors in 1 2; do
    boot "$processors" "cpus$processors"
    out=$log/cpus$processors.out
    grep -q "on $processors processors" "$out"; verdict $? "a shell answers on $processors processors"
    grep -q ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad "$out"; verdict $? "sha256 of abc, $processors processors"
    ! grep -q "the kernel complained" "$out"; verdict $? "no warning of the kernel, $processors processors"
    [ "$(cat "$log/cpus$processors.status")" = 0 ]; verdict $? "power-off ends the run, $processors processors"
    cat "$log/cpus$processors.err"
done
boot 2 again
first=$(grep -o 'hash [0-9a-f]*' "$log/cpus2.err") again=$(grep -o 'hash [0-9a-f]*' "$log/again.err")
[ -n "$first" ] && [ "$first" = "$again" ]; verdict $? "two runs on 2 processors have the same trace hash ($first)"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] || { tail -n 20 "$log"/*.out; exit 1; }
