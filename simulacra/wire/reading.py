"""Reading the body of a response, streamed or whole, while the engine's observer listens."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager, suppress
from typing import Any, Protocol, TypeAlias, cast

from simulacra.clock import time_limit
from simulacra.errors import ProtocolError
from simulacra.provider import RequestObserver
from simulacra.wire.sse import EventSplitter, read_event

CLOSE_SECONDS = 1.0
"""How long closing a response may take before it is given up."""
DRAIN_SECONDS = 0.1
"""How long the end of a finished response is waited for, so that its connection can be used again."""

Chunk: TypeAlias = "dict[str, Any] | None"
"""One JSON event, or `None` for `[DONE]`."""


class ByteResponse(Protocol):
    """What is needed of an HTTP client's streamed response."""

    @property
    def headers(self) -> Mapping[str, str]: ...

    @property
    def stream(self) -> Any: ...

    @property
    def is_closed(self) -> bool: ...

    def aiter_bytes(self) -> AsyncIterator[bytes]: ...

    async def aread(self) -> bytes: ...

    async def aclose(self) -> None: ...


async def read_chunks(
    response: ByteResponse,
    observer: RequestObserver,
    *,
    failures: Callable[[], AbstractContextManager[None]],
    is_last: Callable[[Chunk], bool],
) -> AsyncGenerator[Chunk, None]:
    """The chunks of an event stream.

    The observer is told of each chunk when it wants them, else of each read.

    Args:
        response: The open response. It is closed at the end.
        observer: The engine's ear.
        failures: Gives what types the errors of reading.
        is_last: Whether nothing of the reply follows a chunk.

    Raises:
        ProtocolError: An event is no JSON.
    """
    splitter = EventSplitter()
    body = _bytes_of(response)
    is_read = False

    with failures():
        try:
            async for data in body:
                wants_chunks = observer.wants_chunks
                found = splitter.feed(data)

                if not wants_chunks or not found:  # nobody asks, or it is a comment, or a piece of an event
                    await observer.chunk(data.decode("utf-8", "replace") if wants_chunks else None)

                for name, payload in found:
                    chunk = read_event(name, payload)

                    if is_last(chunk):
                        is_read = await _drain(body)

                    if wants_chunks and chunk is not None:
                        await observer.chunk(chunk)

                    yield chunk
        finally:
            await _close(response, body, is_read=is_read)

    for name, payload in splitter.flush():
        with suppress(ProtocolError):  # cut in the middle: the decoder says so
            yield read_event(name, payload)


async def read_whole(
    response: ByteResponse, observer: RequestObserver, *, failures: Callable[[], AbstractContextManager[None]]
) -> dict[str, Any]:
    """The JSON object of a reply that was not streamed.

    Args:
        response: The open response.
        observer: The engine's ear.
        failures: Gives what types the errors of reading.

    Raises:
        ProtocolError: The body is no JSON.
    """
    with failures():
        body = await response.aread()

    reply = read_event("", body) or {}
    await observer.chunk(reply if observer.wants_chunks else None)

    return reply


async def read_count(
    response: ByteResponse, field: str, *, failures: Callable[[], AbstractContextManager[None]]
) -> int:
    """The number of tokens that a service counted.

    Args:
        response: The answer.
        field: Where in its JSON object the number stands.
        failures: Gives what types the errors of reading.

    Raises:
        ProtocolError: There is no number.
    """
    with failures():
        body = await response.aread()

    try:
        return int(json.loads(body)[field])
    except (KeyError, TypeError, ValueError) as error:
        raise ProtocolError(f"the service counted no tokens: {body[:200].decode(errors='replace')}") from error


async def close_response(response: ByteResponse) -> None:
    """Close a response, as a provider does in the end whatever happened; bounded, and out of reach of a cancel.

    Args:
        response: The response, which may be closed.
    """
    if not response.is_closed:
        with time_limit(CLOSE_SECONDS, shield=True):
            await response.aclose()


def _bytes_of(response: ByteResponse) -> AsyncGenerator[bytes, None]:
    """The bytes of a response.

    Bytes that nobody compressed are taken from the transport itself: what `aiter_bytes` does for each read costs as much
    as reading it.
    """
    plain = "content-encoding" not in response.headers
    source = cast("AsyncIterable[bytes]", response.stream) if plain else response.aiter_bytes()

    return cast("AsyncGenerator[bytes, None]", aiter(source))


async def _close(response: ByteResponse, body: AsyncGenerator[bytes, None], *, is_read: bool) -> None:
    """Close a response; bounded, and out of reach of a cancel.

    The transport forgets to close its innermost generator, which trio complains of; reading on from a response that is
    closed ends it at once.
    """
    if is_read:  # there is nothing left to wait for
        await response.aclose()
        return

    with time_limit(CLOSE_SECONDS, shield=True):
        await response.aclose()

        with suppress(Exception):
            await _drain(body)

        await body.aclose()


async def _drain(body: AsyncIterator[bytes]) -> bool:
    """Read to the end of a finished response, so that its connection can be used again; not for long.

    Returns:
        Whether the end was reached.
    """
    with time_limit(DRAIN_SECONDS) as limit:
        async for _ in body:
            pass

    return not limit.cancelled_caught
