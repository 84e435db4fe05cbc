#!/usr/bin/env bash
# usage: lab-test.sh AVICENNA
# The lab end to end: the built-in hypervisor, then KVM of a distribution's kernel where one can be
# fetched. Each check can fail: it reads what the program printed.
set -u
avicenna=$1
here=$(cd "$(dirname "$0")" && pwd)
passed=0
failed=0

check() { # description, command...
    local what=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $what" >&2
    fi
}

# Every comparison of a result: is the change of exits at most $2 percent, and do both counts agree?
falls() { # file, percent
    python3 - "$1" "$2" << 'PY'
import json, sys
result = json.load(open(sys.argv[1]))
for one in result["comparisons"]:
    off = sum(row["off"]["exits"] for row in one["exits"])
    on = sum(row["on"]["exits"] for row in one["exits"])
    change = (on - off) / off * 100
    print(f'{result["workload"]} {one["name"]}: {off} -> {on} exits, {change:.1f} %')
    assert change <= float(sys.argv[2]), change
    assert all(not both["differences"] for both in one["agreement"]), one["agreement"]
    assert len(one["agreement"]) == 2 and not one["troubles"], one["troubles"]
PY
}

# A guest that is inhibited all the time gains nothing, and the reason is named: by newer kernels, whose
# numbers differ between versions.
is_inhibited() { # file, what the event may say...
    python3 - "$@" << 'PY'
import json, sys
for one in json.load(open(sys.argv[1]))["comparisons"]:
    off = sum(row["off"]["exits"] for row in one["exits"])
    on = sum(row["on"]["exits"] for row in one["exits"])
    assert on > 0.9 * off, (off, on)
    reasons = sys.argv[2:]
    assert any(reason in text for _, text in one["inhibits"] for reason in reasons), one["inhibits"]
    seconds, inhibited = one["inhibited"]
    assert inhibited > 0.99 * seconds, (seconds, inhibited)
verdict = json.load(open(sys.argv[1]))["verdict"]
assert verdict["is_active"] is False and "inhibited all the time by" in verdict["text"], verdict
assert not json.load(open(sys.argv[1]))["predictions"], "published figures beside an inhibited guest"
PY
}

# Without a reason to be inhibited AVIC is active for as long as virtual processors can run.
is_active() { # file
    python3 - "$1" << 'PY'
import json, sys
result = json.load(open(sys.argv[1]))
assert result["verdict"]["is_active"] is True, result["verdict"]
for one in result["comparisons"]:
    seconds, inhibited = one["inhibited"]
    assert inhibited < 0.005 * seconds, (seconds, inhibited)
PY
}

# Every arm in both modes, APICv alone among them, says what was expected of its IPIs.
are_as_expected() { # file
    python3 - "$1" << 'PY'
import json, sys
for one in json.load(open(sys.argv[1]))["comparisons"]:
    assert len(one["exits_per_ipi"]) == 2 and len(one["between"]) == 1, one
    for side in one["exits_per_ipi"] + [arm["exits_per_ipi"] for arm in one["between"]]:
        least, most = side["expected"]
        print(f'{one["name"]}: {side["exits"]:.2f} exits per IPI, expected {least:.2f} to {most}')
        assert side["exits"] >= least and (most is None or side["exits"] <= most), side
PY
}

# A kernel that was named is not replaced; one that was not is, with an exit status of its own.
refuses_a_kernel_it_cannot_have() {
    local home=$work/unwritable
    printf '' > "$home"
    HOME=$home XDG_CACHE_HOME=$home "$avicenna" lab run --kernel debian-12 --cpus 2 > "$work/named" 2>&1
    [ $? = 3 ] && ! grep -q "built-in hypervisor ran" "$work/named" || return 1
    HOME=$home XDG_CACHE_HOME=$home "$avicenna" lab run --cpus 2 > "$work/unnamed" 2> /dev/null
    [ $? = 4 ] && head -n 1 "$work/unnamed" | grep -q "^the built-in hypervisor ran, not KVM"
}

# Values that only a closer look finds wrong end with the status of usage, and say what would do.
says_what_would_be_right() { # what it says, arguments...
    local words=$1
    shift
    "$avicenna" lab "$@" > "$work/usage" 2>&1
    [ $? = 2 ] && grep -q -e "$words" "$work/usage" || { cat "$work/usage" >&2; return 1; }
}

# The kernel refuses a module of a kernel that is configured otherwise, and the lab shows its line.
names_a_foreign_module() { # kernel
    local module
    module=$(find "$1"/ -name 'kvm-amd.ko*' | head -n 1)
    case $module in
        *.xz) xz -dc "$module" ;;
        *.zst) zstd -dcq "$module" ;;
        *) cat "$module" ;;
    esac > "$work/own.ko"
    # Without the mark at its end nobody looks for a signature, which would be wrong now.
    sed 's/\(vermagic=[^ ]*\) SMP/\1 UNI/' "$work/own.ko" | head -c -28 > "$work/kvm-amd.ko"
    "$avicenna" lab run --kernel "$1" --module "$work/kvm-amd.ko" > "$work/foreign" 2>&1
    [ $? = 3 ] && grep -q 'it was built for another kernel' "$work/foreign" &&
        grep -q "kernel: kvm_amd: version magic .* UNI .* should be" "$work/foreign"
}

# Ctrl-C and SIGTERM end a run with the status of an interrupt. The run's own end is far away: a boot
# and two Linux guests.
ends_when_asked() { # signal, kernel
    "$avicenna" lab run --kernel "$2" --no-snapshot --workload threads > /dev/null 2>&1 &
    local running=$!
    sleep 1
    kill -"$1" "$running"
    wait "$running"
    [ $? = 130 ]
}

# Interrupts of a device that a guest was given: none is lost, and those that are posted do not exit.
posts_a_device_s_interrupts() { # file
    python3 - "$1" << 'PY'
import json, sys
result = json.load(open(sys.argv[1]))
assert result["verdict"]["is_sound"], result["verdict"]["text"]
running, halted, phases = (one["device_interrupts"] for one in result["comparisons"])
for off, on in (running, halted):
    assert (off["is_on"], on["is_on"]) == (False, True)
    assert off["sent"] == off["arrived"] == on["sent"] == 10000, (off, on)
    assert on["arrived"] + on["merged"] == 10000 and on["merged"] < 10, on
    assert off["exits"] >= 1 and on["exits"] < 0.05, (off, on)
    assert (off["posted"], on["posted"]) == (0, 10000), (off, on)
    print(f'device: {off["exits"]:.2f} -> {on["exits"]:.4f} exits for each interrupt')
# The first eight come while the guest compares its clock with the function's, and does not halt.
assert running[1]["logged"] == 0 and halted[1]["logged"] == halted[1]["woken"] == 9992, halted
for off, on in (running, halted):
    assert 0 < on["latency"]["min"] <= on["latency"]["p50"] <= on["latency"]["max"] < 100000, on
    print(f'device: {off["latency"]["p50"]} -> {on["latency"]["p50"]} ns to the handler')
assert running[1]["latency"]["p50"] < running[0]["latency"]["p50"], running
# A processor that goes to sleep at every moment of the way: none waits, none is lost.
on = phases[1]
assert on["sent"] == on["posted"] == 10010 and on["arrived"] + on["merged"] == 10010, on
assert on["late"] == 0 and phases[0]["late"] == 0, phases
PY
}

# Linux's own driver brings two network functions up, and what goes in at one end of the wire comes out
# at the other, through the IOMMU.
carries_between_functions() { # kernel
    "$avicenna" lab exec --kernel "$1" --vf pair -- "$(command -v busybox)" sh -c '
        unshare -n sleep 1000 > /dev/null 2>&1 &
        there=$!
        sleep 0.1
        ip link set eth1 netns $there
        ifconfig eth0 10.1.0.1 netmask 255.255.255.0
        nsenter -t $there -n ifconfig eth1 10.1.0.2 netmask 255.255.255.0
        sleep 2
        { sleep 30 | nsenter -t $there -n nc -l -p 5000 | md5sum > /there; } > /dev/null 2>&1 &
        head -c 20000000 /dev/urandom > /data
        md5sum < /data > /here
        nc 10.1.0.2 5000 < /data
        sleep 0.2
        cmp /here /there && echo carried' 2>&1 | grep -q carried
}

# Exits as a verb on the emulated host recorded them are those that the machine performed and resumed
# from, reason by reason.
equals_machine() { # sums, counters
    python3 - "$1" "$2" << 'PY'
import json, sys
recorded = {}
for line in open(sys.argv[1]).readlines()[1:]:
    for key, sums in json.loads(line)["rows"]:
        recorded[key["reason"]] = recorded.get(key["reason"], 0) + sums["count"]
machine = {int(code): count["completed"] for code, count in json.load(open(sys.argv[2])).items()}
machine = {code: count for code, count in machine.items() if count}
print(f"exits record: {sum(recorded.values())} of {sum(machine.values())} exits")
assert recorded == machine and recorded, (recorded, machine)
PY
}

# IPIs to processors that are about to halt, on KVM of a part with erratum 1235 or without it: what the
# guest measured. Without polling, a processor sleeps at once.
ipis_to_sleepers() { # kernel, erratum-1235=on|off
    "$avicenna" lab exec --kernel "$1" --cpu zen2 --variant "$2" --parameter kvm.halt_poll_ns=0 -- \
        bench --no-x2apic --append \
        "apic=xapic tests=ipi targets=halted gap=500 samples=300 warmup=5 patience=20000000"
}

# Linux has a work-around from 6.17 on; before, wake-ups are lost.
loses_unless_worked_around() { # check's output, measured
    local release
    release=$(sed -n 's/.*Linux \([0-9]*\.[0-9]*\).*/\1/p' "$1" | head -n 1)
    if [ "$(printf '%s\n' 6.17 "$release" | sort -V | head -n 1)" = 6.17 ]; then
        loses_nothing "$2"
    else
        grep -q '"record":"lost"' "$2"
    fi
}

loses_nothing() { # measured
    ! grep -q '"record":"lost"' "$1" && grep -q '"record":"end","passed":true' "$1"
}

# In the shell Ctrl-C ends what runs, and the shell's exit status is the lab's.
has_a_terminal() { # kernel
    timeout 900 python3 - "$avicenna" "$1" << 'PY'
import os, pty, select, sys, time
pid, fd = pty.fork()
if pid == 0:
    os.execvp(sys.argv[1], [sys.argv[1], "lab", "shell", "--kernel", sys.argv[2]])
seen = b""
def until(text, seconds=300):
    global seen
    end = time.time() + seconds
    while text not in seen:
        assert time.time() < end, (text, seen[-500:])
        if select.select([fd], [], [], 1)[0]:
            seen += os.read(fd, 4096)
    seen = seen[seen.index(text) + len(text):]
until(b"exit ends the lab")
os.write(fd, b"echo be\"\"gun; sleep 1000\r")
until(b"begun")
time.sleep(2)
os.write(fd, b"\x03")
os.write(fd, b"echo st\"\"ill here\r")
until(b"still here")
os.write(fd, b"exit 5\r")
try:
    while os.read(fd, 4096):
        pass
except OSError:
    pass
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
assert status == 5, status
PY
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$avicenna" lab run --kernel builtin --cpus 2 --format json -o "$work/builtin"
check "built-in hypervisor: 90 % fewer exits" falls "$work/builtin" -90
"$avicenna" lab run --kernel builtin --cpu sapphire-rapids --cpus 2 --format json -o "$work/builtin"
check "built-in hypervisor on Intel: 80 % fewer exits" falls "$work/builtin" -80
check "a kernel that was named is never replaced" refuses_a_kernel_it_cannot_have
check "a workload that is none" says_what_would_be_right "ipi, threads, mesh, timer" run --workload nosuch
check "too little memory" says_what_would_be_right "at least 256M" run --memory 12
check "no processors" says_what_would_be_right "1..=512" run --cpus 0
check "a processor without SVM and VMX" says_what_would_be_right "zen4" run --cpu generic
check "a feature of the other vendor" says_what_would_be_right "apicv" run --cpu skylake-sp --feature avic=on
check "a kernel that is none" says_what_would_be_right "debian-13" run --kernel nosuch
"$avicenna" lab run --kernel builtin --cpus 2 --format html -o "$work/page"
check "the page has plots" grep -q "<figure class=\"plot" "$work/page"

# The second run starts from the first one's snapshot and is otherwise the same, to the last count.
is_restored_alike() { # first, second
    python3 - "$1" "$2" << 'PY'
import json, sys
first, second = (json.load(open(name)) for name in sys.argv[1:3])
assert not first["run"].pop("is_restored") and second["run"].pop("is_restored")
times = [one["run"].pop("host_seconds") for one in (first, second)]
assert first == second
print(f"host seconds: booted {times[0]:.1f}, from the snapshot {times[1]:.1f}")
PY
}

# Without AVIC in the processor nothing is gained, and the comparison says so and fails.
fails_without_avic() { # exit status, file
    [ "$1" = 1 ] && python3 - "$2" << 'PY'
import json, sys
for one in json.load(open(sys.argv[1]))["comparisons"]:
    off = sum(row["off"]["exits"] for row in one["exits"])
    on = sum(row["on"]["exits"] for row in one["exits"])
    assert on > 0.9 * off, (off, on)
    assert any("asked for avic=1 and says N" in trouble for trouble in one["troubles"]), one["troubles"]
PY
}

if "$here/fetch-kernel.sh" > /dev/null; then
    kernel=$here/../target/kernels/kernel-package
    export XDG_CACHE_HOME=$work/cache
    "$avicenna" lab run --kernel "$kernel" --format json -o "$work/kvm"
    check "KVM: 90 % fewer exits" falls "$work/kvm" -90
    check "KVM: AVIC is active all the time" is_active "$work/kvm"
    check "a parameter that a module has not" \
        says_what_would_be_right "halt_poll_ns" run --kernel "$kernel" --parameter kvm.nosuch=1
    check "SIGINT ends a run" ends_when_asked INT "$kernel"
    check "SIGTERM ends a run" ends_when_asked TERM "$kernel"
    check "a module of another kernel" names_a_foreign_module "$kernel"
    check "a command that is none" \
        says_what_would_be_right "neither a verb of avicenna (check" exec --kernel "$kernel" -- nosuch
    "$avicenna" lab run --kernel "$kernel" --format json -o "$work/again"
    check "KVM: a snapshot spares the boot and changes nothing" is_restored_alike "$work/kvm" "$work/again"
    "$avicenna" lab run --kernel "$kernel" --cpu zen4,-avic --format json -o "$work/without"
    check "KVM: a processor without AVIC makes the comparison fail" fails_without_avic "$?" "$work/without"
    "$avicenna" lab run --kernel "$kernel" --cpu sapphire-rapids --feature steps --format json -o "$work/intel"
    check "KVM on Intel: 80 % fewer exits" falls "$work/intel" -80
    check "KVM on Intel: APICv is active all the time" is_active "$work/intel"
    check "KVM on Intel: exits per IPI are as expected" are_as_expected "$work/intel"
    "$avicenna" lab run --kernel "$kernel" --cpu sapphire-rapids --inhibit auto-eoi --format json -o "$work/auto-eoi"
    check "KVM on Intel: AutoEOI inhibits" is_inhibited "$work/auto-eoi" HYPERV "set reason=1,"
    "$avicenna" lab exec --kernel "$kernel" --cpu sapphire-rapids -- check > "$work/intel-check"
    check "check on Intel says on" \
        grep -q "yes  *IPIs between vCPUs are delivered without an exit" "$work/intel-check"
    "$avicenna" lab run --kernel "$kernel" --pit reinject --format json -o "$work/pit"
    check "KVM: the timer in reinject mode inhibits" is_inhibited "$work/pit" PIT_REINJ "set reason=8," "set reason=9,"
    "$avicenna" lab run --kernel "$kernel" --workload device --format json -o "$work/device"
    check "KVM: a device's interrupts are posted, and none is lost" posts_a_device_s_interrupts "$work/device"
    if command -v busybox > /dev/null; then
        check "KVM: network functions carry 20 MB over their wire" carries_between_functions "$kernel"
    else
        echo "not run: network functions, as busybox is not installed"
    fi
    "$avicenna" lab run --kernel "$kernel" --workload device --append amd_iommu_intr=legacy \
        --format json -o "$work/legacy"
    check "KVM: interrupts that are not posted are told" [ $? = 1 ]
    "$avicenna" lab exec --kernel "$kernel" -- check > "$work/on"
    check "check says on" grep -q "yes  *the hardware interrupt controller is used" "$work/on"
    "$avicenna" lab exec --kernel "$kernel" -- sh -c 'echo from inside; exit 7' > "$work/inside"
    check "a command's exit status is the lab's" [ $? = 7 ]
    check "a program of this machine runs in there" grep -q "from inside" "$work/inside"
    "$avicenna" lab exec --kernel "$kernel" --add "$0=/taken/along" -- cat /taken/along > "$work/along"
    check "what was added is there" cmp -s "$0" "$work/along"
    check "lab shell controls its terminal" has_a_terminal "$kernel"
    "$avicenna" lab exec --kernel "$kernel" --off -- check > "$work/off"
    check "check says off" grep -q "no  *the hardware interrupt controller is used" "$work/off"
    "$avicenna" lab exec --kernel "$kernel" --cpu zen3 -- check > "$work/zen3"
    check "check names a processor without AVIC" grep -q "no  *the CPU has AVIC" "$work/zen3"
    ipis_to_sleepers "$kernel" erratum-1235=on > "$work/erratum" 2> "$work/said"
    check "KVM loses wake-ups to erratum 1235 unless it works around" \
        loses_unless_worked_around "$work/on" "$work/erratum"
    ipis_to_sleepers "$kernel" erratum-1235=off > "$work/sound" 2> "$work/said"
    check "KVM loses no wake-up where the erratum is not" loses_nothing "$work/sound"
    for rung in bpf histogram; do
        "$avicenna" lab exec --kernel "$kernel" --counters "$work/machine" -- \
            exits record --rung "$rung" -o - -- avicenna bench --append \
            "tests=ipi targets=spinning samples=200 warmup=20" > "$work/$rung" 2> "$work/said" ||
            cat "$work/said" >&2
        check "exits record ($rung) sees what the machine does" \
            equals_machine "$work/$rung" "$work/machine"
    done
else
    echo "skipped: KVM in the lab, since no kernel can be fetched here"
fi
echo "lab: $passed passed, $failed failed"
[ "$failed" = 0 ]
