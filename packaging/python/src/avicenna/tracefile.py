"""Trace files."""

import os
import re
import subprocess
from typing import Any, Dict, List, Optional, Union

from .binary import StrPath, find_binary
from .error import Gone
from .event import Event

_LINE = re.compile(r"\s*(\d+)\.(\d{3}) cpu(\d+)\s+(\S+)(.*)")
_FIELD = re.compile(r'(\w+)=("[^"]*"|.*?)(?= \w+=|$)')


def trace(path: StrPath, *options: str, binary: Optional[StrPath] = None) -> List[Event]:
    """The events of a file that ``--trace`` wrote; ``options`` are those of ``machine trace``,
    such as ``"--from", "1ms"``."""
    command = [find_binary(binary), "machine", "trace", os.fspath(path), *options]
    done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        raise Gone(done.stderr.decode(errors="replace").strip())
    lines = done.stdout.decode(errors="replace").splitlines()
    return [event for event in map(parse, lines) if event is not None]


def parse(line: str) -> Optional[Event]:
    """A line of ``machine trace``; ``None`` if it is none of an event.

    >>> parse("       1500.250 cpu0    out              port=0x80 size=0x1 value=0x7")
    Event(picoseconds=1500250, cpu=0, kind='out', fields={'port': 128, 'size': 1, 'value': 7})
    """
    found = _LINE.fullmatch(line)
    if found is None:
        return None
    nanoseconds, fraction, cpu, kind, rest = found.groups()
    fields: Dict[str, Any] = {name: _value(text) for name, text in _FIELD.findall(rest)}
    return Event(int(nanoseconds) * 1000 + int(fraction), int(cpu), kind, fields)


def _value(text: str) -> Union[int, bool, str]:
    if text in ("true", "false"):
        return text == "true"
    if text.startswith('"') and text.endswith('"') and len(text) > 1:
        return text[1:-1]
    try:
        return int(text, 16) if text.startswith("0x") else int(text)
    except ValueError:
        return text
