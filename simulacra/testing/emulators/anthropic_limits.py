"""What Anthropic tells about limits and cached prompts, simulated: enough for a test to see whether a prefix was kept."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from simulacra.clock import clock
from simulacra.rules.reading import map_of, objects_in

CACHE_START = 1024
"""Tokens that a prefix must have to be cached.

Source: https://platform.claude.com/docs/en/build-with-claude/prompt-caching.
"""
LOOKBACK = 20
"""How many blocks before a mark an earlier entry is looked for (the same page)."""
REQUESTS_PER_MINUTE = 4_000
TOKENS_PER_MINUTE = 2_000_000
_CHARACTERS_PER_TOKEN = 4


class MarkedCache:
    """The prefixes that ended at a mark of an earlier request."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def read(self, body: dict[str, Any]) -> tuple[int, int, int]:
        """Tokens of a prompt, how many are read from the cache, and how many are written to it.

        Args:
            body: The request.
        """
        digest = hashlib.sha256(str(body.get("model")).encode())
        prefixes: list[tuple[str, int]] = []
        marked: list[int] = []
        length = 0

        for block, is_marked in _blocks(body):
            digest.update(block.encode())
            length += len(block)
            prefixes.append((digest.hexdigest(), length // _CHARACTERS_PER_TOKEN))

            if is_marked and prefixes[-1][1] >= CACHE_START:
                marked.append(len(prefixes) - 1)

        near = [place for mark in marked for place in range(max(0, mark - LOOKBACK), mark + 1)]
        read = max((prefixes[place][1] for place in near if prefixes[place][0] in self._seen), default=0)
        written = max((prefixes[mark][1] for mark in marked), default=read)
        self._seen |= {prefixes[mark][0] for mark in marked}

        return max(1, length // _CHARACTERS_PER_TOKEN), read, max(0, written - read)


def limit_headers(requests: int, characters: int) -> dict[str, str]:
    """The headers that tell what is left of a minute's limits.

    Args:
        requests: How many requests came so far.
        characters: How long they were together.
    """
    reset = datetime.fromtimestamp(clock().now_ms() // 1000 + 60, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    headers = {"anthropic-organization-id": "org_emulated"}
    limits = {
        "requests": (REQUESTS_PER_MINUTE, requests),
        "tokens": (TOKENS_PER_MINUTE, characters // _CHARACTERS_PER_TOKEN),
        "input-tokens": (TOKENS_PER_MINUTE, characters // _CHARACTERS_PER_TOKEN),
    }

    for name, (limit, used) in limits.items():
        headers[f"anthropic-ratelimit-{name}-limit"] = str(limit)
        headers[f"anthropic-ratelimit-{name}-remaining"] = str(max(0, limit - used))
        headers[f"anthropic-ratelimit-{name}-reset"] = reset

    return headers


def _blocks(body: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    """The prompt block by block in the order in which it is cached, and whether a mark stands behind each."""
    for _, tool in objects_in(body.get("tools")):
        yield _block(tool)

    for block in _as_blocks(body.get("system")):
        yield _block(block)

    for _, message in objects_in(body.get("messages")):
        for block in _as_blocks(message.get("content")):
            text, is_marked = _block(block)
            yield f"{message.get('role')}:{text}", is_marked


def _block(block: Any) -> tuple[str, bool]:
    fields = map_of(block)

    return json.dumps(
        {key: value for key, value in fields.items() if key != "cache_control"}
    ), "cache_control" in fields


def _as_blocks(content: Any) -> list[Any]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]

    return content if isinstance(content, list) else []
