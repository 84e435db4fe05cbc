#!/usr/bin/env bash
# usage: nested.sh AVICENNA TREE [KERNEL [CPU]]
# Runs kvm-unit-tests (TREE: a tree of them in which `make` was done) as guests of KVM on the lab's emulated host, with AVIC (on a
# CPU of Intel's: APICv) off and on, as kvm-unit-tests-nested.tsv lists them: what a test says must not depend on that. Neither the
# tree nor anything of it belongs to this project.
set -u
avicenna=$1 tree=${2:-}
here=$(cd "$(dirname "$0")" && pwd)
host=(--cpus 4)
[ -n "${3:-}" ] && host+=(--kernel "$3")
[ -n "${4:-}" ] && host+=(--cpu "$4")
if ! ls "$tree"/x86/*.flat > /dev/null 2>&1; then
    echo "skipped: kvm-unit-tests as guests of KVM, since there is no built tree of them (make kut=TREE)"
    exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

# What the test says in the end, without its times, and the exit status.
said() { # test, vCPUs, x2apic, off or on
    local options=(--vcpus "$2") setting=()
    [ "$3" = no ] && options+=(--no-x2apic)
    [ "$4" = off ] && setting=(--off)
    "$avicenna" lab exec "${host[@]}" "${setting[@]}" --add "$tree/x86/$1.flat=/test.flat" -- \
        bench "${options[@]}" --kernel /test.flat --limit 20 > "$work/$4" 2> "$work/$4.errors"
    echo "status $?" >> "$work/$4"
    grep -a -e '^PASS' -e '^FAIL' -e '^SKIP' -e '^XFAIL' -e '^SUMMARY' -e '^status' "$work/$4" > "$work/$4.said"
}

while IFS=$'\t' read -r name vcpus x2apic expected remark; do
    case $name in '#'* | '') continue ;; esac
    label="$name, $vcpus vCPUs, x2APIC $x2apic"
    if ! [ -f "$tree/x86/$name.flat" ]; then
        echo "skipped: $label: the tree has no x86/$name.flat"
        continue
    fi
    said "$name" "$vcpus" "$x2apic" off
    said "$name" "$vcpus" "$x2apic" on
    if grep -q -e '^PASS' -e '^FAIL' -e '^SUMMARY' "$work/off.said" && cmp -s "$work/off.said" "$work/on.said"; then
        found=same
    else
        found=differs
    fi
    if [ "$found" = "$expected" ]; then
        passed=$((passed + 1))
        echo "ok: $label: $found ($(grep -c '^PASS' "$work/on.said") checks pass, $(grep -c '^FAIL' "$work/on.said") do not)"
    else
        failed=$((failed + 1))
        echo "FAILED: $label: $found, not $expected"
        diff "$work/off.said" "$work/on.said" | head -n 10
        tail -n 3 "$work/on.errors"
    fi
done < "$here/kvm-unit-tests-nested.tsv"
echo "kvm-unit-tests under KVM: $passed passed, $failed failed"
[ "$failed" = 0 ]
