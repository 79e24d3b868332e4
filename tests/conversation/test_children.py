"""Child conversations: what they inherit, how their events bubble, and how they end."""

from __future__ import annotations

import anyio
import pytest
from conversation_kit import Heard, named, sketch, talk

from simulacra.errors import InvalidStateError
from simulacra.events import ChildEvent, CreateChild, Dispose, StateChange
from simulacra.messages import CheckpointState
from simulacra.policies import Policy, RetryPolicy
from simulacra.provider import RequestOptions
from simulacra.testing import ScriptedProvider, stall
from simulacra.tools import tool

pytestmark = pytest.mark.anyio


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def family(*steps):
    parent = talk(*steps, system="Be brief.", toolkit=[add], options=RequestOptions(max_tokens=5))

    return parent, parent.spawn_child()


async def test_conv_25_a_child_inherits_the_parts():
    parent, child = family("one")
    mine, its = parent.core.settings, child.core.settings

    assert child.parent is parent
    assert child.provider is not parent.provider
    assert isinstance(child.provider, ScriptedProvider)
    assert (its.policy, its.transformer, its.strategy) == (mine.policy, mine.transformer, mine.strategy)
    assert (child.system, child.toolkit, child.options) == ("Be brief.", (add,), parent.options)
    assert child.id != parent.id
    assert not child.is_checkpoint
    assert child.messages == ()


async def test_conv_25_what_is_given_replaces_what_is_inherited():
    parent, _ = family("one")
    provider = ScriptedProvider(["other"])
    child = parent.spawn_child(id="mine", provider=provider, system="", toolkit=(), is_checkpoint=True)

    assert (child.id, child.system, child.toolkit, child.is_checkpoint) == ("mine", None, (), True)
    assert child.provider is provider
    assert parent.spawn_child(system="Be long.").system == "Be long."


async def test_conv_25_a_fork_takes_history_and_checkpoint_along():
    parent, _ = family("one", "two", "three")
    await parent.prompt("hi")
    parent.checkpoint_state = CheckpointState(message_id=parent.messages[-1].id, summary="s")
    fork = parent.spawn_child(fork_session=True)

    assert fork.messages == parent.messages
    assert fork.checkpoint_state == parent.checkpoint_state
    assert fork.checkpoints == parent.checkpoints
    await fork.prompt("more")
    assert sketch(parent.messages) == ["U hi", "A one"]
    assert sketch(fork.messages) == ["U hi", "A one", "U more", "A two"]


async def test_conv_25_a_policy_is_attached_to_the_child_too():
    told = []

    class Attached(RetryPolicy):
        def attach(self, conversation):
            told.append(conversation)

    parent = talk(policy=Attached(1, 0, 1))
    child = parent.spawn_child()

    assert isinstance(child.core.settings.policy, Policy)
    assert told == [parent, child]


async def test_conv_26_every_ancestor_hears_each_event_once():
    grandparent = talk("one")
    parent = grandparent.spawn_child()
    high, low = Heard(grandparent), Heard(parent)
    child = parent.spawn_child()
    own = Heard(child)
    await child.prompt("hi")

    for heard, owner in ((low, parent), (high, grandparent)):
        bubbled = [event.event for event in heard.of(ChildEvent) if event.event.conversation is child]

        assert bubbled == list(own)
        assert all(event.conversation is owner for event in heard.of(ChildEvent))
        assert not any(isinstance(event, ChildEvent) for event in bubbled)
        assert {event.request_id for event in heard.of(ChildEvent)} == {event.request_id for event in bubbled} | {
            event.request_id for event in heard.of(ChildEvent) if event.event.conversation is parent
        }

    assert named(high[0]) == "child_event"
    assert isinstance(high[0].event, CreateChild)
    assert isinstance(low[0], CreateChild)


@pytest.mark.parametrize("is_async", [False, True])
async def test_conv_26_the_parent_hears_of_the_child_before_its_events_up_to_its_end(is_async):
    parent = talk("one")
    heard = []

    async def hear_late(event):
        heard.append(event)

    for kind in (CreateChild, ChildEvent):
        parent.on(kind, hear_late if is_async else heard.append)

    child = parent.spawn_child()
    await child.prompt("hi")
    await child.aclose()

    assert isinstance(heard[0], CreateChild)
    assert [named(event.event) for event in heard[1:]][:2] == ["idle>awaiting_response", "prompt_send"]
    assert [named(event.event) for event in heard[-2:]] == ["dispose", "idle>disposed"]


async def test_conv_26_listeners_of_a_failing_listener_in_the_child_hear_of_it():
    parent, child = family("one")
    heard = Heard(parent)
    child.on("prompt_send", lambda event: 1 / 0)
    await child.prompt("hi")

    assert [event.event.operation for event in heard.of(ChildEvent) if event.event.name == "lifecycle_error"] == [
        "listener"
    ]


async def test_conv_27_a_parent_takes_its_children_along(ask):
    parent, child = family(stall())
    grandchild = child.spawn_child()
    heard = Heard(parent)
    call = await ask(lambda: grandchild.prompt("hi"))
    await parent.aclose()

    assert call.outcome.cancelled
    assert {each.state for each in (parent, child, grandchild)} == {"disposed"}
    ends = [event.event.conversation if isinstance(event, ChildEvent) else event.conversation for event in heard]
    assert ends[-1] is parent


async def test_conv_27_a_child_disposed_alone_leaves_the_parent():
    parent, child = family("one", "two")
    heard = Heard(parent)
    await child.aclose()

    assert (child.state, parent.state) == ("disposed", "idle")
    assert parent._children == []
    assert heard.of(StateChange, Dispose) == []
    assert (await parent.prompt("hi")).text == "one"


async def test_w_conv_17_no_children_of_disposed_parents(ask):
    parent = talk(stall())
    refused = []

    def spawn(event):
        with pytest.raises(InvalidStateError, match="disposed") as caught:
            parent.spawn_child()

        refused.append(caught)

    parent.on("dispose", spawn)
    await parent.aclose()
    assert len(refused) == 1

    with pytest.raises(InvalidStateError, match="disposed"):
        parent.spawn_child()


async def test_w_conv_17_events_nobody_listens_to_are_not_made(monkeypatch):
    parent, child = family("one")
    made = []
    monkeypatch.setattr(parent.core.emitter, "_bubble", made.append)
    await child.prompt("hi")

    assert child.core.emitter.wants(ChildEvent) is False
    assert made == []


async def test_w_conv_14_a_disposed_child_leaves_nothing_behind(ask, fake_clock):
    parent, child = family("one")
    await child.prompt("hi")
    await child.aclose()

    assert parent._children == []
    assert fake_clock.pending == 0
    child.on("state_change", print)
    assert not child.core.emitter._subscriptions


async def test_msg_8_children_are_cancelled_alone(ask):
    parent, child = family(stall(), stall())
    first = await ask(lambda: parent.prompt("hi"))
    second = await ask(lambda: child.prompt("hi"))
    child.cancel_response()
    await ask(anyio.lowlevel.checkpoint)

    assert second.outcome.cancelled
    assert not first.is_over
