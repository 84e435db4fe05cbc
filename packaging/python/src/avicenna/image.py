"""Small guests."""

import struct

_LOAD = 0x100000
_HEAD = 0x20


def multiboot(code: bytes) -> bytes:
    """A Multiboot image around machine code, which begins at 100020h in 32-bit protected mode.

    >>> len(multiboot(b"\\xf4"))
    4096
    """
    magic, flags = 0x1BADB002, 0x10000
    check = -(magic + flags) & 0xFFFFFFFF
    head = struct.pack("<8I", magic, flags, check, _LOAD, _LOAD, 0, 0, _LOAD + _HEAD)
    image = head + code
    # Behind the code the processor halts.
    return image + b"\xf4" * (-len(image) % 4096)
