"""Messages to a service and back: two lengths, a header of JSON, bytes."""

import json
import struct
from typing import IO, Any, Dict, List, Sequence, Tuple, TypeVar, cast

from .error import AvicennaError, Gone, Refused
from .request import Request

T = TypeVar("T")

VERSION = 1
_LENGTHS = struct.Struct("<II")
_LARGEST_HEADER = 16 << 20
_LARGEST_PAYLOAD = 64 << 20


class Connection:
    """A client over two streams of bytes."""

    def __init__(self, output: IO[bytes], input: IO[bytes]) -> None:
        self._output = output
        self._input = input

    def hello(self) -> Dict[str, Any]:
        """What the service says of itself and of the machine."""
        header = {"do": "hello", "version": VERSION}
        return self.ask(Request(header, b"", lambda reply, _: reply))

    def ask(self, request: Request[T]) -> T:
        """One request."""
        reply, payload = self._exchange(request.header, request.payload)
        if not isinstance(reply, dict):
            raise AvicennaError(f"a reply that is none: {reply!r}")
        return request.decode(_accepted(reply), payload)

    def ask_all(self, requests: Sequence[Request[Any]]) -> List[Any]:
        """Several in one message; the first refusal is raised, and those after it are not done."""
        headers = [request.header for request in requests]
        replies, payload = self._exchange(headers, b"".join(each.payload for each in requests))
        if isinstance(replies, dict):
            # The message as a whole was refused.
            _accepted(replies)
        if not isinstance(replies, list) or len(replies) > len(requests):
            raise AvicennaError(f"replies that are none: {replies!r}")
        found: List[Any] = []
        for request, reply in zip(requests, replies):
            length = int(_accepted(reply).get("bytes", 0))
            found.append(request.decode(reply, payload[:length]))
            payload = payload[length:]
        return found

    def _exchange(self, header: Any, payload: bytes) -> Tuple[Any, bytes]:
        text = json.dumps(header).encode()
        try:
            self._output.write(_LENGTHS.pack(len(text), len(payload)) + text + payload)
            self._output.flush()
        except OSError as error:
            raise Gone(f"the service does not listen: {error}") from error
        header_length, payload_length = _LENGTHS.unpack(self._read(_LENGTHS.size))
        if header_length > _LARGEST_HEADER or payload_length > _LARGEST_PAYLOAD:
            raise Gone(f"a message of {header_length} and {payload_length} bytes is none")
        reply = json.loads(self._read(header_length))
        return reply, self._read(payload_length)

    def _read(self, length: int) -> bytes:
        pieces = bytearray()
        while len(pieces) < length:
            piece = self._input.read(length - len(pieces))
            if not piece:
                raise Gone("the service is gone")
            pieces += piece
        return bytes(pieces)


def _accepted(reply: Dict[str, Any]) -> Dict[str, Any]:
    error = cast("Dict[str, str] | None", reply.get("error"))
    if error is not None:
        raise Refused(error["code"], error["message"])
    return reply
