"""Content blocks as the Messages API streams them: how each opens, and the deltas in which the rest of it comes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from simulacra.testing.emulators.replies import EmulatedCall, Pieces, pieces_of

JsonMap = dict[str, Any]


@dataclass(frozen=True, slots=True)
class StreamedBlock:
    """A block of a reply.

    Args:
        whole: The block as a message that is not streamed shows it.
        deltas: What makes the whole of the block that was opened.
    """

    whole: JsonMap
    deltas: tuple[JsonMap, ...]

    @property
    def opened(self) -> JsonMap:
        """The block as it opens: what streams is still empty."""
        match self.whole["type"]:
            case "text":
                cited: JsonMap = {"citations": []} if "citations" in self.whole else {}
                return {**self.whole, "text": "", **cited}
            case "thinking":
                return {**self.whole, "thinking": "", "signature": ""}
            case "compaction":
                return {"type": "compaction", "content": None}
            case _:
                return {**self.whole, "input": {}} if "input" in self.whole else self.whole


def text_block(pieces: Pieces) -> StreamedBlock:
    """A text, piece by piece."""
    said = pieces_of(pieces)

    return StreamedBlock(
        {"type": "text", "text": "".join(said)}, tuple({"type": "text_delta", "text": piece} for piece in said)
    )


def thinking_block(pieces: Pieces, signature: str) -> StreamedBlock:
    """A thought, piece by piece, and its signature."""
    thought = pieces_of(pieces)
    deltas: list[JsonMap] = [{"type": "thinking_delta", "thinking": piece} for piece in thought]

    return StreamedBlock(
        {"type": "thinking", "thinking": "".join(thought), "signature": signature},
        (*deltas, {"type": "signature_delta", "signature": signature}),
    )


def call_block(call: EmulatedCall, call_id: str) -> StreamedBlock:
    """A call; arguments that are no JSON can be streamed, but not shown whole."""
    arguments = call.arguments if isinstance(call.arguments, Mapping) else _read("".join(call.fragments))

    return StreamedBlock(
        {"type": "tool_use", "id": call_id, "name": call.tool, "input": arguments},
        tuple({"type": "input_json_delta", "partial_json": fragment} for fragment in ("", *call.fragments)),
    )


def given_block(block: Mapping[str, Any]) -> StreamedBlock:
    """A block that a script holds in the API's own form: a server tool's call or result, a cited text, ...

    Args:
        block: The block, with its `type`.
    """
    whole = dict(block)

    return StreamedBlock(whole, tuple(_deltas(whole)))


def _deltas(block: JsonMap) -> Iterator[JsonMap]:
    match block["type"]:
        case "text":
            yield {"type": "text_delta", "text": block["text"]}

            for citation in block.get("citations") or ():
                yield {"type": "citations_delta", "citation": citation}
        case "thinking":
            yield {"type": "thinking_delta", "thinking": block["thinking"]}
            yield {"type": "signature_delta", "signature": block.get("signature", "")}
        case "compaction":
            yield {**block, "type": "compaction_delta"}
        case _ if "input" in block:
            text = json.dumps(block["input"])
            middle = len(text) // 2

            for fragment in ("", text[:middle], text[middle:]):
                yield {"type": "input_json_delta", "partial_json": fragment}


def _read(text: str) -> Any:
    try:
        return json.loads(text or "{}")
    except ValueError:
        return {}
