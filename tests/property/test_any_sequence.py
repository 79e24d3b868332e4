"""Whatever is done to a conversation, in whatever order: its history is whole, nothing is lost, and it can be used."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from engine_actions import Dispose, Send, actions, cancels, early, edits, queueing, sends, when_busy
from engine_checks import check_always, check_at_rest, check_disposed
from engine_stage import Stage
from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from sendable import transcript

LAST_MOMENTS = 0.35
"""Seconds in which a disposed conversation has settled: its turn, its children, its background work."""
PROFILE = settings(
    max_examples=300,
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
    print_blob=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


steps = st.lists(st.tuples(st.integers(0, 8), actions), min_size=2, max_size=4)


class ConversationMachine(RuleBasedStateMachine):
    """A conversation to which anything may happen at any moment."""

    def __init__(self, backend: str) -> None:
        super().__init__()
        self._backend = backend
        self._stage: Stage | None = None
        self._is_whole = False

    @property
    def stage(self) -> Stage:
        assert self._stage is not None

        return self._stage

    @initialize(when_busy=when_busy, managed=st.booleans(), last=st.none() | st.none() | steps)
    def begin(self, when_busy: Any, managed: bool, last: Any) -> None:
        """Open a conversation. It ends with a prompt that has to work, or in the midst of the `last` steps."""
        self._stage = Stage(self._backend, when_busy, managed=managed)
        self._is_whole = True
        self._last = last

    @rule(send=sends | early)
    def send(self, send: Any) -> None:
        self._guard(lambda: self.stage.perform([(0, send)]))

    @rule(action=cancels | edits | queueing)
    def disturb(self, action: Any) -> None:
        self._guard(lambda: self.stage.perform([(0, action)]))

    @rule(edit=edits)
    def edit_at_rest(self, edit: Any) -> None:
        self._guard(self._rest)
        self._guard(lambda: self.stage.perform([(0, edit)]))

    @rule(steps=steps)
    def do_at_once(self, steps: Any) -> None:
        self._guard(lambda: self.stage.perform(steps))

    @rule(seconds=st.sampled_from([0.05, 0.1, 0.2, 2.0, 12.0]))
    def wait(self, seconds: float) -> None:
        self._guard(lambda: self.stage.wait(seconds))

    @rule()
    def rest(self) -> None:
        self._guard(self._rest)

    @invariant()
    def holds(self) -> None:
        if self._stage is not None and self._is_whole:
            self._guard(partial(check_always, self.stage))

    def teardown(self) -> None:
        if self._stage is None:
            return

        try:
            if self._is_whole:
                self._guard(self._end if self._last is None else self._dispose)
        finally:
            self.stage.release()

    def _rest(self) -> None:
        self.stage.rest()
        check_always(self.stage)
        check_at_rest(self.stage)

    def _end(self) -> None:
        """The conversation can still be used, and leaves nothing behind."""
        self._rest()
        self.stage.calm()
        self.stage.perform([(0, Send("prompt"))])
        self._rest()
        last = self.stage.calls[-1]
        assert last.error is None, f"a last prompt fails: {last.error!r}"
        assert last.outcome.text == "Fine."
        assert self.stage.requests[-1].messages[-1].content[-1].text == last.text
        self.stage.close()
        assert self.stage.conversation.state == "disposed"

    def _dispose(self) -> None:
        """Whatever is under way when the conversation is disposed settles."""
        self.stage.perform([*self._last, (1, Dispose())])
        self.stage.wait(LAST_MOMENTS)

        if not self.stage.is_dawdling:
            check_disposed(self.stage)

        self.stage.wait(60.0)

    def _guard(self, work: Any) -> None:
        """Remember that something broke, and show what the conversation looks like."""
        try:
            work()
        except BaseException:
            self._is_whole = False
            note(f"history:\n{transcript(self.stage.conversation.messages)}")
            raise


@pytest.mark.timeout(600)  # it takes seconds; making a failing example small takes minutes
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_any_sequence_of_actions_leaves_a_whole_and_usable_conversation(backend: str):
    run_state_machine_as_test(partial(ConversationMachine, backend), settings=PROFILE)
