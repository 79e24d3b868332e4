"""The option `thinking`: every mode of the API, and the engine's own words for them (ANT-2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simulacra.errors import ConfigurationError

INTERLEAVED = "interleaved-thinking-2025-05-14"
"""The beta that lets a model with a budget think between its calls."""
_KEYS = ("enable", "budget_tokens", "effort", "display", "interleaved")


def read_thinking(asked: Mapping[str, Any] | None) -> tuple[dict[str, Any] | None, str | None, bool]:
    """The API's `thinking`, the effort, and whether thinking between calls needs its beta.

    Args:
        asked: A mapping with `type` as the API takes it; or `enable` (true or false), `budget_tokens`, `effort`
            (the API's words), `display` (`summarized` or `omitted`) and `interleaved`. `enable` without a budget lets
            the model decide how much it thinks; an effort alone changes nothing else.

    Raises:
        ConfigurationError: A key or a value that cannot be right.
    """
    if not asked:
        return None, None, False

    if "type" in asked:
        return dict(asked), None, False

    unknown = sorted(asked.keys() - set(_KEYS))

    if unknown:
        raise ConfigurationError(
            f"thinking option {unknown[0]!r} is unknown to this provider; it knows {', '.join(_KEYS)},"
            " or a mapping with 'type' that is sent as it is"
        )

    budget, effort = asked.get("budget_tokens"), asked.get("effort")
    _check(asked, budget, effort)

    if asked.get("enable") is False:
        return {"type": "disabled"}, effort, False

    shown = {"display": asked["display"]} if asked.get("display") else {}

    if budget is not None:
        return {"type": "enabled", "budget_tokens": budget, **shown}, effort, bool(asked.get("interleaved"))

    return {"type": "adaptive", **shown} if asked.get("enable") else None, effort, False


def _check(asked: Mapping[str, Any], budget: Any, effort: Any) -> None:
    if asked.get("enable") not in (None, True, False):
        raise ConfigurationError(f"thinking option 'enable' must be true or false, not {asked['enable']!r}")

    if budget is not None and (isinstance(budget, bool) or not isinstance(budget, int) or budget < 1):
        raise ConfigurationError(f"thinking option 'budget_tokens' must be a positive whole number, not {budget!r}")

    if effort is not None and not isinstance(effort, str):
        raise ConfigurationError(f"thinking option 'effort' must be text, not {effort!r}")
