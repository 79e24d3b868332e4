"""A turn in each phase in which a cancel may find it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import anyio
from conversation_kit import BEGUN, OPENED, SENT, talk

from simulacra.conversation import Conversation
from simulacra.errors import ServerError
from simulacra.policies import Policy, PolicyResult, RetryPolicy
from simulacra.testing import delay, fault, reply, stall
from simulacra.transformers import ContextTransformer

SETTLE = 0.1


CUT = ["content_start", "content_update"]


class Stubborn(Policy):
    """Waits for ever and does not look at its token."""

    async def execute(self, cancellation_token, fn, *args):
        await anyio.sleep_forever()
        return PolicyResult(result=False)


class Endless(ContextTransformer):
    """Never done with what it is given."""

    def __init__(self, *, prompt: bool) -> None:
        self.prompt = prompt

    async def transform_prompt(self, messages, context):
        if self.prompt:
            await anyio.sleep_forever()

        return messages

    async def transform_completion(self, message, context):
        await anyio.sleep_forever()
        return message


@dataclass(frozen=True)
class Phase:
    """Where a turn is when it is cancelled, what it has announced by then, and what is kept."""

    names: list[str]
    kept: list[str]
    steps: tuple[Any, ...] = ("never",)
    settings: dict[str, Any] | None = None
    stuck_in: str | None = None
    """An event whose listener never returns."""

    def start(self) -> Conversation:
        conversation = talk(*self.steps, **(self.settings or {}))

        if self.stuck_in is not None:

            async def stick(event):
                if conversation.turn_count == 0:
                    await anyio.sleep_forever()

            conversation.on(self.stuck_in, stick)

        return conversation


def slow_retry():
    return RetryPolicy(3, 1000, 2, jitter=False)


PHASES = {
    "transforming": Phase(BEGUN, ["U hi"], settings={"context_transformer": Endless(prompt=True)}),
    "in_the_policy": Phase(BEGUN, ["U hi"], settings={"policy": Stubborn()}),
    "before_connection": Phase([*BEGUN, "before_request"], ["U hi"], stuck_in="before_request"),
    "before_first_event": Phase([*BEGUN, *SENT], ["U hi"], (stall(),)),
    "back_off": Phase([*BEGUN, *SENT], ["U hi"], (fault(ServerError("busy")),), {"policy": slow_retry()}),
    "mid_stream": Phase([*OPENED, *CUT], ["U hi", "A* Hel"], (reply(chunks=["Hel", delay(5), "lo"]),)),
    "stalled": Phase([*OPENED, *CUT, "content_update"], ["U hi", "A* Hello"], (reply(chunks=["Hel", "lo", stall()]),)),
    "slow_listener": Phase([*OPENED, CUT[0]], ["U hi"], (reply(chunks=["Hel", "lo"]),), stuck_in="content_update"),
}


STOPPED = ["response_cancelled", "stopping>idle"]
