"""Options that travel beside a request's fields: the keywords that vendor SDKs share, extras, time limits (RX-10)."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from simulacra.cleaning import clean_json
from simulacra.errors import ConfigurationError
from simulacra.provider import RequestOptions

SDK_OPTIONS = frozenset({"extra_headers", "extra_query", "extra_body", "timeout"})
"""Keywords of the SDKs' methods that are no fields of the body."""
_MAPPINGS = ("extra_headers", "extra_query", "extra_body")


def check_extra(extra: Mapping[str, Any], *, taken: AbstractSet[str]) -> None:
    """Refuse extras that cannot be right.

    Args:
        extra: Fields of the request and SDK options, as the user gave them.
        taken: Fields that the engine sets.

    Raises:
        ConfigurationError: A field that the engine sets, or an SDK option of a wrong kind.
    """
    for name in _MAPPINGS:
        if not isinstance(extra.get(name) or {}, Mapping):
            raise ConfigurationError(f"option {name!r} must be a mapping, not {type(extra[name]).__name__}")

    doubled = sorted(taken & (extra.keys() | (extra.get("extra_body") or {}).keys()))

    if doubled:
        raise ConfigurationError(
            f"option {doubled[0]!r} is set by the engine. Use the conversation's system, toolkit, max_tokens and"
            " tool_choice, or a before_request listener"
        )


def merge_extra(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The provider's extras under the request's; headers, query and body fields are merged one by one."""
    merged = {key: clean_json(value) if key not in SDK_OPTIONS else value for key, value in {**base, **changes}.items()}

    for name in _MAPPINGS:
        if base.get(name) or changes.get(name):
            merged[name] = {**(base.get(name) or {}), **(changes.get(name) or {})}

    return merged


def split_params(params: Mapping[str, Any], *, http: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parameters as a body and the options of the SDK's `post`, retries switched off.

    Args:
        params: Fields of the body, and `SDK_OPTIONS`.
        http: The module of the SDK's HTTP client, whose `Timeout` a mapping becomes.
    """
    body = {key: value for key, value in params.items() if key not in SDK_OPTIONS}
    body |= params.get("extra_body") or {}
    options: dict[str, Any] = {
        "max_retries": 0,
        "headers": params.get("extra_headers") or {},
        "params": params.get("extra_query") or {},
    }

    if "timeout" in params:
        timeout = params["timeout"]
        options["timeout"] = http.Timeout(**timeout) if isinstance(timeout, Mapping) else timeout

    return body, options


def default_timeout(current: Any, default: Any, options: RequestOptions) -> dict[str, float | None] | None:
    """HTTP limits where the engine's own are longer than the SDK's default, which would cut in before (RX-11).

    Args:
        current: The client's timeout.
        default: The SDK's default, with `connect`, `read`, `write` and `pool` in seconds.
        options: The engine's limits.

    Returns:
        The limits in seconds, or `None` where the client's are right as they are.
    """
    limits = (options.first_event_timeout, options.idle_timeout)
    longest = None if None in limits else max(limit for limit in limits if limit is not None)

    if current != default or (longest is not None and longest <= (default.read or 0)):
        return None

    return {"connect": default.connect, "read": longest, "write": default.write, "pool": default.pool}
