#!/usr/bin/env bash
# usage: vmx.sh AVICENNA TREE [CPU [NAME]...]
# Runs the tests of kvm-unit-tests' x86/vmx.flat (TREE: a tree in which `make` was done) on the machine, each by itself, as
# kvm-unit-tests-vmx.tsv lists them: all, or those named. CPU is skylake-sp unless given; a part that lacks a control skips its
# checks. Tests that the list says are skipped or do not end are left out, long ones unless they are named. Neither the tree nor
# anything of it belongs to this project.
set -u
avicenna=$1 tree=${2:-} cpu=${3:-skylake-sp}
shift $(($# < 3 ? $# : 3))
here=$(cd "$(dirname "$0")" && pwd)
if ! [ -f "$tree/x86/vmx.flat" ]; then
    echo "skipped: kvm-unit-tests' vmx, since there is no built tree with x86/vmx.flat"
    exit 0
fi
passed=0 failed=0

# "pass", or how many of how many checks fail, from the suite's own summary.
verdict() {
    local summary
    summary=$(grep -a '^SUMMARY' | tail -n 1)
    case $summary in
        *unexpected*) echo "$summary" | sed -E 's/SUMMARY: ([0-9]+) tests, ([0-9]+) unexpected.*/\2 of \1 fail/' ;;
        *tests*) echo pass ;;
        *) echo 'no summary' ;;
    esac
}

while IFS=$'\t' read -r name cpus expected remark; do
    case $name in '#'* | '') continue ;; esac
    [ $# = 0 ] || [[ " $* " == *" $name "* ]] || continue
    case $expected in 'not ended' | skipped) continue ;; esac
    if [ "$expected" = long ]; then
        [[ " $* " == *" $name "* ]] || continue
        expected=pass
    fi
    found=$("$avicenna" machine run --cpu "$cpu" --cpus "$cpus" --memory 2560M --kernel "$tree/x86/vmx.flat" \
        --append "$name" < /dev/null 2> /dev/null | verdict)
    if [ "$found" = "$expected" ]; then
        passed=$((passed + 1))
        echo "ok: $name: $expected"
    else
        failed=$((failed + 1))
        echo "FAILED: $name: $found, not $expected"
    fi
done < "$here/kvm-unit-tests-vmx.tsv"
echo "kvm-unit-tests' vmx on $cpu: $passed as listed, $failed not"
[ "$failed" = 0 ]
