"""Events as JSON lines, for programs."""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import Any

from pydantic_core import to_jsonable_python

from simulacra.cli.printer import Printer
from simulacra.conversation import Conversation
from simulacra.emitter import Event
from simulacra.messages import AssistantMessage, UserMessage
from simulacra.serialization import dump_message
from simulacra.streaming import LiveContent


class JsonPrinter(Printer):
    """One JSON object per event and line: `event` is its name, the other keys are its fields."""

    def show(self, event: Event) -> None:
        sys.stdout.write(json.dumps(describe(event), ensure_ascii=False, separators=(",", ":")) + "\n")
        sys.stdout.flush()


def describe(event: Event) -> dict[str, Any]:
    """An event as JSON values; objects of the engine become their ids, errors their type and message."""
    fields = {
        field.name: _value(getattr(event, field.name))
        for field in dataclasses.fields(event)  # type: ignore[arg-type]  # every event is a dataclass
    }

    return {"event": event.name, **fields}


def _value(value: Any) -> Any:
    match value:
        case UserMessage() | AssistantMessage():
            return dump_message(value)
        case Event():
            return describe(value)
        case LiveContent():
            return {"type": value.type, "tool": value.tool} if value.tool else {"type": value.type}
        case Conversation():
            return value.id
        case BaseException():
            return {"type": type(value).__name__, "message": str(value)}
        case _:
            return to_jsonable_python(
                value, exclude_none=True, bytes_mode="base64", inf_nan_mode="null", fallback=_foreign
            )


def _foreign(value: Any) -> Any:
    """What JSON has no word for, inside another value."""
    known = isinstance(value, (LiveContent, Conversation, BaseException))

    return _value(value) if known else repr(value)
