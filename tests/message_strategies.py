"""Hypothesis strategies for every value a conversation can hold."""

from __future__ import annotations

from hypothesis import strategies as st

from simulacra.messages import (
    STOP_REASONS,
    AssistantMessage,
    MediaContent,
    RawContent,
    TextContent,
    ThinkingContent,
    ToolContent,
    ToolErrorResult,
    ToolResultContent,
    ToolSuccessResult,
    UnknownContent,
    Usage,
    UserMessage,
)

any_text = st.text(st.characters(codec=None, exclude_categories=()), max_size=20)
names = st.text(min_size=1, max_size=8)
counts = st.none() | st.integers(0, 10**9)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | any_text
# Keys that look like the tags of the JSON form are the interesting ones.
keys = st.sampled_from(["$bytes", "$object", "type", "content", "usage", "unknown", "data"]) | any_text
json_values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=8
)
free_values = st.recursive(
    scalars | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)
bags = st.none() | st.dictionaries(keys, free_values, max_size=3)
stamps = {"id": st.none() | names, "timestamp": st.none() | st.integers(0, 2**42), "extended": bags}


def unknown_fields(owner):
    """Fields of a newer version: any name that `owner` does not have."""
    taken = set(owner.__dataclass_fields__)

    return st.none() | st.dictionaries(keys.filter(lambda key: key not in taken), free_values, min_size=1, max_size=2)


def block(owner, **fields):
    return st.builds(owner, **fields, **stamps, unknown=unknown_fields(owner))


text_blocks = block(TextContent, text=any_text)
media_blocks = block(
    MediaContent,
    kind=st.sampled_from(["image", "audio", "video", "file"]),
    media_type=names,
    data=st.binary(max_size=40),
    name=st.none() | any_text,
) | block(MediaContent, kind=st.just("file"), media_type=names, url=any_text)
thinking_blocks = block(ThinkingContent, thought=any_text, redacted=st.booleans())
tool_blocks = block(
    ToolContent,
    tool_request_id=any_text,
    tool=any_text,
    params=st.dictionaries(keys, free_values, max_size=3),
    error=st.none() | any_text,
)
reserved = {"result", "message", "error", "self"}
extras = st.dictionaries(keys.filter(lambda key: key not in reserved), json_values, max_size=3)
results = st.builds(lambda more: ToolSuccessResult(**more), extras) | st.builds(
    lambda message, error, more: ToolErrorResult(message=message, error=error, **more), any_text, json_values, extras
)
result_blocks = block(
    ToolResultContent,
    tool_request_id=any_text,
    tool=any_text,
    result=results,
    content=st.lists(text_blocks | media_blocks, max_size=2).map(tuple),
)
raw_blocks = block(RawContent, model_kind=any_text, data=any_text)
unknown_blocks = st.builds(
    lambda kind, more: UnknownContent(data={**more, "type": kind}),
    names.map(lambda name: f"future-{name}"),
    st.dictionaries(keys, free_values, max_size=2),
)
usages = st.builds(
    Usage,
    input_tokens=counts,
    output_tokens=counts,
    cache_read_input_tokens=counts,
    cache_creation_input_tokens=counts,
    reasoning_tokens=counts,
    unknown=unknown_fields(Usage),
)
user_messages = st.builds(
    UserMessage,
    content=st.lists(text_blocks | media_blocks | result_blocks | raw_blocks | unknown_blocks, max_size=3).map(tuple),
    id=st.none() | names,
    timestamp=st.none() | st.integers(0, 2**42),
    unknown=unknown_fields(UserMessage),
)
assistant_messages = st.builds(
    AssistantMessage,
    content=st.lists(
        text_blocks | media_blocks | thinking_blocks | tool_blocks | raw_blocks | unknown_blocks, max_size=3
    ).map(tuple),
    id=st.none() | names,
    timestamp=st.none() | st.integers(0, 2**42),
    status=st.sampled_from(["complete", "interrupted", "failed"]),
    stop_reason=st.none() | st.sampled_from(sorted(STOP_REASONS)),
    stop_details=st.none() | any_text,
    model=st.none() | any_text,
    usage=st.none() | usages,
    unknown=unknown_fields(AssistantMessage),
)
messages = user_messages | assistant_messages
