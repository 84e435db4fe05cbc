"""What requests are answered with."""

import struct
from dataclasses import dataclass
from typing import Any, List, Mapping, Optional, Tuple

from .event import Event


@dataclass(frozen=True)
class Outcome:
    """How a machine ended."""

    #: power-off, reset, debug-exit, triple-fault, vmx-abort or deadlock.
    kind: str
    #: What the guest wrote to the debug-exit port F4h.
    value: Optional[int] = None
    #: Whose fault it was.
    cpu: Optional[int] = None

    @classmethod
    def of(cls, value: Optional[Mapping[str, Any]]) -> "Optional[Outcome]":
        """From what the service says."""
        if value is None:
            return None
        return cls(value["kind"], value.get("value"), value.get("cpu"))


@dataclass(frozen=True)
class Stop:
    """Why a run is over, and where the machine stands."""

    #: instructions, time, breakpoint, watchpoint, event, halted, ended or interrupted.
    reason: str
    #: Of all processors, since power-on.
    instructions: int
    #: Virtual time since power-on.
    picoseconds: int
    #: Of a machine that has ended.
    outcome: Optional[Outcome] = None
    #: That the run was to stop behind.
    event: Optional[Event] = None
    #: Who came to a breakpoint or a watchpoint.
    cpu: Optional[int] = None
    #: Of the watchpoint.
    address: Optional[int] = None

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> "Stop":
        """From what the service says."""
        event = value.get("event")
        return cls(
            value["stopped"],
            value["instructions"],
            value["picoseconds"],
            Outcome.of(value.get("outcome")),
            None if event is None else Event.of(event),
            value.get("cpu"),
            value.get("address"),
        )


@dataclass(frozen=True)
class Status:
    """Where a machine stands."""

    #: Of all processors, since power-on.
    instructions: int
    #: Virtual time since power-on.
    picoseconds: int
    #: Of a machine that has ended.
    outcome: Optional[Outcome]
    #: What each processor does, in a few words.
    cpus: Tuple[str, ...]
    #: How many marks there are.
    marks: int

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> "Status":
        """From what the service says."""
        return cls(
            value["instructions"],
            value["picoseconds"],
            Outcome.of(value.get("outcome")),
            tuple(value["cpus"]),
            value["marks"],
        )


@dataclass(frozen=True)
class Span:
    """Instructions that were executed one after the other."""

    #: System physical, of the first byte.
    address: int
    #: In bytes.
    length: int
    #: How many.
    instructions: int
    #: How often a run ended behind the last of them.
    runs: int

    @classmethod
    def all_of(cls, payload: bytes) -> "List[Span]":
        """From the bytes that the service sends.

        >>> Span.all_of(bytes.fromhex("2000100000000000 0300 0200 05000000"))
        [Span(address=1048608, length=3, instructions=2, runs=5)]
        """
        return [cls(*span) for span in struct.iter_unpack("<QHHI", payload)]
