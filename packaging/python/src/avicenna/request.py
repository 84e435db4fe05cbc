"""Requests as values: for :meth:`avicenna.Machine.batch`, which sends many in one message.

Each function has the arguments of the method of :class:`avicenna.Machine` with its name.

>>> read(0x1000, 16).header
{'do': 'read', 'at': 4096, 'bytes': 16}
"""

from dataclasses import dataclass
from typing import Any, Callable, Dict, Generic, Iterable, List, Mapping, Optional, Tuple, TypeVar

from .event import Event
from .reply import Span, Status, Stop

T = TypeVar("T")
_Decode = Callable[[Dict[str, Any], bytes], T]


@dataclass(frozen=True)
class Request(Generic[T]):
    """A request, and how its reply is understood."""

    header: Dict[str, Any]
    payload: bytes
    decode: _Decode[T]


def _nothing(_: Dict[str, Any], __: bytes) -> None:
    return None


def _header(do: str, **fields: Any) -> Dict[str, Any]:
    return {"do": do, **{name: value for name, value in fields.items() if value is not None}}


def mark() -> Request[int]:
    """Keeps this moment."""
    return Request(_header("mark"), b"", lambda reply, _: int(reply["mark"]))


def restore(mark: int) -> Request[int]:
    """Goes back to a moment."""
    return Request(_header("restore", mark=mark), b"", lambda reply, _: int(reply["pages"]))


def forget(mark: int) -> Request[None]:
    """Forgets a moment and those after it."""
    return Request(_header("forget", mark=mark), b"", _nothing)


def read(address: int, length: int, cpu: Optional[int] = None) -> Request[bytes]:
    """Reads memory."""
    header = _header("read", at=address, bytes=length, cpu=cpu)
    return Request(header, b"", lambda _, payload: payload)


def write(address: int, data: bytes, cpu: Optional[int] = None) -> Request[None]:
    """Writes memory."""
    data = bytes(data)
    return Request(_header("write", at=address, bytes=len(data), cpu=cpu), data, _nothing)


def registers(cpu: int = 0, names: Optional[Iterable[str]] = None) -> Request[Dict[str, int]]:
    """Reads registers."""

    def decode(reply: Dict[str, Any], _: bytes) -> Dict[str, int]:
        found: Mapping[str, Any] = reply["registers"]
        # Those of more than 64 bits come as text.
        return {
            name: int(value, 16) if isinstance(value, str) else int(value)
            for name, value in found.items()
        }

    chosen = None if names is None else list(names)
    return Request(_header("registers", cpu=cpu, names=chosen), b"", decode)


def set_registers(values: Mapping[str, int], cpu: int = 0) -> Request[None]:
    """Writes registers."""
    texts = {name: hex(value) for name, value in values.items()}
    return Request(_header("set-registers", cpu=cpu, values=texts), b"", _nothing)


def run(
    *,
    instructions: Optional[int] = None,
    picoseconds: Optional[int] = None,
    breakpoints: Iterable[int] = (),
    watch: Iterable[Tuple[int, int, str]] = (),
    event: Optional[str] = None,
    event_cpu: Optional[int] = None,
    event_fields: Optional[Mapping[str, Any]] = None,
    halted: bool = False,
) -> Request[Stop]:
    """Lets time pass."""
    header = _header("run", instructions=instructions, picoseconds=picoseconds)
    points = list(breakpoints)
    watched = [{"at": at, "length": length, "access": access} for at, length, access in watch]
    if points:
        header["breakpoints"] = points
    if watched:
        header["watch"] = watched
    if event is not None:
        goal: Dict[str, Any] = {"kind": event, "fields": dict(event_fields or {})}
        if event_cpu is not None:
            goal["cpu"] = event_cpu
        header["event"] = goal
    if halted:
        header["halted"] = True
    return Request(header, b"", lambda reply, _: Stop.of(reply))


def events(most: Optional[int] = None) -> Request[List[Event]]:
    """What happened since."""

    def decode(reply: Dict[str, Any], _: bytes) -> List[Event]:
        return [Event.of(event) for event in reply["events"]]

    return Request(_header("events", most=most), b"", decode)


def cover() -> Request[None]:
    """Keeps from now on what code is executed."""
    return Request(_header("cover"), b"", _nothing)


def coverage() -> Request[List[Span]]:
    """What code was executed since."""
    return Request(_header("coverage"), b"", lambda _, payload: Span.all_of(payload))


def coverage_map(size: int = 65536) -> Request[bytes]:
    """The same as counters of 8 bits."""
    return Request(_header("coverage", map=size), b"", lambda _, payload: payload)


def console(port: int = 0) -> Request[bytes]:
    """What a serial port showed since."""
    return Request(_header("console", port=port), b"", lambda _, payload: payload)


def type_text(data: bytes, port: int = 0) -> Request[int]:
    """Types at a serial port."""
    data = bytes(data)
    header = _header("type", bytes=len(data), port=port)
    return Request(header, data, lambda reply, _: int(reply["taken"]))


def hash() -> Request[str]:
    """The hash of all that happened."""
    return Request(_header("hash"), b"", lambda reply, _: str(reply["hash"]))


def status() -> Request[Status]:
    """Where the machine stands."""
    return Request(_header("status"), b"", lambda reply, _: Status.of(reply))


def info(what: str, cpu: int = 0, at: Optional[int] = None) -> Request[List[Dict[str, Any]]]:
    """A part of the machine."""
    header = _header("info", what=what, cpu=cpu, at=at)
    return Request(header, b"", lambda reply, _: list(reply["info"]["sheets"]))


def snapshot(file: str) -> Request[str]:
    """Saves the machine."""
    return Request(_header("snapshot", file=file), b"", lambda reply, _: str(reply["path"]))


def quit() -> Request[None]:
    """Ends the service."""
    return Request(_header("quit"), b"", _nothing)
