"""Sound and pictures in replies, and what goes back of them."""

from __future__ import annotations

import base64

import pytest
from chat_wire import chunk, decoded, folded, message_of, stream_of
from simulacra_openai import COMPATIBLE, FIREWORKS
from simulacra_openai.decode import ChatDecoder
from simulacra_openai.drafting import Settings
from simulacra_openai.encode import encode_request

from simulacra.errors import ProtocolError
from simulacra.messages import MediaContent, TextContent, UserMessage
from simulacra.provider import ModelRequest
from simulacra.streaming import MediaDelta
from simulacra.testing.driving import reply_of, request, user

pytestmark = pytest.mark.anyio

STOP = chunk(finish="stop")
SOUND = bytes(range(200))
DATA = base64.b64encode(SOUND).decode()
PNG = base64.b64encode(b"\x89PNG").decode()


def audio(**piece):
    return chunk({"audio": piece})


def spoken(*data):
    return [
        chunk({"role": "assistant", "content": None, "refusal": None, "audio": {"id": "audio_1", "transcript": "Hel"}}),
        *(audio(data=piece) for piece in data),
        audio(transcript="lo"),
        audio(expires_at=1760000000),
        STOP,
    ]


@pytest.mark.parametrize("cut", [4, 6, 7, 100])
def test_sound_is_one_media_block_and_its_transcript_one_text(cut):
    message = message_of(spoken(*(DATA[at : at + cut] for at in range(0, len(DATA), cut))))
    text, sound = message.content

    assert text.text == "Hello"
    assert text.extended == {"openai_transcript": True}
    assert (sound.kind, sound.media_type, sound.data) == ("audio", "audio/pcm", SOUND)
    assert sound.extended == {"openai_audio": {"id": "audio_1", "expires_at": 1760000000}}


def test_sound_of_a_reply_that_was_not_streamed_is_read():
    whole = {
        "role": "assistant",
        "content": None,
        "audio": {"id": "i", "data": DATA, "transcript": "Hello", "expires_at": 1},
    }
    choice = {"index": 0, "message": whole, "finish_reason": "stop"}
    decoder = ChatDecoder(audio_format="wav")
    message = folded([*decoder.decode({"id": "c", "model": "m", "choices": [choice]}), *decoder.end(done=True)])

    assert [block.type for block in message.content] == ["text", "media"]
    assert message.content[1].media_type == "audio/wav"
    assert decoder.completion()["choices"][0]["message"]["audio"] == {"id": "i", "expires_at": 1, "transcript": "Hello"}


def test_sound_goes_back_as_what_it_says():
    """A service forgets a sound after an hour; what it says is never out of date."""
    message = message_of(spoken(DATA))
    history = (UserMessage((TextContent("hi"),)), message, UserMessage((TextContent("again"),)))
    sent = encode_request(ModelRequest(messages=history), Settings(model="m"))["messages"]

    assert sent[1] == {"role": "assistant", "content": "Hello"}


def test_pictures_of_a_reply_are_media():
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
    message = message_of([chunk({"content": "Look: "}), chunk({"images": [picture, picture]}), STOP], preset=COMPATIBLE)

    assert [block.type for block in message.content] == ["text", "media", "media"]
    assert (message.content[1].kind, message.content[1].data) == ("image", b"\x89PNG")


def test_a_picture_that_is_elsewhere_stays_as_it_came():
    far = {"type": "image_url", "image_url": {"url": "https://example.com/x.png"}}
    (block,) = message_of([chunk({"images": [far]}), STOP]).content

    assert '"https://example.com/x.png"' in block.data


@pytest.mark.parametrize(
    "broken", [{"audio": {"data": "????"}}, {"images": [{"image_url": {"url": "data:image/png;base64,?"}}]}]
)
def test_media_that_are_no_base64_are_a_typed_error(broken):
    with pytest.raises(ProtocolError, match="base64"):
        decoded([chunk(broken)])


async def test_the_format_that_was_asked_for_names_the_sound(serve):
    options = {"modalities": ["text", "audio"], "audio": {"voice": "alloy", "format": "pcm16"}}

    async with serve([stream_of(*spoken(DATA))], **options) as (emulator, provider):
        message = await reply_of(provider, request(user("speak")))

    assert emulator.requests[0].body["modalities"] == ["text", "audio"]
    assert message.content[1].data == SOUND


async def test_media_go_both_ways_over_the_wire(serve):
    picture = MediaContent(kind="image", media_type="image/png", data=b"\x89PNG")
    sound = MediaContent(kind="audio", media_type="audio/wav", data=b"RIFF")
    paper = MediaContent(kind="file", media_type="application/pdf", data=b"%PDF", name="a.pdf")

    async with serve([stream_of(*spoken(DATA))]) as (emulator, provider):
        await reply_of(provider, request(UserMessage((TextContent("what?"), picture, sound, paper))))

    assert emulator.refused == []
    assert [part["type"] for part in emulator.requests[0].body["messages"][0]["content"]] == [
        "text",
        "image_url",
        "input_audio",
        "file",
    ]


def test_fw_2_a_refusal_carries_the_mark_of_its_service():
    refusal = message_of([chunk({"refusal": "No."}), STOP], preset=FIREWORKS)
    openais = message_of([chunk({"refusal": "Nope."}), STOP])

    assert refusal.content[0].extended == {"fireworksai_refusal": True}
    history = (UserMessage((TextContent("a"),)), refusal, UserMessage((TextContent("b"),)), openais)
    sent = encode_request(
        ModelRequest(messages=history), Settings(model="m", preset=FIREWORKS, raw_kinds=FIREWORKS.raw_kinds)
    )["messages"]
    assert [message.get("refusal") for message in sent] == [None, "No.", None, "Nope."]


def test_deltas_of_sound_are_events():
    events = decoded(spoken(DATA[:100], DATA[100:]))

    assert b"".join(event.data for event in events if isinstance(event, MediaDelta)) == SOUND
