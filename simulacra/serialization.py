"""Messages as JSON values and back: exact, bytes included, and forward compatible.

Fields and block types of a newer version are carried in `unknown` and `UnknownContent`, so a file that was read and
written again has lost nothing. Bytes travel as base64: plainly in `MediaContent.data`, tagged `{"$bytes": ...}`
inside `extended` and other free-form values; an object that happens to look like a tag travels inside
`{"$object": ...}`. Tool results hold no bytes and travel as they are.
"""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel, TypeAdapter

from simulacra.messages import BLOCK_TYPES, AssistantMessage, Message, UnknownContent, Usage, UserMessage

_BYTES = "$bytes"
_OBJECT = "$object"
_ROLES: dict[str, type[Any]] = {"user": UserMessage, "assistant": AssistantMessage}


def dump_message(message: Message) -> dict[str, Any]:
    """The message as JSON values; `load_message` gives an equal message back."""
    return _dump_fields(message)


def load_message(data: Any) -> Message:
    """A message from JSON values.

    Args:
        data: What `dump_message` gave, or the original engine's JSON.

    Raises:
        pydantic.ValidationError: Something is wrong; the error names the path.
    """
    owner = _ROLES.get(str(data.get("role"))) if isinstance(data, Mapping) else None
    fields = data if owner is None else _load_fields(owner, data)
    message: Message = _message_adapter().validate_python(fields)

    return message


def dump_message_json(message: Message) -> str:
    """The message as one line of JSON text."""
    return json.dumps(dump_message(message), ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def load_message_json(text: str | bytes) -> Message:
    """A message from JSON text; raises as `load_message` does, or `ValueError` for what is no JSON object."""
    data = json.loads(text)

    if not isinstance(data, dict):
        raise ValueError(f"a message is a JSON object, not {type(data).__name__}")  # noqa: TRY004 -- bad data, not a bad call

    return load_message(data)


@cache
def _message_adapter() -> TypeAdapter[Any]:
    return TypeAdapter(Message)


def _field_names(owner: type[Any]) -> frozenset[str]:
    return frozenset(owner.__dataclass_fields__)


def _dump_fields(value: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {}

    for field in dataclasses.fields(value):
        item = getattr(value, field.name)

        if item is not None and field.name != "unknown":
            fields[field.name] = _dump_value(item)

    return fields | {key: _dump_value(item) for key, item in (value.unknown or {}).items()}


def _dump_value(value: Any) -> Any:
    if isinstance(value, UnknownContent):
        return _dump_value(value.data)

    if isinstance(value, BaseModel):
        return value.model_dump()

    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = _dump_fields(value)

        if getattr(value, "type", None) == "media" and "data" in fields:
            fields["data"] = fields["data"][_BYTES]

        return fields

    if isinstance(value, bytes):
        return {_BYTES: base64.b64encode(value).decode("ascii")}

    if isinstance(value, Mapping):
        dumped = {key: _dump_value(item) for key, item in value.items()}

        return {_OBJECT: dumped} if _looks_tagged(value) else dumped

    if isinstance(value, list | tuple):
        return [_dump_value(item) for item in value]

    return value


def _load_fields(owner: type[Any], data: Mapping[str, Any]) -> dict[str, Any]:
    """Split `data` into the fields `owner` has and the ones it does not know yet."""
    known = _field_names(owner) - {"unknown"}
    fields = {key: _load_field(key, item) for key, item in data.items() if key in known}
    unknown = {key: _load_value(item) for key, item in data.items() if key not in known}

    if unknown:
        fields["unknown"] = unknown

    return fields


def _load_field(name: str, value: Any) -> Any:
    if name == "content" and isinstance(value, list | tuple):
        return tuple(_load_block(item) for item in value)

    if name == "usage" and isinstance(value, Mapping):
        return _load_fields(Usage, value)

    return value if name == "result" else _load_value(value)


def _load_block(data: Any) -> Any:
    if not isinstance(data, Mapping):
        return data

    owner = BLOCK_TYPES.get(str(data.get("type")))

    if owner is None:
        return UnknownContent(data=_load_value(dict(data)))

    fields = _load_fields(owner, data)

    if data.get("type") == "media" and isinstance(data.get("data"), str):
        fields["data"] = _decode(data["data"])

    return fields


def _load_value(value: Any) -> Any:
    if isinstance(value, Mapping):
        if _looks_tagged(value):
            tagged = value.get(_OBJECT)

            if isinstance(tagged, Mapping):
                return {key: _load_value(item) for key, item in tagged.items()}

            decoded = _decode(value.get(_BYTES))

            return decoded if isinstance(decoded, bytes) else dict(value)

        return {key: _load_value(item) for key, item in value.items()}

    if isinstance(value, list):
        return [_load_value(item) for item in value]

    return value


def _looks_tagged(value: Mapping[str, Any]) -> bool:
    return len(value) == 1 and (_BYTES in value or _OBJECT in value)


def _decode(value: Any) -> Any:
    """Base64 text as bytes; what is none comes back as it is, for validation to refuse it by name and place."""
    try:
        return base64.b64decode(value, validate=True)
    except (ValueError, TypeError):
        return value
