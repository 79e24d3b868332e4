"""From what a tool returned or raised to the result its call gets: always one, always JSON, never too large."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from pydantic_core import to_json

from simulacra.cleaning import clean_text
from simulacra.clock import clock
from simulacra.messages import (
    MediaContent,
    TextContent,
    ToolContent,
    ToolErrorResult,
    ToolResultContent,
    ToolSuccessResult,
)
from simulacra.tools.encoding import EncodingError, encode_value
from simulacra.tools.shortening import json_size, shares, shorten_result, shorten_text

Block: TypeAlias = TextContent | MediaContent
MAX_ERROR_BYTES = 4096


def encode_result(value: Any) -> dict[str, Any]:
    """What a tool returned, as the JSON object of its result (TOOL-5); never raises.

    A mapping gives its items. One that says `result` or `success` keeps what it says, and a failure among them gets a
    `message`. Everything else stands under `output`. How single values become JSON is told in
    `simulacra.tools.encoding`; what cannot become JSON gives a failure that names the place.

    Args:
        value: Anything a tool returned. An exception counts as raised.
    """
    try:
        if isinstance(value, BaseException):
            return encode_failure(value)

        if value is None:
            return {"result": True}

        encoded = encode_value(value)

        if isinstance(value, Mapping | ToolSuccessResult | ToolErrorResult):
            return _verdict(encoded)
    except EncodingError as error:
        return error_result(f"the tool returned what JSON cannot hold: {error}", "EncodingError")
    except Exception as error:  # noqa: BLE001 -- properties and iterators of foreign objects raise what they like
        return error_result(f"what the tool returned could not be read: {error}", type(error).__name__)

    return {"result": True, "output": encoded}


def encode_failure(error: BaseException) -> dict[str, Any]:
    """What a tool raised, as the JSON object of its result (TOOL-6); a group of one counts as that one."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]

    name = type(error).__name__

    try:
        message = str(error)
    except Exception:  # noqa: BLE001 -- an error that cannot even tell itself still has its class
        message = ""

    return error_result(message or name, name)


def error_result(message: str, error: str, **details: Any) -> dict[str, Any]:
    """A failure.

    Args:
        message: What the model reads; shortened to 4 KiB.
        error: A word for programs, such as the class of an exception.
        details: Further JSON values.
    """
    return {"result": False, "message": shorten_text(clean_text(message), MAX_ERROR_BYTES), "error": error, **details}


def split_content(value: Any) -> tuple[Any, tuple[Block, ...]]:
    """Part what goes beside the result (texts and media) from what a tool returned.

    Args:
        value: A block, a list of blocks (plain texts among media count as blocks), or a pair of a value and blocks.
            Anything else has no blocks.

    Returns:
        What remains to be encoded, and the blocks.
    """
    if isinstance(value, tuple) and len(value) == 2 and not _is_block(value[0]):
        blocks = _blocks(value[1])

        return (value[0], blocks) if blocks else (value, ())

    blocks = _blocks(value)

    return (None, blocks) if blocks else (value, ())


def answer(call: ToolContent, returned: Any, *, max_bytes: int) -> ToolResultContent:
    """The result of a call whose tool returned.

    Args:
        call: The call.
        returned: What its tool returned.
        max_bytes: Bytes of JSON that result and texts may have together.
    """
    if isinstance(returned, ToolResultContent):
        value, blocks = returned.result, returned.content
    else:
        value, blocks = split_content(returned)

    return result_content(call, encode_result(value), blocks, max_bytes=max_bytes)


def result_content(
    call: ToolContent, result: Mapping[str, Any], blocks: Sequence[Block] = (), *, max_bytes: int
) -> ToolResultContent:
    """The block that answers a call; what is too large is shortened, media is left alone.

    Args:
        call: The call.
        result: The JSON object of the result.
        blocks: What stands beside it.
        max_bytes: Bytes of JSON that result and texts may have together.
    """
    texts = [block for block in blocks if isinstance(block, TextContent)]
    first, *rest = (
        shares([json_size(result), *(json_size(block.text) for block in texts)], max_bytes) if texts else [max_bytes]
    )
    short = shorten_result(result, first)
    rooms = iter(rest)

    return ToolResultContent(
        tool_request_id=call.tool_request_id,
        tool=call.tool,
        result=ToolSuccessResult(**short) if short["result"] else ToolErrorResult(**short),
        content=tuple(
            _shorten_block(block, next(rooms)) if isinstance(block, TextContent) else block for block in blocks
        ),
        timestamp=clock().now_ms(),
    )


def _shorten_block(block: TextContent, room: int) -> TextContent:
    text = shorten_text(block.text, room)

    return block if text == block.text else TextContent(text, id=block.id, extended=block.extended)


def _blocks(value: Any) -> tuple[Block, ...]:
    """A block, or a list of blocks and plain texts with at least one block in it; otherwise nothing."""
    if not isinstance(value, list | tuple | TextContent | MediaContent):
        return ()

    items = value if isinstance(value, list | tuple) else [value]
    found = tuple(TextContent(item) if isinstance(item, str) else item for item in items)

    return found if any(map(_is_block, items)) and all(map(_is_block, found)) else ()


def _is_block(value: Any) -> bool:
    return isinstance(value, TextContent | MediaContent)


def _verdict(items: dict[str, Any]) -> dict[str, Any]:
    """A mapping that may say itself how it went; `success` is the original's word for `result`."""
    said = items.get("result", items.get("success", True))

    if "result" in items and not isinstance(said, bool):
        return {"result": True, "output": items}

    if said is not False:
        return {"result": True, **items}

    told = items.get("message", items.get("error"))
    message = told if isinstance(told, str) else to_json(told).decode() if told else ""

    return {"result": False, "message": "", **items} | {"message": message or "the tool reported a failure"}
