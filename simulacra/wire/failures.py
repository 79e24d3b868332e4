"""What an HTTP client raises, as the engine's errors. An SDK's own errors are its plugin's affair."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType

import anyio

from simulacra.errors import (
    ConfigurationError,
    ConnectionFailedError,
    ProtocolError,
    SimulacraError,
    StreamInterruptedError,
    TimeoutExceededError,
)


@contextmanager
def typed_errors(translate: Callable[[Exception], SimulacraError | None]) -> Iterator[None]:
    """Turn what goes wrong inside the block into an error of the engine, the original one as its cause.

    Args:
        translate: The engine's error for another one; `None` lets it through.

    Raises:
        SimulacraError: In place of what was translated.
    """
    try:
        yield
    except SimulacraError:
        raise
    except Exception as error:
        translated = translate(error)

        if translated is None:
            raise

        raise translated from error


def transport_error(error: Exception, http: ModuleType, *, reading: bool) -> SimulacraError | None:
    """The engine's error for one of the HTTP client or the network; `None` when it is from neither.

    Args:
        error: What was raised.
        http: The HTTP client's module, with the names of `httpx2`.
        reading: Whether the reply has begun: losing the connection is then an interrupted stream.
    """
    if isinstance(error, http.TimeoutException) and not is_lost(error):
        return TimeoutExceededError(f"the service did not answer in time ({reason_of(error)})")

    if isinstance(error, http.InvalidURL):
        return ConfigurationError(f"the client's base_url cannot be used: {error}")

    if isinstance(error, http.DecodingError):
        return ProtocolError(f"the answer cannot be decompressed: {error}")

    known = isinstance(error, http.HTTPError | http.StreamError | anyio.EndOfStream | OSError)

    if not known and not is_lost(error):
        return None

    if reading:
        return StreamInterruptedError(f"the connection was lost while the reply was read ({reason_of(error)})")

    return unreachable(error, http)


def is_lost(error: BaseException) -> bool:
    """Whether aiohttp lost the connection: the SDKs' transport over it calls some of that a timeout."""
    return _loss(error) is not None


def unreachable(error: BaseException, http: ModuleType, *, url: str = "") -> SimulacraError:
    """The error for a request that got no answer.

    Args:
        error: Why.
        http: The HTTP client's module.
        url: Where the request went.
    """
    if isinstance(error, http.UnsupportedProtocol):
        said = "" if str(error) in url else f"{error}; "
        return ConfigurationError(f"no request can go to {url!r}: {said}the client's base_url begins with http(s)://")

    if isinstance(error, http.LocalProtocolError):
        return ConfigurationError(f"the request to {url!r} cannot be sent: {error}")

    return ConnectionFailedError(
        f"no answer from {url or 'the service'} ({reason_of(error)}). Is the address right and the server up?"
    )


def reason_of(error: BaseException) -> str:
    """An error's class and text, or its cause's text where it has none."""
    error = _loss(error) or error
    cause = error.__cause__
    text = str(error) or (str(cause) if cause is not None else "")

    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _loss(error: BaseException) -> BaseException | None:
    """The error of aiohttp behind another one, but a timeout."""
    cause: BaseException | None = error

    while cause is not None and not type(cause).__module__.startswith("aiohttp."):
        cause = cause.__cause__

    return None if isinstance(cause, TimeoutError) else cause
