"""Being disposed of: once, by whoever asks first; who asks again waits for it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Self

import anyio

from simulacra.blocking import refuse_inside_loop, run_sync
from simulacra.clock import time_limit
from simulacra.scopes import Signal

WAIT_SECONDS = 1.0
"""How long a further call waits for the first one, whose listeners may hang or whose event loop may be another one."""


class Disposal(AbstractContextManager[None]):
    """Whether an object's end has begun, and whether it is over. The end itself is made inside a `with`, once."""

    def __init__(self) -> None:
        self.has_begun = False
        self._is_over = Signal()
        self._task_id: int | None = None

    def __enter__(self) -> None:
        self.has_begun = True
        self._task_id = anyio.get_current_task().id

    def __exit__(self, *_: object) -> None:
        self._is_over.set()

    async def wait(self) -> None:
        """Wait until it is over; bounded, and not at all inside the disposal itself, as in one of its listeners."""
        if anyio.get_current_task().id != self._task_id:
            with time_limit(WAIT_SECONDS):
                await self._is_over.wait()


class Disposable(ABC):
    """What is disposed of at the end of a `with` or an `async with`."""

    @abstractmethod
    async def aclose(self) -> None:
        """Dispose."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __enter__(self) -> Self:
        refuse_inside_loop("with", "Use `async with`")

        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        run_sync(self.aclose())
