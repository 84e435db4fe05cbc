"""The lab: a booted Linux host with KVM on the machine."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence

from .binary import StrPath, find_binary
from .error import Gone

if TYPE_CHECKING:
    import pyarrow

#: What a verb ends with that has an answer: all is well, or there are findings.
_ANSWERS = (0, 1)


@dataclass(frozen=True)
class Completed:
    """A command that ran in the lab."""

    #: Its exit status.
    status: int
    #: What it printed.
    output: str
    #: What the lab remarked.
    remarks: str


class Lab:
    """``avicenna lab`` with some options for all that it does, such as ``["--cpu", "zen4"]``."""

    def __init__(self, *options: str, binary: Optional[StrPath] = None) -> None:
        self._binary = find_binary(binary)
        self._options = list(options)

    def run(self, *options: str) -> Dict[str, Any]:
        """``lab run --format json``: the result, as docs/schema/lab-1.json has it."""
        done = self._run(["run", *options, "--format", "json"])
        if done.status not in _ANSWERS:
            raise Gone(done.remarks or f"lab run ended with {done.status}")
        result = json.loads(done.output)
        if not isinstance(result, dict):
            raise Gone(f"not a result: {result!r}")
        return result

    def exec(self, command: Sequence[str], *options: str) -> Completed:
        """``lab exec -- COMMAND``: what the command printed on the emulated host."""
        return self._run(["exec", *options, "--", *command])

    def _run(self, words: Sequence[str]) -> Completed:
        verb, *rest = words
        command = [self._binary, "lab", verb, *self._options, *rest]
        done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, check=False)
        return Completed(
            done.returncode,
            done.stdout.decode(errors="replace"),
            done.stderr.decode(errors="replace").strip(),
        )


def findings(folder: StrPath) -> List[Dict[str, Any]]:
    """What ``lab explore`` found: the files of its folder, in order of their names.

    ``pyarrow.Table.from_pylist(findings(folder))`` is a table of them; :func:`findings_table` has
    the columns that most want.
    """
    files = sorted(Path(folder).glob("*.json"))
    found: List[Dict[str, Any]] = []
    for file in files:
        value = json.loads(file.read_text(encoding="utf-8"))
        if isinstance(value, dict) and "alarm" in value:
            found.append({"file": file.name, **value})
    return found


def findings_table(folder: StrPath) -> "pyarrow.Table":
    """Findings as a table of Arrow's. Needs ``pip install avicenna[arrow]``."""
    import pyarrow

    names = ("file", "version", "release", "window", "drawn")
    rows = [
        {
            **{name: row.get(name) for name in names},
            "decisions": len(row.get("decisions", ())),
            "alarm": json.dumps(row["alarm"], sort_keys=True),
            "story": "\n".join(row.get("story", ())),
        }
        for row in findings(folder)
    ]
    schema = pyarrow.schema(
        [
            ("file", pyarrow.string()),
            ("version", pyarrow.string()),
            ("release", pyarrow.string()),
            ("window", pyarrow.uint64()),
            ("drawn", pyarrow.uint64()),
            ("decisions", pyarrow.uint64()),
            ("alarm", pyarrow.string()),
            ("story", pyarrow.string()),
        ]
    )
    return pyarrow.Table.from_pylist(rows, schema=schema)
