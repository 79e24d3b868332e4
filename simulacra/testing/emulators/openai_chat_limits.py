"""What OpenAI tells about limits and cached prompts, simulated: enough for a test to see whether a prefix was kept."""

from __future__ import annotations

import json
import os.path
from typing import Any

CACHE_START = 1024
CACHE_STEP = 128
"""Tokens from which on a prompt is cached, and the steps in which more of it is.

Source: https://platform.openai.com/docs/guides/prompt-caching.
"""
REQUESTS_PER_MINUTE = 10_000
TOKENS_PER_MINUTE = 2_000_000
_CHARACTERS_PER_TOKEN = 4


class PromptCache:
    """Prompts that were seen, and how much of a new one an earlier one began with."""

    def __init__(self) -> None:
        self._seen: dict[str, list[str]] = {}

    def read(self, body: dict[str, Any]) -> tuple[int, int]:
        """Tokens of a prompt, and how many of them are read from the cache; from then on it is cached itself.

        Args:
            body: The request.
        """
        prompt = json.dumps([body.get("tools"), body.get("response_format"), body.get("messages")])
        seen = self._seen.setdefault(f"{body.get('model')} {body.get('prompt_cache_key')}", [])
        common = max((_common(prompt, other) for other in seen), default=0)
        seen.append(prompt)
        tokens = common // _CHARACTERS_PER_TOKEN
        cached = 0 if tokens < CACHE_START else tokens - (tokens - CACHE_START) % CACHE_STEP

        return max(1, len(prompt) // _CHARACTERS_PER_TOKEN), cached


def limit_headers(requests: int, characters: int) -> dict[str, str]:
    """The headers that tell what is left of a minute's limits.

    Args:
        requests: How many requests came so far.
        characters: How long they were together.
    """
    tokens = characters // _CHARACTERS_PER_TOKEN

    return {
        "openai-version": "2020-10-01",
        "openai-processing-ms": "1",
        "x-ratelimit-limit-requests": str(REQUESTS_PER_MINUTE),
        "x-ratelimit-limit-tokens": str(TOKENS_PER_MINUTE),
        "x-ratelimit-remaining-requests": str(max(0, REQUESTS_PER_MINUTE - requests)),
        "x-ratelimit-remaining-tokens": str(max(0, TOKENS_PER_MINUTE - tokens)),
        "x-ratelimit-reset-requests": _shown(requests * 60_000 // REQUESTS_PER_MINUTE),
        "x-ratelimit-reset-tokens": _shown(tokens * 60_000 // TOKENS_PER_MINUTE),
    }


def _common(text: str, other: str) -> int:
    """How many characters two texts begin with in common."""
    return len(os.path.commonprefix((text, other)))  # noqa: RUF071 -- characters are what is to be compared


def _shown(milliseconds: int) -> str:
    return f"{milliseconds}ms" if milliseconds < 1000 else f"{milliseconds / 1000:g}s"
