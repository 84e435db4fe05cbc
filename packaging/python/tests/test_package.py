"""The package against the program: AVICENNA names it, or PATH has it."""

import doctest
import importlib
import pkgutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import avicenna
from avicenna import request

# mov al, 1; out 80h, al; inc al; and back to out.
COUNTS = avicenna.multiboot(bytes.fromhex("b001 e680 fec0 ebfa"))
# Adds up 64 bytes at 200000h, writes the sum to 200040h, halts with interrupts off.
ADDS = avicenna.multiboot(
    bytes.fromhex("be00002000 b940000000 31db 31c0 ac 01c3 e2fb 891d40002000 f4")
)


class Machines(unittest.TestCase):
    def machine(self, image=COUNTS, **options):
        options.setdefault("memory", "16M")
        machine = avicenna.Machine(image, **options)
        self.addCleanup(machine.close)
        return machine

    def test_a_machine_says_what_it_is(self):
        hello = self.machine(cpu="sapphire-rapids", cpus=2).hello
        self.assertEqual((hello["version"], hello["cpus"], hello["memory"]), (1, 2, 16 << 20))
        self.assertEqual(hello["model"], "sapphire-rapids")

    def test_the_same_input_from_a_mark_gives_the_same_run(self):
        machine = self.machine(ADDS)
        mark = machine.mark()
        hashes = {}
        for data in (bytes(range(64)), bytes(64), bytes(range(64))):
            machine.restore(mark)
            machine.write(0x200000, data)
            stop = machine.run(instructions=10_000)
            self.assertEqual((stop.reason, stop.outcome.kind), ("ended", "deadlock"))
            self.assertEqual(machine.read(0x200040, 4), sum(data).to_bytes(4, "little"))
            run = (stop, machine.hash(), tuple(machine.registers().items()))
            self.assertEqual(hashes.setdefault(data, run), run)

    def test_marks_nest(self):
        machine = self.machine()
        marks = []
        for value in range(4):
            machine.write(0x300000, bytes([value]))
            machine.write(0x301000 + 0x1000 * value, b"x")
            marks.append(machine.mark())
        self.assertEqual(marks, [0, 1, 2, 3])
        machine.forget(3)
        for mark in (2, 2, 1, 0):
            machine.restore(mark)
            self.assertEqual(machine.read(0x300000, 1), bytes([mark]))
            self.assertEqual(machine.read(0x302000 + 0x1000 * mark, 1), b"\0")
        with self.assertRaises(avicenna.Refused) as refused:
            machine.restore(1)
        self.assertEqual(refused.exception.code, "mark")

    def test_registers_are_set_by_name(self):
        machine = self.machine()
        machine.set_registers({"rax": 0x55, "xmm3": 1 << 100, "rip": 0x100024})
        self.assertEqual(
            machine.registers(names=["rax", "xmm3", "rip"]),
            {"rax": 0x55, "xmm3": 1 << 100, "rip": 0x100024},
        )
        before = machine.registers()
        for values in ({"cr3": 0}, {"rax": 1 << 64}, {"rbx": 5, "nothing": 1}):
            with self.assertRaises(avicenna.Refused):
                machine.set_registers(values)
        self.assertEqual(machine.registers(), before)

    def test_a_run_stops_where_it_is_told(self):
        machine = self.machine()
        stop = machine.run(instructions=10)
        self.assertEqual((stop.reason, stop.instructions), ("instructions", 10))
        stop = machine.run(picoseconds=1_000_000)
        self.assertEqual(stop.reason, "time")
        for _ in range(3):
            stop = machine.run(breakpoints=[0x100024])
            self.assertEqual((stop.reason, stop.cpu), ("breakpoint", 0))
            self.assertEqual(machine.registers(names=["rip"]), {"rip": 0x100024})
        stop = machine.run(event="out", event_fields={"value": 200})
        self.assertEqual((stop.event.kind, stop.event.fields["value"]), ("out", 200))
        self.assertEqual(machine.registers()["rip"], 0x100024)
        self.assertEqual(machine.registers()["rax"] & 0xFF, 200)
        with self.assertRaises(avicenna.Refused):
            machine.run(event="nothing")
        with self.assertRaises(avicenna.Refused):
            machine.run(breakpoints=[1], event="out")

    def test_a_watchpoint_stops_behind_the_access(self):
        machine = self.machine(ADDS)
        stop = machine.run(watch=[(0x200040, 4, "write")])
        self.assertEqual((stop.reason, stop.address), ("watchpoint", 0x200040))

    def test_a_run_to_a_halt_leaves_all_processors_halted(self):
        machine = self.machine(ADDS, cpus=2)
        stop = machine.run(halted=True)
        self.assertIn(stop.reason, ("halted", "ended"))
        self.assertTrue(machine.status().cpus[0].startswith("halted"))

    def test_an_event_is_where_the_plain_run_has_it(self):
        machine = self.machine()
        mark = machine.mark()
        machine.run(instructions=3000)
        plain = machine.events()
        hash_then = machine.hash()
        machine.restore(mark)
        stop = machine.run(event="out", event_fields={"value": 77}, instructions=3000)
        seen = machine.events()
        self.assertEqual(seen, plain[: len(seen)])
        self.assertEqual(seen[-1], stop.event)
        machine.run(instructions=3000 - stop.instructions)
        self.assertEqual(machine.hash(), hash_then)

    def test_coverage_is_every_instruction_and_no_other(self):
        machine = self.machine(ADDS)
        machine.cover()
        mark = machine.mark()
        runs = machine.run(instructions=10_000).instructions
        spans = machine.coverage()
        self.assertEqual(sum(span.instructions * span.runs for span in spans), runs)
        reached = {at for span in spans for at in range(span.address, span.address + span.length)}
        self.assertEqual(reached, set(range(0x100020, 0x10003A)))
        self.assertEqual(machine.coverage(), [])
        machine.restore(mark)
        machine.run(instructions=10_000)
        first = machine.coverage_map(4096)
        machine.restore(mark)
        machine.run(instructions=10_000)
        self.assertEqual(machine.coverage_map(4096), first)
        self.assertNotEqual(first, bytes(4096))

    def test_a_batch_ends_with_what_is_refused(self):
        machine = self.machine()
        with self.assertRaises(avicenna.Refused):
            machine.batch(
                request.write(0x5000, b"first"),
                request.read(1 << 50, 8),
                request.write(0x5000, b"other"),
            )
        data, memory = machine.batch(request.read(0x5000, 5), request.read(0x100020, 4))
        self.assertEqual((data, memory), (b"first", bytes.fromhex("b001e680")))

    def test_parts_are_shown_as_inspect_has_them(self):
        sheets = self.machine().info("lapic")
        names = [row["name"] for row in sheets[0]["fields"]]
        self.assertTrue(any("TPR" in name or "PRIORITY" in name.upper() for name in names), names)

    def test_a_snapshot_goes_on_where_the_machine_was(self):
        with tempfile.TemporaryDirectory() as folder:
            machine = self.machine(snapshots=folder)
            machine.run(instructions=1000)
            path = machine.snapshot("kept")
            machine.run(instructions=1000)
            other = avicenna.Machine(restore=path, memory="16M")
            self.addCleanup(other.close)
            other.run(instructions=1000)
            self.assertEqual(other.hash(), machine.hash())
            for name in ("../kept", "", "..", "a/b"):
                with self.assertRaises(avicenna.Refused):
                    machine.snapshot(name)
        with self.assertRaises(avicenna.Refused):
            self.machine().snapshot("kept")

    def test_what_cannot_begin_says_why(self):
        with self.assertRaisesRegex(avicenna.Gone, "nosuch"):
            avicenna.Machine("nosuch")
        machine = self.machine()
        machine.close()
        machine.close()
        with self.assertRaises(avicenna.Gone):
            machine.hash()

    def test_a_child_ends_with_its_client(self):
        machine = avicenna.Machine(COUNTS, memory="16M")
        child = machine._child
        child.stdin.close()
        child.stdout.close()
        self.assertEqual(child.wait(60), 0)
        machine.close()


class Files(unittest.TestCase):
    def test_a_trace_has_the_events_of_the_run(self):
        with tempfile.TemporaryDirectory() as folder:
            image, path = Path(folder, "image"), Path(folder, "trace")
            image.write_bytes(COUNTS)
            words = [avicenna.find_binary(), "machine", "run", "--quiet", "--memory", "16M"]
            words += ["--kernel", str(image), "--trace", str(path), "--max-instructions", "300"]
            subprocess.run(words, stdin=subprocess.DEVNULL, check=False)
            events = avicenna.trace(path)
        with avicenna.Machine(COUNTS, memory="16M") as machine:
            machine.run(instructions=300)
            same = machine.events()
        self.assertGreater(len(events), 50)
        self.assertEqual([e.picoseconds for e in events], [e.picoseconds for e in same])
        self.assertEqual(events[0].fields, dict(same[0].fields))
        try:
            import pyarrow  # noqa: F401
        except ImportError:
            self.skipTest("pyarrow is not installed")
        table = avicenna.table(events)
        self.assertEqual(table.num_rows, len(events))
        self.assertEqual(table.column_names, ["picoseconds", "cpu", "kind", "fields"])

    def test_findings_are_the_files_of_a_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "a.json").write_text('{"alarm": {"rule": "x"}, "window": 5}')
            Path(folder, "b.json").write_text('{"other": 1}')
            found = avicenna.findings(folder)
        self.assertEqual([(row["file"], row["window"]) for row in found], [("a.json", 5)])


class Doctests(unittest.TestCase):
    def test_the_examples_in_docstrings_are_right(self):
        attempted = 0
        for module in pkgutil.walk_packages(avicenna.__path__, "avicenna."):
            if module.name.endswith("pytest_plugin"):
                continue
            outcome = doctest.testmod(importlib.import_module(module.name))
            self.assertEqual(outcome.failed, 0, module.name)
            attempted += outcome.attempted
        outcome = doctest.testmod(avicenna)
        self.assertEqual(outcome.failed, 0)
        self.assertGreater(attempted + outcome.attempted, 10)


if __name__ == "__main__":
    unittest.main()
