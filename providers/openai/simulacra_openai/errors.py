"""What the SDK and its HTTP client raise, as the engine's errors. The only place that knows both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import anyio

from simulacra.errors import (
    ConfigurationError,
    ConnectionFailedError,
    ContentFilteredError,
    ProtocolError,
    ProviderError,
    SimulacraError,
    StreamInterruptedError,
    TimeoutExceededError,
)
from simulacra.http_errors import error_from_status


@contextmanager
def vendor_errors(*, reading: bool) -> Iterator[None]:
    """Turn what goes wrong inside the block into an error of the engine, the vendor's as its cause.

    Args:
        reading: Whether the reply has begun: losing the connection is then an interrupted stream.

    Raises:
        SimulacraError: In place of the SDK's, the HTTP client's and the network's own.
    """
    try:
        yield
    except SimulacraError:
        raise
    except Exception as error:
        translated = translate(error, reading=reading)

        if translated is None:
            raise

        raise translated from error


def translate(error: Exception, *, reading: bool) -> SimulacraError | None:
    """The engine's error for one of the SDK or the HTTP client; `None` when it is from neither."""
    import httpx2  # noqa: PLC0415 -- loaded with the SDK, not with this package
    import openai  # noqa: PLC0415 -- the SDK is imported on first use

    match error:
        case openai.APIStatusError():
            body = error.body
            return error_from_status(
                error.status_code, dict(error.response.headers), {"error": body} if isinstance(body, dict) else body
            )
        case openai.APITimeoutError() | httpx2.TimeoutException():
            return TimeoutExceededError(f"the service did not answer in time ({_reason(error)})")
        case openai.APIConnectionError():
            return _unreachable(error.__cause__ or error, url=str(error.request.url))
        case openai.APIResponseValidationError():
            return ProtocolError(str(error), status=error.status_code)
        case openai.APIError():
            return error_from_status(None, {}, {"error": error.body or str(error)})
        case openai.ContentFilterFinishReasonError():
            return ContentFilteredError(str(error))
        case openai.OpenAIError():
            return ProviderError(str(error))
        case httpx2.InvalidURL():
            return ConfigurationError(f"the client's base_url cannot be used: {error}")
        case httpx2.DecodingError():
            return ProtocolError(f"the answer cannot be decompressed: {error}")
        case httpx2.HTTPError() | httpx2.StreamError() | anyio.EndOfStream() | OSError():
            lost = StreamInterruptedError(f"the connection was lost while the reply was read ({_reason(error)})")
            return lost if reading else _unreachable(error, url="")
        case _:
            return None


def _unreachable(error: BaseException, *, url: str) -> SimulacraError:
    import httpx2  # noqa: PLC0415 -- loaded with the SDK, not with this package

    if isinstance(error, httpx2.UnsupportedProtocol | httpx2.LocalProtocolError):
        return ConfigurationError(f"the request to {url!r} cannot be sent: {error}")

    return ConnectionFailedError(
        f"no answer from {url or 'the service'} ({_reason(error)}). Is the address right and the server up?"
    )


def _reason(error: BaseException) -> str:
    cause = error.__cause__
    text = str(error) or (str(cause) if cause is not None else "")

    return f"{type(error).__name__}: {text}" if text else type(error).__name__
