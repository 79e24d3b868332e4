"""What the Messages API refuses, put right on the way out: one small function a rule, none changes what it is given.

A turn is a message as the API takes it; its content is one text or a list of blocks.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from simulacra.rules.reading import map_of, objects_in, text_of

Turn: TypeAlias = dict[str, Any]
Block: TypeAlias = Mapping[str, Any]

OPENING = "(The conversation goes on from here.)"
"""Said by the user where history begins with the model."""
FOREIGN = "foreign"
"""Type of a block that this API does not know: what it is stands in `block`, what stands for it in `text`."""
THINKING = ("thinking", "redacted_thinking")
VALID_ID = re.compile(r"[a-zA-Z0-9_-]+")
CALL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")


def repaired(turns: Iterable[Turn]) -> list[Turn]:
    """Turns that the API accepts, in the order of the rules below."""
    kept = merged(filled(turns))

    if any(type(turn["content"]) is list for turn in kept):
        kept = merged(filled(paired(kept)))
        kept = kept if (served := with_server_pairs(kept)) is kept else merged(filled(served))
        kept = [compact(turn) for turn in merged(results_behind_calls(kept))]

    return prefill_without_trailing_space(led_by_user(kept))


def filled(turns: Iterable[Turn]) -> Iterator[Turn]:
    """Turns without blank texts, and none that is left with nothing, or with thoughts alone (AN-R1)."""
    for turn in turns:
        content = turn["content"]

        if type(content) is str:
            if content and not content.isspace():
                yield turn

            continue

        if any(is_blank(block) for block in content):
            turn = {**turn, "content": [block for block in content if not is_blank(block)]}  # noqa: PLW2901 -- the same turn, put right

        if any(block["type"] not in THINKING for block in turn["content"]):
            yield turn


def merged(turns: Iterable[Turn]) -> list[Turn]:
    """Neighbours of one role as one turn, in order (AN-R1)."""
    joined: list[Turn] = []
    role = ""

    for turn in turns:
        if turn["role"] == role:
            joined[-1] = {"role": role, "content": [*blocks_of(joined[-1]), *blocks_of(turn)]}
        else:
            joined.append(turn)
            role = turn["role"]

    return joined


def paired(turns: Sequence[Turn]) -> list[Turn]:
    """Calls with their result in the next turn, results with their call in the one before, under ids that fit.

    A call or a result that stands alone is left out. Calls of one id are answered in their order; from the second
    on they get ids of their own, since the API takes each id once.
    """
    seen: dict[str, int] = {}
    output = [turn if type(turn["content"]) is str else {**turn, "content": list(turn["content"])} for turn in turns]

    for turn, following in zip(output, [*output[1:], None], strict=True):
        if turn["role"] != "assistant" or type(turn["content"]) is str:
            continue

        answers = {} if following is None else _results_of(following)
        kept: list[Any] = []

        for block in turn["content"]:
            if block["type"] != "tool_use":
                kept.append(block)
            elif waiting := answers.get(block["id"]):
                occurrence = seen[block["id"]] = seen.get(block["id"], -1) + 1
                sent = wire_id(block["id"], occurrence)
                kept.append({**block, "id": sent})
                waiting.pop(0)["paired"] = sent

        turn["content"] = kept

    return [_without_lone_results(turn) for turn in output]


def wire_id(call_id: str, occurrence: int = 0) -> str:
    """The id to send: the same one where the API takes it, else one made of it, always the same (AN-12).

    Args:
        call_id: The id of the call.
        occurrence: How many earlier calls of the history have this id.
    """
    if occurrence == 0 and VALID_ID.fullmatch(call_id):
        return call_id

    digest = hashlib.sha256(f"{occurrence}:{call_id}".encode("utf-8", "surrogatepass")).hexdigest()

    return f"toolu_{digest[:32]}"


def with_server_pairs(turns: list[Turn]) -> list[Turn]:
    """Server-tool calls with a result further on, and results with a call before them; the rest is left out."""
    leaving = lone_server_blocks(turns)

    if not leaving:
        return turns

    return [_without(turn, {at for place, at in leaving if place == index}) for index, turn in enumerate(turns)]


def lone_server_blocks(turns: Sequence[Turn]) -> set[tuple[int, int]]:
    """Where calls and results of server tools stand alone: index of the turn, index of the block.

    A call of the last reply may still wait for its result: the service goes on with it (`pause_turn`, results that
    its code asked for).
    """
    places = [
        (index, at, block)
        for index, turn in enumerate(turns)
        for at, block in objects_in(turn.get("content"))
        if _is_server(block)
    ]

    if not places:
        return set()

    waiting: dict[str, tuple[int, int]] = {}
    called: set[str] = set()
    standing: set[tuple[int, int]] = set()

    for index, at, block in places:
        if "tool_use_id" in block:
            call = waiting.pop(str(block["tool_use_id"]), None)
            standing |= set() if call is None else {call, (index, at)}
        elif isinstance(block.get("input"), dict) and str(block.get("id")) not in called:
            waiting[str(block.get("id"))] = (index, at)
            called.add(str(block.get("id")))

    if _may_go_on(turns):
        last = max((index for index, turn in enumerate(turns) if turn.get("role") == "assistant"), default=-1)
        standing |= {place for place in waiting.values() if place[0] == last}

    return {(index, at) for index, at, _ in places} - standing


def results_behind_calls(turns: Sequence[Turn]) -> Iterator[Turn]:
    """Results directly behind their calls, in the order of the calls and before anything else (AN-R6).

    What a reply says behind a call is a reply of its own, after the results (AN-05).
    """
    waiting: dict[str, Block] = {}

    for index, turn in enumerate(turns):
        if turn["role"] == "user":
            rest = [block for block in blocks_of(turn) if block["type"] != "tool_result"]

            if waiting or rest:
                yield {"role": "user", "content": [*waiting.values(), *rest]}

            waiting = {}
            continue

        answers = {block["tool_use_id"]: block for block in _results_in(turns[index + 1 : index + 2])}

        for part in split_behind_calls(blocks_of(turn)):
            if waiting:
                yield {"role": "user", "content": list(waiting.values())}

            waiting = {block["id"]: answers[block["id"]] for block in part if block["type"] == "tool_use"}
            yield {"role": "assistant", "content": part}


def split_behind_calls(blocks: Sequence[Block]) -> list[list[Block]]:
    """The blocks of a reply in parts, of which each ends with its calls: only calls may follow a call (AN-05)."""
    parts: list[list[Block]] = [[]]

    for block in blocks:
        if block["type"] != "tool_use" and parts[-1] and parts[-1][-1]["type"] == "tool_use":
            parts.append([])

        parts[-1].append(block)

    if len(parts) > 1 and all(block["type"] in THINKING for block in parts[-1]):
        parts.pop()  # thoughts alone are no reply

    return parts


def compact(turn: Turn) -> Turn:
    """A turn of one plain text as that text."""
    content = turn["content"]

    if type(content) is list and len(content) == 1 and content[0].keys() == {"type", "text"}:
        return {**turn, "content": content[0]["text"]}

    return turn


def led_by_user(turns: list[Turn]) -> list[Turn]:
    """Turns of which the user has the first."""
    if turns and turns[0]["role"] == "assistant":
        return [{"role": "user", "content": OPENING}, *turns]

    return turns


def prefill_without_trailing_space(turns: list[Turn]) -> list[Turn]:
    """Turns of which the last, when it is the model's, ends in no white space (AN-03)."""
    if not turns or turns[-1]["role"] != "assistant":
        return turns

    *before, last = blocks_of(turns[-1])

    if last["type"] != "text":
        return turns

    return [*turns[:-1], compact({**turns[-1], "content": [*before, {**last, "text": last["text"].rstrip()}]})]


def blocks_of(turn: Turn) -> list[Any]:
    """The content of a turn as blocks."""
    content = turn["content"]

    return [{"type": "text", "text": content}] if type(content) is str else content


def is_blank(block: Block) -> bool:
    """Whether a block is a text of white space only."""
    return block["type"] == "text" and not block["text"].strip()


def _results_of(turn: Turn) -> dict[str, list[dict[str, Any]]]:
    """The results of a turn by id; each is made anew in the turn, so that it can be told its call."""
    found: dict[str, list[dict[str, Any]]] = {}
    content = turn["content"]

    for index, block in enumerate(content if type(content) is list else ()):
        if block["type"] == "tool_result":
            content[index] = dict(block)
            found.setdefault(block["tool_use_id"], []).append(content[index])

    return found


def _without_lone_results(turn: Turn) -> Turn:
    if turn["role"] != "user" or type(turn["content"]) is str:
        return turn

    kept: list[Any] = []

    for block in turn["content"]:
        if block["type"] != "tool_result":
            kept.append(block)
        elif "paired" in block:
            told = {key: value for key, value in block.items() if key != "paired"}
            kept.append({**told, "tool_use_id": block["paired"]})

    return {**turn, "content": kept}


def _results_in(turns: Sequence[Turn]) -> Iterator[Block]:
    return (block for turn in turns for block in blocks_of(turn) if block["type"] == "tool_result")


def _may_go_on(turns: Sequence[Turn]) -> bool:
    """Whether the last reply can still be continued: nothing but results of its calls follows it."""
    last = turns[-1]
    blocks = last.get("content")

    if last.get("role") == "assistant":
        return True

    return isinstance(blocks, list) and all(map_of(block).get("type") == "tool_result" for block in blocks)


def _without(turn: Turn, leaving: set[int]) -> Turn:
    if not leaving:
        return turn

    return {**turn, "content": [block for at, block in enumerate(turn["content"]) if at not in leaving]}


def _is_server(block: Block) -> bool:
    """Whether a block is the call, or the result, of a tool that the service runs."""
    kind = text_of(block.get("type"))

    return kind in ("server_tool_use", "mcp_tool_use") or (kind.endswith("_tool_result") and kind != "tool_result")
