"""The short path of the decoder gives what the long one gives, whatever the chunks look like."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from simulacra_openai.decode import ChatDecoder

texts = st.none() | st.sampled_from(["", "a", "{", '"x": 1}'])
functions = st.fixed_dictionaries({}, optional={"name": st.none() | st.just("f"), "arguments": texts})
fragments = st.fixed_dictionaries(
    {},
    optional={
        "index": st.none() | st.integers(0, 1),
        "id": st.none() | st.sampled_from(["", "c1", "c2"]),
        "function": functions,
    },
)
deltas = st.fixed_dictionaries(
    {},
    optional={
        "content": texts,
        "role": st.just("assistant"),
        "tool_calls": st.none() | st.lists(fragments, max_size=2),
    },
)
choices = st.fixed_dictionaries(
    {"delta": deltas}, optional={"index": st.integers(0, 1), "finish_reason": st.none() | st.just("tool_calls")}
)
chunks = st.fixed_dictionaries(
    {"choices": st.lists(choices, max_size=2)}, optional={"usage": st.none() | st.just({"prompt_tokens": 1})}
)


class LongWay(ChatDecoder):
    def _decode_usual(self, chunk):
        return None


def told(decoder, sent):
    """Events and the whole reply; ids that the engine makes up are left out."""
    events = [event for chunk in sent for event in decoder.decode(chunk)]

    for event in events:
        if getattr(event, "tool_request_id", "").startswith("call_"):
            event.tool_request_id = "made up"

    message = decoder.completion()["choices"][0]["message"]

    for call in message.get("tool_calls", ()):
        call["id"] = call["id"] if call["id"].startswith("c") and len(call["id"]) == 2 else "made up"

    return events, message


@given(st.lists(chunks, max_size=8))
def test_oa_r1_the_short_path_gives_what_the_long_one_gives(sent):
    assert told(ChatDecoder(), sent) == told(LongWay(), sent)
