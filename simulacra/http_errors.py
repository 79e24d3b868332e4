"""What an HTTP failure means: one table from status, type and code to the engine's errors, for every vendor.

Status, type and code decide; the message is read only where they say nothing (RT-R3, CP-R5). Source of the table:
the engine's provider port, section "HTTP status mapping".
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from datetime import UTC
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from simulacra.clock import clock
from simulacra.errors import (
    AuthenticationError,
    BadRequestError,
    ContentFilteredError,
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
    "billing_not_active": QuotaExceededError,
    "billing_hard_limit_reached": QuotaExceededError,
    "contract_spend_limit_reached": QuotaExceededError,
    "content_filter": ContentFilteredError,
    "context_length_exceeded": ContextWindowError,
    "enforced_spend_limit_reached": QuotaExceededError,
    "exceed_context_size_error": ContextWindowError,
    "insufficient_quota": QuotaExceededError,
    "insufficient_balance": QuotaExceededError,
    "invalid_api_key": AuthenticationError,
    "invalid_request_error": BadRequestError,
    "linked_organization_billing_unavailable": QuotaExceededError,
    "linked_organization_spend_limit_reached": QuotaExceededError,
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
    r"prompt is too long|context length|context window|maximum (context|prompt)|context_length"
    r"|too many tokens|exceeds? (the )?(available )?context|input is too long|token limit exceeded"
    r"|input token (count|length)|maximum number of (input )?tokens",
    re.IGNORECASE,
)
_REFINEMENTS = frozenset({ContentFilteredError, ContextWindowError, QuotaExceededError})
"""What a code may make of a status that only says that the request was refused."""
_REMEDIES: dict[type[ProviderError], str] = {
    AuthenticationError: ". Is the key right, and meant for this address?",
    NotFoundError: ". Is the model's name right, and the address?",
    ContextWindowError: ". Make a checkpoint, or send less",
    QuotaExceededError: ". Repeating will not help: the account has to be topped up",
}
_MESSAGE_LIMIT = 2_000
_CREDENTIALS = frozenset(
    {"authorization", "api-key", "x-api-key", "x-goog-api-key", "cf-aig-authorization", "proxy-authorization"}
)
"""Headers whose value opens something."""
_SHORTEST_KEY = 6
_NO_KEY = "[key]"
_KEYS = re.compile(
    r"\b(?:sk|pk|rk|gsk|fw|hf|xai|nvapi|pplx|r8)[-_][\w*.-]{6,}[\w*]|\bAIza[\w-]{10,}|\bya29\.[\w.-]{10,}|\beyJ[\w-]{10,}[\w.-]*"
    r"|(?<=Bearer )\S{6,}|(?<=API key provided: )[^\s,]*[^\s,.]"
)
"""What keys of services look like, masked ones included, and what is called one."""


def error_from_status(
    status: int | None,
    headers: Mapping[str, str] | None = None,
    body: Any = None,
    *,
    url: str | None = None,
    sent: Mapping[str, str] | None = None,
) -> ProviderError:
    """The typed error for a vendor's failure.

    Args:
        status: HTTP status; `None` or 200 for an error event inside a stream.
        headers: Response headers, any case.
        body: The answer: parsed JSON, or text.
        url: Where the request went, which the error's text then names.
        sent: Headers of the request: a key that stands in them never stands in the error's text.

    Returns:
        An error to raise. `provider` and `model` are filled in by the turn.
    """
    lowered = {key.lower(): value for key, value in (headers or {}).items()}
    message, codes = _read_body(body)
    effective = _effective_status(status, codes)
    kind = _classify(effective, codes, message)
    said = message or f"the service gives no reason but {codes[0] if codes else f'status {status}'}"

    where = f" ({_address(url)}){_REMEDIES.get(kind, '')}" if url else ""

    return kind(
        without_keys(said, sent) + where,
        status=effective,
        code=codes[0] if codes else None,
        request_id=lowered.get("request-id") or lowered.get("x-request-id"),
        retryable=_retryable(kind, effective, lowered),
        retry_after=retry_after(lowered),
    )


def without_keys(text: str, sent: Mapping[str, str] | None = None) -> str:
    """A text in which no key of a service is left, neither one that was sent nor what looks like one.

    Args:
        text: What a service or an SDK said.
        sent: Headers of the request.
    """
    for name, value in (sent or {}).items():
        key = value.removeprefix("Bearer ").strip()

        if name.lower() in _CREDENTIALS and len(key) >= _SHORTEST_KEY:
            text = text.replace(key, _NO_KEY)

    return _KEYS.sub(_NO_KEY, text)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait, from `retry-after-ms` or `retry-after` (seconds or an HTTP date), lower-case keys (RT-R2).

    A date rounds up to whole seconds, one already past asks for no wait; negative or unreadable hints are ignored.
    """
    for name, divisor in (("retry-after-ms", 1000), ("retry-after", 1)):
        try:
            seconds = float(headers[name]) / divisor
        except (KeyError, ValueError):
            continue

        if math.isfinite(seconds) and seconds >= 0:
            return seconds

    from email.utils import parsedate_to_datetime  # noqa: PLC0415 -- rarely needed, and slow to import

    try:
        moment = parsedate_to_datetime(headers["retry-after"])
        due = moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()  # HTTP dates are in UTC (RFC 9110, 5.6.7)
    except (KeyError, ValueError, TypeError, OverflowError):
        return None

    return float(max(0, math.ceil(due - clock().now_ms() / 1000)))


def _retryable(kind: type[ProviderError], status: int | None, headers: Mapping[str, str]) -> bool | None:
    """What overrides the class's own answer: the vendor's word, but for what no repetition changes."""
    if kind in _REFINEMENTS:
        return None

    hint = headers.get("x-should-retry", "").lower()

    return {"true": True, "false": False}.get(hint, True if status == 409 else None)


def _read_body(body: Any) -> tuple[str, list[str]]:
    """The vendor's message, and its codes and types, most specific first."""
    if isinstance(body, bytes):
        body = body.decode("utf-8", "replace")

    if isinstance(body, str):
        parsed = _parse(body)

        return (_tidy(body), []) if parsed is None else _read_body(parsed)

    if isinstance(body, list):
        body = next((item for item in body if isinstance(item, Mapping)), None)

    if not isinstance(body, Mapping):
        return "", []

    detail = body.get("error") or body

    if not isinstance(detail, Mapping):
        said = body.get("message")

        return (_tidy(said), [str(detail)]) if isinstance(said, str) and said else (_tidy(str(detail)), [])

    further = detail.get("details")
    named = [further.get("error_code")] if isinstance(further, Mapping) else []
    named += [detail.get(key) for key in ("code", "type", "status")]
    codes = [str(code) for code in named if code not in (None, "")]

    return _tidy(str(detail.get("message") or detail.get("detail") or "")), codes


def _parse(text: str) -> Any:
    """The JSON object or array that a text is; `None` for any other text."""
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return None

    return parsed if isinstance(parsed, dict | list) else None


def _tidy(text: str) -> str:
    """Short enough for a message, and without lone surrogates, which no log or terminal takes."""
    stripped = text.strip()
    further = len(stripped) - _MESSAGE_LIMIT
    shown = stripped if further <= 0 else f"{stripped[:_MESSAGE_LIMIT]}... ({further} more characters)"

    return shown.encode("utf-8", "replace").decode()


def _address(url: str) -> str:
    """Where a request went, without what may be secret: user, query and fragment."""
    parts = urlsplit(url)

    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _effective_status(status: int | None, codes: list[str]) -> int | None:
    """The status, or the one that an error event under a good status names as its code."""
    if status is not None and not 200 <= status < 300:
        return status

    named = (int(code) for code in codes if len(code) == 3 and code.isdecimal())

    return next((code for code in named if 400 <= code < 600), None)


def _classify(status: int | None, codes: list[str], message: str) -> type[ProviderError]:
    named = [_BY_CODE[code.lower()] for code in codes if code.lower() in _BY_CODE]

    if status is None:
        kind = named[0] if named else ServerError
    elif status >= 500:
        kind = _BY_STATUS.get(status, ServerError)
    elif status == 429:
        kind = QuotaExceededError if QuotaExceededError in named else RateLimitError
    elif status in _BY_STATUS:
        kind = _BY_STATUS[status]
    else:
        kind = next((found for found in named if found in _REFINEMENTS), BadRequestError)

    may_be_overflow = kind is BadRequestError and status in (None, 400, 413, 422)

    return ContextWindowError if may_be_overflow and _OVERFLOW.search(message) else kind
