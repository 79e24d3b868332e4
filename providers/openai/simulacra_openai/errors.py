"""What the SDK and its HTTP client raise, as the engine's errors. The only place that knows both."""

from __future__ import annotations

from contextlib import AbstractContextManager

from simulacra.errors import (
    AuthenticationError,
    ContentFilteredError,
    ProtocolError,
    ProviderError,
    SimulacraError,
    TimeoutExceededError,
)
from simulacra.http_errors import error_from_status, without_keys
from simulacra.wire import is_lost, reason_of, transport_error, typed_errors, unreachable

_ABOUT_CREDENTIALS = frozenset({"SubjectTokenProviderError", "MutuallyExclusiveAuthError"})
"""Classes that the SDK keeps to itself."""


def vendor_errors(*, reading: bool) -> AbstractContextManager[None]:
    """Turn what goes wrong inside the block into an error of the engine, the vendor's as its cause.

    Args:
        reading: Whether the reply has begun: losing the connection is then an interrupted stream.

    Raises:
        SimulacraError: In place of the SDK's, the HTTP client's and the network's own.
    """
    return typed_errors(lambda error: translate(error, reading=reading))


def translate(error: Exception, *, reading: bool) -> SimulacraError | None:
    """The engine's error for one of the SDK or the HTTP client; `None` when it is from neither."""
    import httpx2  # noqa: PLC0415 -- loaded with the SDK, not with this package
    import openai  # noqa: PLC0415 -- the SDK is imported on first use

    match error:
        case openai.APIStatusError():
            asked = error.response.request
            body = {"error": error.body} if isinstance(error.body, dict) else error.body
            return error_from_status(
                error.status_code, error.response.headers, body, url=str(asked.url), sent=asked.headers
            )
        case openai.APITimeoutError() if not is_lost(error):
            return TimeoutExceededError(f"the service did not answer in time ({reason_of(error)})")
        case openai.APIConnectionError():
            return unreachable(error.__cause__ or error, httpx2, url=str(error.request.url))
        case openai.APIResponseValidationError():
            return ProtocolError(str(error), status=error.status_code)
        case openai.APIError():
            return error_from_status(None, {}, {"error": error.body or str(error)})
        case openai.OpenAIError() if type(error).__name__ in _ABOUT_CREDENTIALS:
            return AuthenticationError(f"the client's credentials cannot be had: {without_keys(str(error))}")
        case openai.ContentFilterFinishReasonError():
            return ContentFilteredError(str(error))
        case openai.OpenAIError():
            return ProviderError(without_keys(str(error)))
        case _:
            return transport_error(error, httpx2, reading=reading)
