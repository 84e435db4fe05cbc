"""Events of the machine's trace."""

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Dict, Iterable, Mapping

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True)
class Event:
    """Something that happened.

    >>> Event(1500, 0, "out", {"port": 0x80, "size": 1, "value": 7}).nanoseconds
    1.5
    """

    #: Virtual time since power-on.
    picoseconds: int
    #: On which processor; devices' events are on the first.
    cpu: int
    #: As ``avicenna machine trace`` names it.
    kind: str
    #: By name.
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def nanoseconds(self) -> float:
        """Virtual time since power-on."""
        return self.picoseconds / 1000

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> "Event":
        """From what the service says."""
        fields: Dict[str, Any] = dict(value["fields"])
        return cls(value["picoseconds"], value["cpu"], value["kind"], fields)


def table(events: Iterable[Event]) -> "pyarrow.Table":
    """Events as a table of Arrow's: picoseconds, cpu, kind, and the fields as JSON.

    Needs ``pip install avicenna[arrow]``.
    """
    import pyarrow

    rows = list(events)
    return pyarrow.table(
        {
            "picoseconds": pyarrow.array([row.picoseconds for row in rows], pyarrow.uint64()),
            "cpu": pyarrow.array([row.cpu for row in rows], pyarrow.uint16()),
            "kind": pyarrow.array([row.kind for row in rows], pyarrow.string()),
            "fields": pyarrow.array(
                [json.dumps(dict(row.fields), sort_keys=True) for row in rows], pyarrow.string()
            ),
        }
    )
