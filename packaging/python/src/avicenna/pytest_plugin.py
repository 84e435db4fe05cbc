"""Fixtures for pytest: a test of a hypervisor is a function."""

from contextlib import ExitStack
from typing import Any, Callable, Iterator

import pytest

from .machine import Machine


@pytest.fixture
def avicenna_machine() -> Iterator[Callable[..., Machine]]:
    """Makes machines, with the arguments of :class:`avicenna.Machine`; they end with the test."""
    with ExitStack() as machines:

        def make(*arguments: Any, **options: Any) -> Machine:
            return machines.enter_context(Machine(*arguments, **options))

        yield make
