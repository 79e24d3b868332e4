"""What a vendor emulator answers: the words of a model, and everything that can go wrong on the way.

Vendor neutral: an emulator puts it on its vendor's wire. Faults can be combined with words.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from pydantic import ConfigDict

from simulacra.messages import Usage

Pieces: TypeAlias = str | Sequence[str]
"""A text, or the deltas in which it comes."""

COUNTED = Usage(input_tokens=10, output_tokens=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatedCall:
    """A tool call.

    Args:
        tool: The tool's name.
        arguments: The arguments, or the fragments of their JSON text, which may be broken.
        id: The vendor's id of the call; made by the emulator when not given.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")  # scripts in files are read by pydantic

    tool: str
    arguments: Mapping[str, Any] | Sequence[str] = field(default_factory=dict)
    id: str | None = None

    @property
    def fragments(self) -> tuple[str, ...]:
        """The pieces in which the JSON text of the arguments comes."""
        if isinstance(self.arguments, Mapping):
            text = json.dumps(self.arguments)
            middle = len(text) // 2
            return (text[:middle], text[middle:])

        return pieces_of(self.arguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatedReply:
    """One answer of the vendor. Events are counted as the vendor sends them, its opening ones included.

    Args:
        blocks: Parts in the vendor's own form, ahead of the words: content blocks of Anthropic, output items of the
            Responses API, parts of Gemini. Chat completions have none.
        thinking: What the model thinks first.
        text: What it says.
        refusal: What it says to refuse.
        calls: The tools it calls.
        finish: The vendor's word for why it stopped; empty for the usual one, `None` for none at all.
        usage: What is reported; `None` for nothing.
        closed: Whether the vendor's closing event is sent.
        status: HTTP status; from 400 on the answer is an error.
        headers: Further response headers.
        body: Sent in place of all the above: JSON values, text or bytes; a list of bytes is one write each.
        content_type: Of `body`.
        error: An error that the stream reports; nothing follows it.
        error_after: After how many events; in place of the end when not given.
        garbage_after: After how many events one comes that is no JSON.
        cut_after: After how many events the connection is dropped.
        stall_after: After how many events silence falls, until the client leaves or the emulator ends.
        hangs_up: Close the connection without any answer.
        is_silent: Read the request and answer nothing, until the client leaves or the emulator ends.
        write_size: Most bytes of one write; one event each when not given.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")  # scripts in files are read by pydantic

    blocks: Sequence[Mapping[str, Any]] = ()
    thinking: Pieces = ()
    text: Pieces = ()
    refusal: Pieces = ()
    calls: Sequence[EmulatedCall] = ()
    finish: str | None = ""
    usage: Usage | None = COUNTED
    closed: bool = True
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    content_type: str = "application/json"
    error: Mapping[str, Any] | None = None
    error_after: int | None = None
    garbage_after: int | None = None
    cut_after: int | None = None
    stall_after: int | None = None
    hangs_up: bool = False
    is_silent: bool = False
    write_size: int | None = None


class EmulatedRequest:
    """A request as the server saw it.

    Args:
        method: `POST`, as a rule.
        path: Path and query.
        headers: Names in lower case.
        content: The body's bytes.
    """

    def __init__(self, method: str, path: str, headers: Mapping[str, str], content: bytes) -> None:
        self.method = method
        self.path = path
        self.headers = dict(headers)
        self.content = content
        self._abandoned = threading.Event()

    @property
    def body(self) -> Any:
        """The body, read by a strict JSON parser; `None` when there is none.

        Raises:
            ValueError: The body is no JSON.
        """
        return json.loads(self.content, parse_constant=_refuse_constant) if self.content else None

    @property
    def is_abandoned(self) -> bool:
        """Whether the client closed the connection before the reply was finished."""
        return self._abandoned.is_set()

    def abandon(self) -> None:
        """Told by the server when the client has left."""
        self._abandoned.set()


def tokens_of(request: EmulatedRequest) -> int:
    """About how many tokens a request has, at four characters each."""
    return -(-len(request.content) // 4)


def misdirected(request: EmulatedRequest, endpoints: str) -> EmulatedReply | None:
    """The vendor's answer to a request for something that it does not have; `None` for all others.

    Args:
        request: The request.
        endpoints: A regular expression that matches the end of each path that is served, by `POST`.
    """
    path = request.path.partition("?")[0]

    if not re.search(f"(?:{endpoints})$", path):
        return http_error(404, f"there is no {request.method} {path} here", code="not_found")

    return None if request.method == "POST" else http_error(405, f"{path} takes POST, not {request.method}")


def http_error(
    status: int,
    message: str = "emulated failure",
    *,
    code: str | None = None,
    retry_after: float | str | None = None,
    headers: Mapping[str, str] | None = None,
) -> EmulatedReply:
    """An answer that is an error, in the vendor's own words.

    Args:
        status: HTTP status, 400 or above.
        message: For people.
        code: The vendor's own code of the error.
        retry_after: Seconds, or an HTTP date, to wait.
        headers: Further response headers.
    """
    sent = dict(headers or {})

    if retry_after is not None:
        sent["retry-after"] = str(retry_after)

    return EmulatedReply(status=status, headers=sent, error={"message": message, "code": code})


def pieces_of(pieces: Pieces) -> tuple[str, ...]:
    """The deltas of a text."""
    if isinstance(pieces, str):
        return (pieces,) if pieces else ()

    return tuple(pieces)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON value")
