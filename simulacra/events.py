"""What a conversation announces: one dataclass per event, named as its listeners name it.

Every event carries the conversation and the `request_id` of the turn it belongs to (empty outside a turn). Events
made per streamed chunk are not frozen: building them is on the per-delta path.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from simulacra.emitter import Event

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simulacra.conversation import Conversation
    from simulacra.messages import AssistantMessage, CheckpointState, Content, StopReason, Usage, UserMessage
    from simulacra.streaming import LiveContent

ConversationState = Literal["idle", "awaiting_response", "streaming_response", "stopping", "disposed"]
HistoryChangeReason = Literal["append", "clear", "load", "replace", "heard", "restore"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConversationEvent(Event):
    """Base of the events of a conversation."""

    conversation: Conversation
    request_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StateChange(ConversationEvent):
    """The conversation went from one state to another."""

    name: ClassVar[str] = "state_change"
    previous: ConversationState
    current: ConversationState


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PromptSend(ConversationEvent):
    """A user message was admitted and its turn begins."""

    name: ClassVar[str] = "prompt_send"
    message: UserMessage


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BeforeRequest(ConversationEvent):
    """The vendor's parameters, about to be sent. Changes to `params` are sent; `attempt` counts from 1."""

    name: ClassVar[str] = "before_request"
    params: dict[str, Any]
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RawRequest(ConversationEvent):
    """What was sent."""

    name: ClassVar[str] = "raw_request"
    data: Any


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RawResponse(ConversationEvent):
    """The vendor's whole answer, put together."""

    name: ClassVar[str] = "raw_response"
    data: Any


@dataclass(slots=True, kw_only=True, eq=False)
class RawStream(Event):
    """One chunk of the vendor's stream."""

    name: ClassVar[str] = "raw_stream"
    is_owed: ClassVar[bool] = False
    conversation: Conversation
    request_id: str
    data: Any


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MessageStart(ConversationEvent):
    """The reply begins; `message` is still empty but has its id."""

    name: ClassVar[str] = "message_start"
    message: AssistantMessage
    usage: Usage
    provider_message_id: str | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MessageUpdate(ConversationEvent):
    """Usage or message data changed."""

    name: ClassVar[str] = "message_update"
    message: AssistantMessage
    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ContentStart(ConversationEvent):
    """A block begins; `content` is the live block."""

    name: ClassVar[str] = "content_start"
    index: int
    content: LiveContent
    usage: Usage


@dataclass(slots=True, kw_only=True, eq=False)
class ContentUpdate(Event):
    """A piece of a block; `content` is the live block, nothing is copied per delta."""

    name: ClassVar[str] = "content_update"
    is_owed: ClassVar[bool] = False  # a piece that not every listener got was not delivered
    conversation: Conversation
    request_id: str
    index: int
    delta: str
    content: LiveContent
    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ContentComplete(ConversationEvent):
    """A block is finished; `content` is the final value."""

    name: ClassVar[str] = "content_complete"
    index: int
    content: Content
    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MessageComplete(ConversationEvent):
    """The turn is finished and its messages are in history."""

    name: ClassVar[str] = "message_complete"
    message: AssistantMessage
    usage: Usage
    stop_reason: StopReason
    stop_details: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RequestSuccess(ConversationEvent):
    """The request worked; `metadata` is the policy's record."""

    name: ClassVar[str] = "request_success"
    message: UserMessage | None
    metadata: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RequestError(ConversationEvent):
    """The turn failed; `message` is what the user sent."""

    name: ClassVar[str] = "request_error"
    message: UserMessage | None
    error: Exception
    metadata: Mapping[str, Any]
    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ResponseCancelled(ConversationEvent):
    """The turn was cancelled; `message` is what was delivered, or `None`."""

    name: ClassVar[str] = "response_cancelled"
    message: AssistantMessage | None
    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HistoryChange(ConversationEvent):
    """History is not what it was; `message_ids` are the messages concerned, `seq` the journal's entry."""

    name: ClassVar[str] = "history_change"
    reason: HistoryChangeReason
    message_ids: tuple[str, ...] = ()
    seq: int = 0
    late: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CheckpointBegin(ConversationEvent):
    """A summary is being made, in `child`."""

    name: ClassVar[str] = "checkpoint_begin"
    child: Conversation


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CheckpointComplete(ConversationEvent):
    """A summary was made and stored."""

    name: ClassVar[str] = "checkpoint_complete"
    checkpoint: CheckpointState


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CreateChild(ConversationEvent):
    """A child conversation was made."""

    name: ClassVar[str] = "create_child"
    child: Conversation


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ChildEvent(ConversationEvent):
    """A descendant announced `event`; `event.conversation` tells whose it is."""

    name: ClassVar[str] = "child_event"
    event: Any


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LifecycleError(ConversationEvent):
    """Something beside the turn failed: a listener, a background task, a checkpoint."""

    name: ClassVar[str] = "lifecycle_error"
    error: Exception
    operation: str
    context: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InputQueued(ConversationEvent):
    """An input waits for the conversation to be free."""

    name: ClassVar[str] = "input_queued"
    input_id: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InputSent(ConversationEvent):
    """A waiting input was admitted."""

    name: ClassVar[str] = "input_sent"
    input_id: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InputDropped(ConversationEvent):
    """A waiting input will not be sent; `reason` says why."""

    name: ClassVar[str] = "input_dropped"
    input_id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Dispose(ConversationEvent):
    """The conversation ends; no event but the change to `disposed` follows."""

    name: ClassVar[str] = "dispose"


CONVERSATION_EVENTS: tuple[type[Event], ...] = (
    StateChange,
    PromptSend,
    BeforeRequest,
    RawRequest,
    RawResponse,
    RawStream,
    MessageStart,
    MessageUpdate,
    ContentStart,
    ContentUpdate,
    ContentComplete,
    MessageComplete,
    RequestSuccess,
    RequestError,
    ResponseCancelled,
    HistoryChange,
    CheckpointBegin,
    CheckpointComplete,
    CreateChild,
    ChildEvent,
    LifecycleError,
    InputQueued,
    InputSent,
    InputDropped,
    Dispose,
)
