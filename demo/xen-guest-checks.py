"""What demo/xen-guest.sh claims. [FOLDER, CPU, OPTIONS OF XEN, IOMMU, STATUS OF THE MACHINE]"""
import json, re, sys

folder, cpu, option, iommu, status = sys.argv[1:6]
said = open(f"{folder}/out", errors="replace").read()
closing = open(f"{folder}/err", errors="replace").read()
checks = {"the machine powered off": status == "0"}


def says(pattern):
    return re.search(pattern, said, re.MULTILINE) is not None


def counts(path):
    report = json.load(open(path))["reports"][0]
    return {row["name"]: row["count"] for row in report["summary"]["table"]["rows"]}


if iommu != "off":
    is_amd = cpu.startswith("zen")
    checks["Xen uses the IOMMU"] = says(r"AMD-Vi: IOMMU 0 Enabled" if is_amd else r"Intel VT-d .*enabled")
    checks["interrupts are remapped"] = says(r"^\(XEN\) Interrupt remapping enabled")
    if "intpost" in option:
        checks["interrupts are posted"] = says(r"Intel VT-d Posted Interrupt enabled")
    # What Xen and Linux say when an access or a message is refused, or a command goes wrong.
    complaint = r"IO_PAGE_FAULT|ILLEGAL_|INVALID_DEVICE|INTR-REMAP: Request|DMAR:.*[Ff]ault|BUG|WARNING: CPU|timed? ?out"
    checks["nobody complains"] = not says(complaint)

if iommu == "function":
    runs = re.findall(r"^guest netperf ((\d+):\S+) ([\d.]+),[\d.]+,(\d+),(\d+)", said, re.MULTILINE)
    checks["the guest's function has a link"] = says(r"^guest .*NIC Link is Up 10 Gbps")
    checks["netperf ran"] = len(runs) > 0
    # Netperf's server may leave its last read out: as much as was asked for.
    checks["all bytes arrive"] = all(int(got) >= max(1, -int(run.split(":")[1])) for run, _, _, _, got in runs)
    checks["no frame has a wrong checksum"] = closing.count(", 0 with a wrong checksum") == 2
    for run, _, rate, _, _ in runs:
        busy, elapsed = re.search(rf"^guest busy {run} (\d+) of (\d+) us", said, re.MULTILINE).groups()
        times = dict(re.findall(rf"^host {run} (before|after) (\d+)", said, re.MULTILINE))
        host = (int(times["after"]) - int(times["before"])) // 1000
        print(f"{cpu} {option} {run}: {rate} Mb/s, guest busy {busy} us of {elapsed}, by Xen's count {host} us")
else:
    xen, machine = counts(f"{folder}/xentrace.json"), counts(f"{folder}/machine.json")
    for name in sorted(machine, key=machine.get, reverse=True):
        print(f"{name:20} {xen.get(name, 0):8} {machine[name]:8}")
    print(f"{'total':20} {sum(xen.values()):8} {sum(machine.values()):8}")
    checks["the guest ran"] = sum(machine.values()) > 1000
    checks["xentrace and the machine counted the same exits"] = xen == machine

for what, holds in checks.items():
    holds or print("FAILED:", what)
print(f"{sum(checks.values())} passed, {len(checks) - sum(checks.values())} failed")
sys.exit(0 if all(checks.values()) else 1)
