"""Calls and their answers brought together: each call answered once, directly behind it, under an id that fits."""

from __future__ import annotations

from typing import Any

from simulacra.rules.reading import JsonMap, map_of, text_of
from simulacra_openai.message_drafts import json_text, wire_id
from simulacra_openai.wire_reading import calls_of

NO_RESULT = json_text({"result": False, "message": "No result of this call is known.", "error": None})
"""What answers a call that nothing else answers."""


def paired(messages: list[Any]) -> list[Any]:
    """Messages with every answer behind its call, in the order of the calls.

    An answer belongs to the nearest call before it that has its id and no answer yet; one without a call is left out,
    and a call without one is told so.
    """
    answers: dict[tuple[int, int], JsonMap] = {}
    unanswered: dict[str, list[tuple[int, int]]] = {}

    for at, message in enumerate(messages):
        match map_of(message).get("role"):
            case "assistant":
                for place, call in reversed(list(calls_of(message))):
                    unanswered.setdefault(text_of(call.get("id")), []).append((at, place))
            case "tool":
                open_calls = unanswered.get(text_of(message.get("tool_call_id")))

                if open_calls:
                    answers[open_calls.pop()] = message

    sent: list[Any] = []

    for at, message in enumerate(messages):
        role = map_of(message).get("role")

        if role == "assistant" and message.get("tool_calls"):
            sent += _exchange(message, [answers.get((at, place)) for place, _ in calls_of(message)])
        elif role != "tool":
            sent.append(message)

    return sent


def tools_without_media(messages: list[Any]) -> list[Any]:
    """Messages whose tool messages are text; their media follow the last answer as a user message (MU-03, MU-R2)."""
    sent: list[Any] = []
    moved: list[Any] = []

    for message in messages:
        role = map_of(message).get("role")

        if role != "tool" and moved:
            sent.append({"role": "user", "content": moved})
            moved = []

        content = map_of(message).get("content")

        if role == "tool" and isinstance(content, list):
            texts = [part["text"] for part in content if part.get("type") == "text"]
            moved += [part for part in content if part.get("type") != "text"]
            message = {**message, "content": "\n".join(texts)}  # noqa: PLW2901 -- the same message without its media

        sent.append(message)

    return [*sent, {"role": "user", "content": moved}] if moved else sent


def _exchange(message: JsonMap, answers: list[JsonMap | None]) -> list[JsonMap]:
    """A message with calls and what answers each of them, under ids that fit and differ (OA-R5, TL-R4)."""
    seen: dict[str, int] = {}
    calls: list[JsonMap] = []
    told: list[JsonMap] = []

    for call, answer in zip(message["tool_calls"], answers, strict=True):
        call_id = text_of(call.get("id"))
        occurrence = seen.get(call_id, 0)
        seen[call_id] = occurrence + 1
        sent = wire_id(call_id, occurrence)
        calls.append(call if call.get("id") == sent else {**call, "id": sent})

        if answer is None:
            told.append({"role": "tool", "tool_call_id": sent, "content": NO_RESULT})
        else:
            told.append(answer if answer.get("tool_call_id") == sent else {**answer, "tool_call_id": sent})

    return [message if calls == message["tool_calls"] else {**message, "tool_calls": calls}, *told]
