"""What the SDK and its HTTP client raise, as the engine's errors. The only place that knows both."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from simulacra.errors import (
    AuthenticationError,
    ConfigurationError,
    ConnectionFailedError,
    ProtocolError,
    ProviderError,
    SimulacraError,
)
from simulacra.http_errors import error_from_status
from simulacra.wire import transport_error, typed_errors, unreachable

if TYPE_CHECKING:
    import httpx2

_DURATION = re.compile(r"(\d+(?:\.\d+)?)s")
_BILLING = re.compile(r"billing|credits? (are|is) depleted", re.IGNORECASE)


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
    from google.auth import exceptions as auth  # noqa: PLC0415 -- the SDK is imported on first use
    from google.genai import errors  # noqa: PLC0415 -- as above

    match error:
        case errors.APIError():
            response = error.response
            asked = getattr(response, "request", None)
            return reported_error(
                error.details,
                dict(getattr(response, "headers", None) or {}),
                status=error.code,
                url=None if asked is None else str(asked.url),
                sent=None if asked is None else dict(asked.headers),
            )
        case errors.UnknownApiResponseError():
            return ProtocolError(str(error))
        case errors.UnknownFunctionCallArgumentError() | errors.UnsupportedFunctionError():
            return ConfigurationError(str(error))
        case errors.FunctionInvocationError() | errors.ContinuationInterruptedError():
            return ProviderError(str(error))
        case auth.GoogleAuthError():
            return _credentials(error)
        case httpx2.TransportError() if not reading and not isinstance(error, httpx2.TimeoutException):
            return unreachable(error, httpx2, url=_address(error))
        case _:
            return transport_error(error, httpx2, reading=reading)


def _address(error: httpx2.TransportError) -> str:
    try:
        return str(error.request.url)
    except RuntimeError:  # it was raised before there was a request
        return ""


def reported_error(
    body: Any,
    headers: Mapping[str, str],
    *,
    status: int | None = None,
    url: str | None = None,
    sent: Mapping[str, str] | None = None,
) -> ProviderError:
    """The engine's error for a body of Google's.

    Args:
        body: `{"error": {"code", "message", "status", "details"}}`, or a text.
        headers: Response headers.
        status: HTTP status; that of the body for an error inside a stream.
        url: Where the request went.
        sent: Headers of the request.
    """
    whole = body[0] if isinstance(body, list) and body else body
    told = whole.get("error", whole) if isinstance(whole, dict) else {}
    told = told if isinstance(told, dict) else {"message": str(told)}
    effective = status or (told.get("code") if isinstance(told.get("code"), int) else None)
    details = [one for one in told.get("details") or () if isinstance(one, dict)]
    waited = _retry_delay(details)
    known = {key.lower() for key in headers}
    hinted = dict(headers) if waited is None or "retry-after" in known else {**headers, "retry-after": str(waited)}
    said: dict[str, Any] = {"message": told.get("message") or str(whole)[:500], "code": told.get("status")}

    if str(told.get("status")) == "INVALID_ARGUMENT" and "API key" in str(told.get("message")):
        effective = 401

    if effective == 429 and _is_used_up(details, said["message"], waited):
        said["type"] = "insufficient_quota"

    return error_from_status(effective, hinted, {"error": said}, url=url, sent=sent)


def _is_used_up(details: list[dict[str, Any]], message: str, waited: float | None) -> bool:
    """Whether a quota does not pass by waiting. Its id tells; every message speaks of plans, that of a minute's too."""
    quotas = [
        str(violation.get("quotaId"))
        for one in details
        for violation in one.get("violations") or ()
        if isinstance(violation, dict)
    ]

    if quotas:
        return any("PerDay" in quota for quota in quotas)

    return waited is None and _BILLING.search(message) is not None


def _retry_delay(details: list[dict[str, Any]]) -> float | None:
    for one in details:
        found = _DURATION.fullmatch(str(one.get("retryDelay", "")))

        if found:
            return float(found[1])

    return None


def _credentials(error: Exception) -> ProviderError:
    if type(error).__name__ in ("TransportError", "TimeoutError"):
        return ConnectionFailedError(f"the credentials' server cannot be reached: {error}")

    return AuthenticationError(f"the client's credentials cannot be had: {error}")
