"""Where the program is."""

import os
import shutil
from pathlib import Path
from typing import Optional, Union

from .error import BinaryNotFound

StrPath = Union[str, "os.PathLike[str]"]


def find_binary(binary: Optional[StrPath] = None) -> str:
    """The program's path: the argument, else ``AVICENNA`` of the environment, else from ``PATH``.

    >>> find_binary("/nowhere/avicenna")
    Traceback (most recent call last):
    avicenna.error.BinaryNotFound: /nowhere/avicenna: no such program
    """
    named = binary or os.environ.get("AVICENNA")
    if not named:
        found = shutil.which("avicenna")
        if found is None:
            raise BinaryNotFound("no avicenna in PATH; name it by binary= or in AVICENNA")
        return found
    path = os.fspath(named)
    found = shutil.which(path)
    if found is None:
        raise BinaryNotFound(f"{path}: no such program")
    # A program that is found by a relative path stays found in another folder.
    return str(Path(found).resolve())
