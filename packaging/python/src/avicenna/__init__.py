"""A deterministic emulated x86-64 multiprocessor, from Python.

A machine is marked, gets an input, runs, is looked at, and goes back:

>>> import avicenna
>>> counts = bytes.fromhex("40 ebfd")  # inc eax; jmp to it
>>> with avicenna.Machine(avicenna.multiboot(counts), memory="16M") as machine:
...     mark = machine.mark()
...     before = machine.registers()["rax"]
...     stop = machine.run(instructions=1000)
...     after = machine.registers()["rax"]
...     pages = machine.restore(mark)
...     again = machine.registers()["rax"]
>>> stop.reason, after - before, again == before
('instructions', 500, True)
"""

from . import request
from .binary import find_binary
from .error import AvicennaError, BinaryNotFound, Gone, Refused
from .event import Event, table
from .image import multiboot
from .lab import Completed, Lab, findings, findings_table
from .machine import Machine
from .reply import Outcome, Span, Status, Stop
from .request import Request
from .tracefile import trace

__all__ = [
    "AvicennaError",
    "BinaryNotFound",
    "Completed",
    "Event",
    "Gone",
    "Lab",
    "Machine",
    "Outcome",
    "Refused",
    "Request",
    "Span",
    "Status",
    "Stop",
    "find_binary",
    "findings",
    "findings_table",
    "multiboot",
    "request",
    "table",
    "trace",
]
