"""Conversations in plain scripts."""

from __future__ import annotations

import threading

import pytest
from conversation_kit import Heard, sketch, talk
from ctrl_c import press_when

from simulacra.blocking import run_sync
from simulacra.errors import ConfigurationError, ConnectionFailedError, InvalidStateError
from simulacra.events import ContentUpdate, MessageComplete
from simulacra.testing import calls, fault_after, reply, stall
from simulacra.tools import tool
from simulacra.workflows import WorkflowManager


def test_prompt_sync_answers():
    conversation = talk("one", "two")

    assert conversation.prompt_sync("hi").text == "one"
    assert conversation.prompt_sync("more").text == "two"
    assert sketch(conversation.messages) == ["U hi", "A one", "U more", "A two"]


def test_prompt_sync_raises_what_the_turn_raises():
    conversation = talk(fault_after("Hel", ConnectionFailedError("gone")))

    with pytest.raises(ConnectionFailedError) as caught:
        conversation.prompt_sync("hi")

    assert caught.value.partial.text == "Hel"

    with pytest.raises(ConfigurationError):
        conversation.prompt_sync("")


def test_prompt_sync_drives_the_tool_loop_and_sees_the_caller():
    @tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    conversation = talk(calls(("add", {"a": 1, "b": 2})), "3", toolkit=[add])

    assert conversation.prompt_sync("1 + 2?").text == "3"
    assert WorkflowManager(talk("four")).run_sync("hi").text == "four"


@pytest.mark.anyio
async def test_inside_a_loop_the_sync_calls_are_refused_with_the_remedy():
    conversation = talk()

    with pytest.raises(InvalidStateError, match=r"await conversation\.prompt"):
        conversation.prompt_sync("hi")

    with pytest.raises(InvalidStateError, match=r"async with conversation\.stream"):
        conversation.stream_sync("hi")

    assert list(conversation.journal.entries()) == []


def test_stream_sync_gives_events_and_pieces():
    conversation = talk(reply(chunks=["Hel", "lo"]), reply(chunks=["a", "b"]))

    with conversation.stream_sync("hi") as stream:
        names = [event.name for event in stream]
        assert stream.response().text == "Hello"

    with conversation.stream_sync("more") as stream:
        assert list(stream.text_deltas()) == ["a", "b"]

    assert names[0] == names[-1] == "state_change"
    assert names.count("content_update") == 2


def test_stream_sync_left_early_keeps_exactly_what_was_taken():
    conversation = talk(reply(chunks=["Hel", "lo", " you", stall()]), "well")
    heard = Heard(conversation)

    with conversation.stream_sync("hi") as stream:
        for delta in stream.text_deltas():
            assert delta == "Hel"
            break

    assert stream.response().cancelled
    assert stream.response().text == "Hel"
    assert sketch(conversation.messages) == ["U hi", "A* Hel"]
    assert heard.ends == ["response_cancelled"]
    assert conversation.provider.open_streams == 0
    assert conversation.prompt_sync("new").text == "well"


def test_stream_sync_raises_from_the_iteration():
    conversation = talk(fault_after("Hel", ConnectionFailedError("gone")))
    taken = []

    with pytest.raises(ConnectionFailedError), conversation.stream_sync("hi") as stream:
        taken.extend(stream.text_deltas())

    with pytest.raises(ConnectionFailedError):
        stream.response()


def test_stream_sync_can_be_cancelled():
    conversation = talk(reply(chunks=["Hel", stall()]))

    with conversation.stream_sync("hi") as stream:
        for event in stream:
            if isinstance(event, ContentUpdate):
                stream.cancel()

    assert stream.response().text == "Hel"


def test_stream_sync_has_to_be_entered():
    with pytest.raises(InvalidStateError, match="with"):
        next(talk().stream_sync("hi"))


def test_leaving_a_stream_sync_that_is_done_is_no_cancel():
    conversation = talk("hello")
    done = threading.Event()
    conversation.on(MessageComplete, lambda event: done.set())

    with conversation.stream_sync("hi") as stream:
        next(stream)
        done.wait()

    assert stream.response().stop_reason == "end_turn"


def interrupt_at(conversation, text, waiting_in):
    """Ctrl-C in the main thread when a piece was heard, and nothing more will come."""
    heard = threading.Event()
    conversation.on(ContentUpdate, lambda event: event.delta == text and heard.set())

    return press_when(heard, waiting_in=waiting_in)


def test_ctrl_c_in_prompt_sync_keeps_what_was_delivered():
    conversation = talk(reply(chunks=["Hel", "lo", stall()]), "well")
    thread = interrupt_at(conversation, "lo", "result")

    with pytest.raises(KeyboardInterrupt):
        conversation.prompt_sync("hi")

    thread.join()
    assert sketch(conversation.messages) == ["U hi", "A* Hello"]
    assert conversation.state == "idle"
    assert conversation.provider.open_streams == 0
    assert conversation.prompt_sync("new").text == "well"


def test_ctrl_c_in_stream_sync_keeps_what_was_taken():
    conversation = talk(reply(chunks=["Hel", "lo", stall()]), "well")
    took_all = threading.Event()
    thread = press_when(took_all, waiting_in="wait_for")

    with pytest.raises(KeyboardInterrupt), conversation.stream_sync("hi") as stream:
        for delta in stream.text_deltas():
            if delta == "lo":
                took_all.set()

    thread.join()
    assert sketch(conversation.messages) == ["U hi", "A* Hello"]
    assert conversation.prompt_sync("new").text == "well"


def test_every_coroutine_can_be_run():
    conversation = talk("one", "a summary")
    conversation.prompt_sync("hi")

    assert run_sync(conversation.checkpoint()).summary == "a summary"
    run_sync(conversation.aclose())
    assert conversation.state == "disposed"


def test_cancel_response_from_the_main_thread():
    conversation = talk(reply(chunks=["Hel", stall()]))
    heard, outcome = threading.Event(), []
    conversation.on(ContentUpdate, lambda event: heard.set())
    thread = threading.Thread(target=lambda: outcome.append(conversation.prompt_sync("hi")))
    thread.start()
    heard.wait()
    conversation.cancel_response()
    thread.join()

    assert outcome[0].cancelled
    assert sketch(conversation.messages) == ["U hi", "A* Hel"]
