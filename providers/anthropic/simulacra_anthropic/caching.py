"""Prompt caching: up to four breakpoints, placed so that each request of an agent reads what the last one wrote.

They stand behind the tools, behind the system prompt, behind the last message, and behind the one that was last in
the request before: where the cache was written then, it is looked for now.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from itertools import islice
from typing import Any, Literal, TypeAlias, get_args

from simulacra.errors import ConfigurationError
from simulacra_anthropic.repairs import Turn, blocks_of

Ttl = Literal["5m", "1h"]
_MARKABLE = frozenset({"text", "image", "document", "tool_use", "tool_result"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptCaching:
    """What of a request is cached.

    Args:
        system_prompt: The system prompt.
        toolkit: The tools.
        history: The messages.
        ttl: How long it is kept; the API's default of five minutes when not given.
    """

    system_prompt: bool = True
    toolkit: bool = True
    history: bool = True
    ttl: Ttl | None = None

    @property
    def mark(self) -> dict[str, str]:
        """The breakpoint itself."""
        return {"type": "ephemeral", **({"ttl": self.ttl} if self.ttl else {})}


CachingOption: TypeAlias = "PromptCaching | Mapping[str, Any] | bool | None"


def caching_of(given: CachingOption) -> PromptCaching:
    """The option as a value: all of it when not given or true, nothing when false.

    Raises:
        ConfigurationError: An unknown field, or a wrong value.
    """
    if isinstance(given, PromptCaching):
        chosen = given
    elif given is None or isinstance(given, bool):
        on = given is not False
        chosen = PromptCaching(system_prompt=on, toolkit=on, history=on)
    elif isinstance(given, Mapping):
        known = [field.name for field in fields(PromptCaching)]
        unknown = sorted(given.keys() - set(known))

        if unknown:
            raise ConfigurationError(f"prompt_caching knows no {unknown[0]!r}; it knows {', '.join(known)}")

        chosen = PromptCaching(**given)
    else:
        raise ConfigurationError(f"prompt_caching must be a mapping or true or false, not {given!r}")

    for name in ("system_prompt", "toolkit", "history"):
        if not isinstance(getattr(chosen, name), bool):
            raise ConfigurationError(f"prompt_caching's {name} must be true or false, not {getattr(chosen, name)!r}")

    if chosen.ttl not in (None, *get_args(Ttl)):
        raise ConfigurationError(f"prompt_caching's ttl must be one of {', '.join(get_args(Ttl))}, not {chosen.ttl!r}")

    return chosen


def with_breakpoints(params: dict[str, Any], caching: PromptCaching) -> dict[str, Any]:
    """The parameters with breakpoints; what the user marked is left as it is, and takes one of the places.

    Args:
        params: Parameters whose `system` is a text.
        caching: What is cached.
    """
    marked = dict(params)
    mark = caching.mark

    if caching.system_prompt and params.get("system"):
        marked["system"] = [{"type": "text", "text": params["system"], "cache_control": mark}]

    if caching.toolkit and params.get("tools"):
        *before, last = params["tools"]
        marked["tools"] = [*before, last if "cache_control" in last else {**last, "cache_control": mark}]

    if caching.history:
        marks_itself = bool(params.get("cache_control"))
        marked["messages"] = _marked_turns(params["messages"], mark, last_too=not marks_itself)

    return marked


def _marked_turns(turns: list[Turn], mark: dict[str, str], *, last_too: bool) -> list[Turn]:
    """Turns with a breakpoint behind the user's last one, and behind the one before."""
    places = (index for index in range(len(turns) - 1, -1, -1) if turns[index]["role"] == "user")
    asked = sorted(islice(places, 2))
    marked = list(turns)

    for index in asked if last_too else asked[:-1]:
        marked[index] = _marked_turn(turns[index], mark)

    return marked


def _marked_turn(turn: Turn, mark: dict[str, str]) -> Turn:
    blocks = list(blocks_of(turn))
    places = [
        place for place, block in enumerate(blocks) if block["type"] in _MARKABLE and "cache_control" not in block
    ]

    if not places:
        return turn

    blocks[places[-1]] = {**blocks[places[-1]], "cache_control": mark}

    return {**turn, "content": blocks}
