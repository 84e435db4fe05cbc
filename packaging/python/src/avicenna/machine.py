"""The machine."""

import os
import subprocess
import tempfile
from types import TracebackType
from typing import IO, Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Type, TypeVar
from typing import Union

from . import request
from .binary import StrPath, find_binary
from .connection import Connection
from .error import Gone
from .event import Event
from .image import multiboot
from .reply import Span, Status, Stop
from .request import Request

T = TypeVar("T")

#: Seconds that the program may take to end.
_PATIENCE = 10.0
#: Bytes of its last words that an error shows.
_LAST_WORDS = 4096


class Machine:
    """A machine of one's own: ``avicenna machine serve --stdio`` as a child of this process.

    ``kernel`` is a file, or an image's bytes; ``restore`` a snapshot instead. ``options`` are
    more of ``avicenna machine serve --help``.

    >>> halts = multiboot(bytes.fromhex("b007 e6f4"))  # mov al, 7; out 0F4h, al
    >>> with Machine(halts, memory="16M") as machine:
    ...     stop = machine.run(instructions=100)
    >>> stop.reason, stop.outcome.kind, stop.outcome.value
    ('ended', 'debug-exit', 7)
    """

    def __init__(
        self,
        kernel: Union[StrPath, bytes, None] = None,
        *,
        restore: Optional[StrPath] = None,
        cpu: str = "zen4",
        cpus: int = 1,
        memory: str = "512M",
        append: str = "",
        options: Sequence[str] = (),
        snapshots: Optional[StrPath] = None,
        binary: Optional[StrPath] = None,
    ) -> None:
        words = [find_binary(binary), "machine", "serve", "--stdio"]
        words += ["--cpu", cpu, "--cpus", str(cpus), "--memory", memory]
        self._image: Optional[IO[bytes]] = None
        if isinstance(kernel, bytes):
            self._image = tempfile.NamedTemporaryFile(prefix="avicenna-")
            self._image.write(kernel)
            self._image.flush()
            kernel = self._image.name
        if kernel is not None:
            words += ["--kernel", os.fspath(kernel)]
        if restore is not None:
            words += ["--restore", os.fspath(restore)]
        if append:
            words += ["--append", append]
        if snapshots is not None:
            words += ["--snapshots", os.fspath(snapshots)]
        words += options
        self._said: IO[bytes] = tempfile.TemporaryFile()
        pipe = subprocess.PIPE
        self._child = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=self._said)
        assert self._child.stdin is not None and self._child.stdout is not None
        self._connection = Connection(self._child.stdin, self._child.stdout)
        try:
            #: What the service said of itself and of the machine.
            self.hello: Dict[str, Any] = self._connection.hello()
        except BaseException as error:
            said = self._end()
            if isinstance(error, Gone):
                raise Gone(said or str(error)) from error
            raise

    def __enter__(self) -> "Machine":
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the machine; more than once is once."""
        if self._child.poll() is None:
            try:
                self._connection.ask(request.quit())
            except Gone:
                pass
        self._end()

    def _end(self) -> str:
        """Ends the child; what it said last."""
        for stream in (self._child.stdin, self._child.stdout):
            try:
                if stream is not None:
                    stream.close()
            except OSError:
                pass
        try:
            self._child.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        if self._image is not None:
            self._image.close()
        if self._said.closed:
            return ""
        self._said.seek(0)
        said = self._said.read()[-_LAST_WORDS:].decode(errors="replace").strip()
        self._said.close()
        return said

    def ask(self, request: Request[T]) -> T:
        """One request as a value."""
        if self._said.closed:
            raise Gone("the machine is closed")
        try:
            return self._connection.ask(request)
        except Gone as error:
            raise Gone(self._end() or str(error)) from error

    def batch(self, *requests: Request[Any]) -> List[Any]:
        """Several requests in one message: the answers in order.

        >>> from avicenna import request
        >>> with Machine(multiboot(b"\\x40\\xeb\\xfd"), memory="16M") as machine:
        ...     mark = machine.mark()
        ...     for value in (1, 2, 3):
        ...         stop = machine.batch(
        ...             request.restore(mark),
        ...             request.write(0x200000, bytes([value])),
        ...             request.run(instructions=100),
        ...         )[-1]
        >>> stop.reason
        'instructions'
        """
        if self._said.closed:
            raise Gone("the machine is closed")
        try:
            return self._connection.ask_all(requests)
        except Gone as error:
            raise Gone(self._end() or str(error)) from error

    def mark(self) -> int:
        """Keeps this moment; its number."""
        return self.ask(request.mark())

    def restore(self, mark: int) -> int:
        """Goes back to a moment, which stays; marks after it are forgotten. How many pages of
        memory had changed."""
        return self.ask(request.restore(mark))

    def forget(self, mark: int) -> None:
        """Forgets a mark and those after it; the machine stays as it is."""
        self.ask(request.forget(mark))

    def read(self, address: int, length: int, cpu: Optional[int] = None) -> bytes:
        """Reads physical memory or, with ``cpu``, memory as that processor sees it."""
        return self.ask(request.read(address, length, cpu))

    def write(self, address: int, data: bytes, cpu: Optional[int] = None) -> None:
        """Writes physical memory or, with ``cpu``, memory as that processor sees it."""
        self.ask(request.write(address, data, cpu))

    def registers(self, cpu: int = 0, names: Optional[Iterable[str]] = None) -> Dict[str, int]:
        """A processor's registers, or those that are named."""
        return self.ask(request.registers(cpu, names))

    def set_registers(self, values: Mapping[str, int], cpu: int = 0) -> None:
        """Sets general registers, rip, rflags, fs_base, gs_base, mxcsr, xmm0 to xmm15."""
        self.ask(request.set_registers(values, cpu))

    def run(
        self,
        *,
        instructions: Optional[int] = None,
        picoseconds: Optional[int] = None,
        breakpoints: Iterable[int] = (),
        watch: Iterable[Tuple[int, int, str]] = (),
        event: Optional[str] = None,
        event_cpu: Optional[int] = None,
        event_fields: Optional[Mapping[str, Any]] = None,
        halted: bool = False,
    ) -> Stop:
        """Lets time pass, at most so many instructions of all processors and so much virtual time
        (10 s where neither is said), and up to one of: breakpoints (linear addresses); accesses to
        what is watched (address, length, ``"read"``, ``"write"`` or ``"any"``); an event of the
        trace; a halt of all processors.

        >>> code = multiboot(bytes.fromhex("b001 e680 fec0 ebfa"))  # al to port 80h, al + 1
        >>> with Machine(code, memory="16M") as machine:
        ...     stop = machine.run(event="out", event_fields={"port": 0x80, "value": 3})
        ...     machine.registers(names=["rip"])
        {'rip': 1048612}
        """
        return self.ask(
            request.run(
                instructions=instructions,
                picoseconds=picoseconds,
                breakpoints=breakpoints,
                watch=watch,
                event=event,
                event_cpu=event_cpu,
                event_fields=event_fields,
                halted=halted,
            )
        )

    def events(self, most: Optional[int] = None) -> List[Event]:
        """What happened since this was last asked, or since the machine went back."""
        return self.ask(request.events(most))

    def cover(self) -> None:
        """Keeps from now on what code is executed."""
        self.ask(request.cover())

    def coverage(self) -> List[Span]:
        """What code was executed since this was last asked, exactly, by physical address.

        >>> with Machine(multiboot(b"\\x40\\xeb\\xfd"), memory="16M") as machine:
        ...     machine.cover()
        ...     stop = machine.run(instructions=100)
        ...     spans = machine.coverage()
        >>> sum(span.instructions * span.runs for span in spans), hex(spans[0].address)
        (100, '0x100020')
        """
        return self.ask(request.coverage())

    def coverage_map(self, size: int = 65536) -> bytes:
        """The same as counters of 8 bits, as AFL has them."""
        return self.ask(request.coverage_map(size))

    def console(self, port: int = 0) -> bytes:
        """What a serial port showed since this was last asked, or since the machine went back."""
        return self.ask(request.console(port))

    def type_text(self, data: bytes, port: int = 0) -> int:
        """Types at a serial port; how many bytes it took."""
        return self.ask(request.type_text(data, port))

    def hash(self) -> str:
        """The hash of all that happened since power-on."""
        return self.ask(request.hash())

    def status(self) -> Status:
        """Where the machine stands."""
        return self.ask(request.status())

    def info(self, what: str, cpu: int = 0, at: Optional[int] = None) -> List[Dict[str, Any]]:
        """A part of the machine as ``avicenna machine inspect --format json`` shows it: lapic,
        ioapic, irte, vmcb, vmcs, vapic, pid, tlb ..."""
        return self.ask(request.info(what, cpu, at))

    def snapshot(self, file: str) -> str:
        """Saves the machine in the folder of ``snapshots``; the file's path."""
        return self.ask(request.snapshot(file))
