"""What an HTTP failure means: one table from status, type and code to the engine's errors, for every vendor.

Status, type and code decide; the message is read only where they say nothing (RT-R3, CP-R5). Source of the table:
the engine's provider port, section "HTTP status mapping".
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from simulacra.clock import clock
from simulacra.errors import (
    AuthenticationError,
    BadRequestError,
    ContextWindowError,
    NotFoundError,
    OverloadedError,
    PermissionDeniedError,
    ProviderError,
    QuotaExceededError,
    RateLimitError,
    ServerError,
    TimeoutExceededError,
)

_BY_STATUS: dict[int, type[ProviderError]] = {
    401: AuthenticationError,
    403: PermissionDeniedError,
    404: NotFoundError,
    408: TimeoutExceededError,
    429: RateLimitError,
    503: OverloadedError,
    529: OverloadedError,
}
_BY_CODE: dict[str, type[ProviderError]] = {
    "authentication_error": AuthenticationError,
    "billing_error": QuotaExceededError,
    "billing_hard_limit_reached": QuotaExceededError,
    "context_length_exceeded": ContextWindowError,
    "exceed_context_size_error": ContextWindowError,
    "insufficient_quota": QuotaExceededError,
    "insufficient_balance": QuotaExceededError,
    "invalid_api_key": AuthenticationError,
    "invalid_request_error": BadRequestError,
    "model_not_found": NotFoundError,
    "not_found_error": NotFoundError,
    "overloaded_error": OverloadedError,
    "permission_error": PermissionDeniedError,
    "rate_limit_error": RateLimitError,
    "rate_limit_exceeded": RateLimitError,
    "request_too_large": BadRequestError,
    "api_error": ServerError,
    "server_error": ServerError,
    "timeout_error": TimeoutExceededError,
}
_OVERFLOW = re.compile(
    r"prompt is too long|context length|context window|maximum context|context_length"
    r"|too many tokens|exceeds? (the )?(available )?context|input is too long|token limit exceeded",
    re.IGNORECASE,
)
_QUOTA_CODES = frozenset(code for code, error in _BY_CODE.items() if error is QuotaExceededError)


def error_from_status(status: int | None, headers: Mapping[str, str] | None = None, body: Any = None) -> ProviderError:
    """The typed error for a vendor's failure.

    Args:
        status: HTTP status; `None` or 200 for an error event inside a stream.
        headers: Response headers, any case.
        body: The answer: parsed JSON, or text.

    Returns:
        An error to raise. `provider` and `model` are filled in by the turn.
    """
    lowered = {key.lower(): value for key, value in (headers or {}).items()}
    message, codes = _read_body(body)
    effective = _effective_status(status, codes)
    kind = _classify(effective, codes, message)
    hint = lowered.get("x-should-retry", "").lower()
    retryable = {"true": True, "false": False}.get(hint, True if effective == 409 else None)

    return kind(
        message or f"the service answered with status {status}",
        status=effective,
        code=codes[0] if codes else None,
        request_id=lowered.get("request-id") or lowered.get("x-request-id"),
        retryable=retryable,
        retry_after=retry_after(lowered),
    )


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait, from `retry-after-ms` or `retry-after` (seconds or an HTTP date), lower-case keys (RT-R2).

    A date rounds up to whole seconds, one already past asks for no wait; negative or unreadable hints are ignored.
    """
    for name, factor in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers[name]) * factor
        except (KeyError, ValueError):
            continue

        if math.isfinite(seconds) and seconds >= 0:
            return seconds

    try:
        moment = parsedate_to_datetime(headers["retry-after"]).timestamp()
    except (KeyError, ValueError, TypeError, OverflowError):
        return None

    return float(max(0, math.ceil(moment - clock().now_ms() / 1000)))


def _read_body(body: Any) -> tuple[str, list[str]]:
    """The vendor's message, and its codes and types, most specific first."""
    if isinstance(body, bytes):
        body = body.decode("utf-8", "replace")

    if isinstance(body, str):
        try:
            parsed = json.loads(body)
        except ValueError:
            return body.strip()[:2000], []

        return _read_body(parsed) if isinstance(parsed, dict) else (body.strip()[:2000], [])

    if not isinstance(body, Mapping):
        return "", []

    detail = body.get("error", body)

    if not isinstance(detail, Mapping):
        return str(detail), []

    codes = [str(detail[key]) for key in ("code", "type", "status") if detail.get(key) not in (None, "")]

    return str(detail.get("message") or detail.get("detail") or ""), codes


def _effective_status(status: int | None, codes: list[str]) -> int | None:
    """The status, or the one that an error event under status 200 names as its code."""
    if status is not None and status >= 400:
        return status

    numeric = [int(code) for code in codes if code.isdigit() and 400 <= int(code) < 600]

    return numeric[0] if numeric else None


def _classify(status: int | None, codes: list[str], message: str) -> type[ProviderError]:
    named = [_BY_CODE[code.lower()] for code in codes if code.lower() in _BY_CODE]

    if status == 429:
        return QuotaExceededError if any(code.lower() in _QUOTA_CODES for code in codes) else RateLimitError

    if status in (400, 413, 422, None) or (400 <= status < 500 and status not in _BY_STATUS):
        if ContextWindowError in named:
            return ContextWindowError

        if status is None and named:
            return named[0]

        if status is not None and QuotaExceededError in named:
            return QuotaExceededError

        if status in (400, 413, 422) and _OVERFLOW.search(message):
            return ContextWindowError

        return ServerError if status is None else BadRequestError

    if status in _BY_STATUS:
        return _BY_STATUS[status]

    return ServerError
