"""Tool calls and their results, made to stand together.

Vendors refuse a call without a result, a result without a call, and a result that does not directly follow its call.
The rule here: pairs stay, a result that stands too late moves up to its call, the rest is left out of the request.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from simulacra.messages import (
    AssistantMessage,
    Content,
    Message,
    TextContent,
    ThinkingContent,
    ToolContent,
    ToolResultContent,
    UnknownContent,
    UserMessage,
)
from simulacra.transformers.base import ContextTransformer, TransformContext

_SILENT = (ThinkingContent, UnknownContent)

Place = tuple[int, int]
"""Where a block stands: index of its message, index in that message."""


ORPHAN_CALL = "a call without its result"
ORPHAN_RESULT = "a result without its call"


class ToolContextTransformer(ContextTransformer):
    """Keeps a call only with its result, and a result only with its call, in the message after the call's.

    Calls and results are paired by place: a result belongs to the nearest call before it that has its id and no
    result yet, calls of one reply in their order. So ids may be empty, doubled, or used again in later turns.
    Messages that need no change are passed on as the objects they are.
    """

    async def transform_prompt(self, messages: Sequence[Message], context: TransformContext) -> Sequence[Message]:
        repairs = _find_repairs(messages)

        return _apply(repairs, messages, context) if repairs.leaving else messages


@dataclass(slots=True)
class _Repairs:
    """What has to change.

    Args:
        leaving: Per message, the blocks that leave it: index in the message, and why; no reason when it only moves.
        arriving: Per assistant message, the results that move up to directly behind it, in their order.
    """

    leaving: dict[int, dict[int, str | None]] = field(default_factory=dict)
    arriving: dict[int, list[Place]] = field(default_factory=dict)

    def leave(self, place: Place, reason: str | None) -> None:
        self.leaving.setdefault(place[0], {})[place[1]] = reason

    def move(self, place: Place, *, behind: int) -> None:
        self.leave(place, None)
        self.arriving.setdefault(behind, []).append(place)


def _find_repairs(messages: Sequence[Message]) -> _Repairs:
    repairs = _Repairs()
    waiting: dict[str, list[Place]] = {}  # per id a stack of calls, the nearest on top

    for index, message in enumerate(messages):
        if len(message.content) == 1 and type(message.content[0]) is TextContent:
            continue  # as most of a long history

        if isinstance(message, UserMessage):
            _pair_results(index, message, waiting, repairs)
            continue

        calls = [(at, block) for at, block in enumerate(message.content) if isinstance(block, ToolContent)]

        for at, call in reversed(calls):
            waiting.setdefault(call.tool_request_id, []).append((index, at))

    for unanswered in waiting.values():
        for place in unanswered:
            repairs.leave(place, ORPHAN_CALL)

    return repairs


def _pair_results(index: int, message: UserMessage, waiting: dict[str, list[Place]], repairs: _Repairs) -> None:
    for at, block in enumerate(message.content):
        if not isinstance(block, ToolResultContent):
            continue

        calls = waiting.get(block.tool_request_id)

        if not calls:
            repairs.leave((index, at), ORPHAN_RESULT)
            continue

        called, _ = calls.pop()

        if called != index - 1:
            repairs.move((index, at), behind=called)


def _apply(repairs: _Repairs, messages: Sequence[Message], context: TransformContext) -> list[Message]:
    output: list[Message] = []

    for index, message in enumerate(messages):
        arriving = _arriving_behind(index - 1, repairs, messages, context)

        if arriving and isinstance(message, AssistantMessage):
            output.append(_results_message(messages[index - 1], arriving))
            arriving = ()

        leaving = repairs.leaving.get(index, {})

        if not arriving and not leaving:
            output.append(message)
            continue

        kept = [block for at, block in enumerate(message.content) if at not in leaving]
        _explain_removals(message, leaving, context)

        if arriving:
            behind = max((at for at, block in enumerate(kept, 1) if isinstance(block, ToolResultContent)), default=0)
            kept[behind:behind] = arriving

        if _says_something(kept):
            output.append(dataclasses.replace(message, content=tuple(kept)))  # type: ignore[arg-type] # its own blocks
        else:
            context.explain("dropped", "nothing that can be sent is left of the message", [message.id])

    return output


def _arriving_behind(
    index: int, repairs: _Repairs, messages: Sequence[Message], context: TransformContext
) -> Sequence[Content]:
    """The results that move up behind the assistant message at `index`."""
    places = repairs.arriving.get(index, ())

    if places:
        sources = dict.fromkeys(messages[source].id for source, _ in places)
        context.explain("moved", "results moved to directly behind their calls", [messages[index].id, *sources])

    return [messages[source].content[at] for source, at in places]


def _results_message(caller: Message, results: Sequence[Content]) -> UserMessage:
    """A message for results whose call is followed by another reply."""
    named = None if caller.id is None else f"results:{caller.id}"

    return UserMessage(content=tuple(results), id=named, timestamp=caller.timestamp)  # type: ignore[arg-type] # results


def _explain_removals(message: Message, leaving: Mapping[int, str | None], context: TransformContext) -> None:
    for reason in (ORPHAN_CALL, ORPHAN_RESULT):
        tools = [getattr(message.content[at], "tool", "") for at, why in leaving.items() if why == reason]

        if tools:
            context.explain("dropped", f"{reason}: {', '.join(sorted(tools))}", [message.id])


def _says_something(content: Sequence[Content]) -> bool:
    """Whether a message of these blocks has anything that a vendor takes by itself."""
    return any(
        bool(block.text.strip()) if isinstance(block, TextContent) else not isinstance(block, _SILENT)
        for block in content
    )
