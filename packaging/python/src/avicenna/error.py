"""What can go wrong."""


class AvicennaError(Exception):
    """Anything that this package raises by itself."""


class BinaryNotFound(AvicennaError):
    """There is no program to run."""


class Gone(AvicennaError):
    """The program ended, or failed; the message has what it said."""


class Refused(AvicennaError):
    """A request was refused, and did nothing.

    ``code`` is a word for programs, such as ``"memory"`` or ``"limit"``; the message says what is
    wrong.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
