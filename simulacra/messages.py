"""The values of a conversation: content blocks, messages, tool results, usage, responses.

They are frozen, hold no engine objects and know no vendor. Stored values are slotted pydantic dataclasses; how they
become JSON and come back is `simulacra.serialization`'s affair, identity and order are the journal's.
"""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, Literal, Self, TypeAlias, get_args

from pydantic import BaseModel, ConfigDict, Discriminator, Field, JsonValue, Tag, model_validator
from pydantic.dataclasses import dataclass

from simulacra.cleaning import Bytes, JsonObject, Text, require_json

StopReason = Literal[
    "end_turn",
    "max_tokens",
    "stop_sequence",
    "tool_use",
    "refusal",
    "content_filter",
    "context_window",
    "pause",
    "cancelled",
    "error",
    "other",
]
STOP_REASONS: frozenset[str] = frozenset(get_args(StopReason))
MessageStatus = Literal["complete", "interrupted", "failed"]
MediaKind = Literal["image", "audio", "video", "file"]

_VALUE = ConfigDict(extra="forbid", defer_build=True)  # built on first use: importing stays cheap


@dataclass(frozen=True, slots=True, config=_VALUE)
class TextContent:
    """Text, as the user wrote it or the model said it."""

    text: Text
    _: dataclasses.KW_ONLY
    type: Literal["text"] = "text"
    id: str | None = None
    timestamp: int | None = None
    extended: JsonObject | None = None
    unknown: JsonObject | None = None


@dataclass(frozen=True, slots=True, config=_VALUE)
class MediaContent:
    """An image, a sound, a video or a file: exactly one of `data` (bytes), `url`, `file_id` (the vendor's)."""

    _: dataclasses.KW_ONLY
    kind: MediaKind
    media_type: Text
    data: Bytes | None = None
    url: Text | None = None
    file_id: Text | None = None
    name: Text | None = None
    type: Literal["media"] = "media"
    id: str | None = None
    timestamp: int | None = None
    extended: JsonObject | None = None
    unknown: JsonObject | None = None

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        sources = [name for name in ("data", "url", "file_id") if getattr(self, name) is not None]

        if len(sources) != 1:
            given = ", ".join(sources) or "none"
            raise ValueError(f"media content needs exactly one of data, url, file_id; given: {given}")

        return self


@dataclass(frozen=True, slots=True, config=_VALUE)
class ThinkingContent:
    """The model's reasoning. Vendor signatures wait in `extended`; redacted thinking has no readable thought."""

    thought: Text
    _: dataclasses.KW_ONLY
    redacted: bool = False
    type: Literal["thinking"] = "thinking"
    id: str | None = None
    timestamp: int | None = None
    extended: JsonObject | None = None
    unknown: JsonObject | None = None


@dataclass(frozen=True, slots=True, config=_VALUE)
class ToolContent:
    """A tool call. `error` says why its arguments could not be read; then `params` is empty and it is never run."""

    _: dataclasses.KW_ONLY
    tool_request_id: Text
    tool: Text
    params: JsonObject = dataclasses.field(default_factory=dict)
    error: Text | None = None
    type: Literal["tool"] = "tool"
    id: str | None = None
    timestamp: int | None = None
    extended: JsonObject | None = None
    unknown: JsonObject | None = None


class ToolSuccessResult(BaseModel):
    """What a tool that worked gives back; further keys are the tool's own JSON values."""

    model_config = ConfigDict(frozen=True, extra="allow", defer_build=True)
    __pydantic_extra__: dict[str, JsonValue] = Field(init=False)

    result: Literal[True] = True

    _clean = model_validator(mode="before")(require_json)


class ToolErrorResult(BaseModel):
    """What a tool that failed gives back: a message the model can act on."""

    model_config = ConfigDict(frozen=True, extra="allow", defer_build=True)
    __pydantic_extra__: dict[str, JsonValue] = Field(init=False)

    result: Literal[False] = False
    message: Text
    error: JsonValue = None

    _clean = model_validator(mode="before")(require_json)


def _result_kind(value: Any) -> str:
    kind = value.get("result") if isinstance(value, dict) else getattr(value, "result", None)

    return {True: "success", False: "error"}.get(kind, "") if isinstance(kind, bool) else ""


ToolResult: TypeAlias = Annotated[
    Annotated[ToolSuccessResult, Tag("success")] | Annotated[ToolErrorResult, Tag("error")],
    Discriminator(_result_kind),
]


@dataclass(frozen=True, slots=True, config=_VALUE)
class ToolResultContent:
    """The answer to one tool call; `content` carries what JSON cannot: media, or text beside the result."""

    _: dataclasses.KW_ONLY
    tool_request_id: Text
    tool: Text
    result: ToolResult
    content: tuple[Annotated[TextContent | MediaContent, Field(discriminator="type")], ...] = ()
    type: Literal["tool_result"] = "tool_result"
    id: str | None = None
    timestamp: int | None = None
    extended: JsonObject | None = None
    unknown: JsonObject | None = None


@dataclass(frozen=True, slots=True, config=_VALUE)
class RawContent:
    """Vendor output the engine has no word for: the JSON text of the part, sent back only to vendors that know it."""

    _: dataclasses.KW_ONLY
    model_kind: Text
    data: Text
    type: Literal["raw"] = "raw"
    id: str | None = None
    timestamp: int | None = None
    extended: JsonObject | None = None
    unknown: JsonObject | None = None


@dataclass(frozen=True, slots=True, config=_VALUE)
class UnknownContent:
    """A block of a newer version of the engine; it survives load and save and is never sent."""

    data: JsonObject

    @property
    def type(self) -> str:
        return str(self.data.get("type", ""))


BLOCK_TYPES: dict[str, type[Any]] = {
    "text": TextContent,
    "media": MediaContent,
    "thinking": ThinkingContent,
    "tool": ToolContent,
    "tool_result": ToolResultContent,
    "raw": RawContent,
}


def _block_kind(value: Any) -> str:
    kind = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)

    return kind if kind in BLOCK_TYPES else "unknown"


UserContent: TypeAlias = Annotated[
    Annotated[TextContent, Tag("text")]
    | Annotated[MediaContent, Tag("media")]
    | Annotated[ToolResultContent, Tag("tool_result")]
    | Annotated[RawContent, Tag("raw")]
    | Annotated[UnknownContent, Tag("unknown")],
    Discriminator(_block_kind),
]
AssistantContent: TypeAlias = Annotated[
    Annotated[TextContent, Tag("text")]
    | Annotated[MediaContent, Tag("media")]
    | Annotated[ThinkingContent, Tag("thinking")]
    | Annotated[ToolContent, Tag("tool")]
    | Annotated[RawContent, Tag("raw")]
    | Annotated[UnknownContent, Tag("unknown")],
    Discriminator(_block_kind),
]
Content: TypeAlias = (
    TextContent | MediaContent | ThinkingContent | ToolContent | ToolResultContent | RawContent | UnknownContent
)


@dataclass(frozen=True, slots=True, config=_VALUE)
class Usage:
    """Tokens of one or more requests, with one meaning for every vendor; `None` is unknown, not zero.

    `input_tokens` is everything the model read, the cached part included; `output_tokens` everything it wrote,
    reasoning included.
    """

    _: dataclasses.KW_ONLY
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    reasoning_tokens: int | None = None
    unknown: JsonObject | None = None

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=_add(self.input_tokens, other.input_tokens),
            output_tokens=_add(self.output_tokens, other.output_tokens),
            cache_read_input_tokens=_add(self.cache_read_input_tokens, other.cache_read_input_tokens),
            cache_creation_input_tokens=_add(self.cache_creation_input_tokens, other.cache_creation_input_tokens),
            reasoning_tokens=_add(self.reasoning_tokens, other.reasoning_tokens),
        )

    def replaced_by(self, newer: Usage) -> Usage:
        """The running total after a newer report: the last value of each field holds (US-R1)."""
        return Usage(
            input_tokens=_last(self.input_tokens, newer.input_tokens),
            output_tokens=_last(self.output_tokens, newer.output_tokens),
            cache_read_input_tokens=_last(self.cache_read_input_tokens, newer.cache_read_input_tokens),
            cache_creation_input_tokens=_last(self.cache_creation_input_tokens, newer.cache_creation_input_tokens),
            reasoning_tokens=_last(self.reasoning_tokens, newer.reasoning_tokens),
        )


def _add(left: int | None, right: int | None) -> int | None:
    if left is None or right is None:
        return right if left is None else left

    return left + right


def _last(older: int | None, newer: int | None) -> int | None:
    return older if newer is None else newer


class _Referable:
    """What lives beside a message, such as its form on a wire, is kept for as long as the message lives."""

    __slots__ = ("__weakref__",)


@dataclass(frozen=True, slots=True, config=_VALUE)
class UserMessage(_Referable):
    """What goes to the model. It gets `id` and `timestamp` (ms) when a conversation admits it, unless it has them."""

    content: tuple[UserContent, ...]
    _: dataclasses.KW_ONLY
    role: Literal["user"] = "user"
    id: str | None = None
    timestamp: int | None = None
    unknown: JsonObject | None = None


@dataclass(frozen=True, slots=True, config=_VALUE)
class AssistantMessage(_Referable):
    """What came from the model; `status` says whether all of it did."""

    content: tuple[AssistantContent, ...]
    _: dataclasses.KW_ONLY
    role: Literal["assistant"] = "assistant"
    id: str | None = None
    timestamp: int | None = None
    status: MessageStatus = "complete"
    stop_reason: StopReason | None = None
    stop_details: Text | None = None
    model: Text | None = None
    usage: Usage | None = None
    unknown: JsonObject | None = None

    @property
    def text(self) -> str:
        """The text blocks, joined."""
        return "".join(block.text for block in self.content if isinstance(block, TextContent))

    @property
    def tool_calls(self) -> tuple[ToolContent, ...]:
        return tuple(block for block in self.content if isinstance(block, ToolContent))


Message: TypeAlias = Annotated[UserMessage | AssistantMessage, Field(discriminator="role")]


@dataclass(frozen=True, slots=True, config=_VALUE)
class CheckpointState:
    """A summary of everything up to and including the message `message_id`."""

    _: dataclasses.KW_ONLY
    message_id: str
    summary: Text
    unknown: JsonObject | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """How a turn, or a whole tool loop, ended.

    `message` is `None` when nothing was delivered; `text` of a cancelled response is what was delivered.
    """

    message: AssistantMessage | None
    stop_reason: StopReason
    stop_details: str | None = None
    usage: Usage = dataclasses.field(default_factory=Usage)
    request_id: str = ""
    output: Any = None
    partial_output: Any = None

    @property
    def text(self) -> str:
        return "" if self.message is None else self.message.text

    @property
    def cancelled(self) -> bool:
        return self.stop_reason == "cancelled"
