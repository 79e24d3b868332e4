"""The error tree: as drawn, each leaf with its contract."""

from __future__ import annotations

import inspect

import pytest

from simulacra import errors
from simulacra.errors import (
    BudgetExceededError,
    ConfigurationError,
    ConflictError,
    InvalidStateError,
    LimitExceededError,
    OperationCancelledError,
    ProviderError,
    RateLimitError,
    SimulacraError,
    StreamInterruptedError,
)
from simulacra.messages import AssistantMessage, TextContent


def drawn_tree():
    """Class name -> parent's name, read from the module's docstring."""
    parents, path = {}, []

    for line in errors.__doc__.splitlines():
        mark, _, rest = line.strip().partition(" ")

        if mark in ("*", "x", "+", "-"):
            depth = "*x+-".index(mark)
            name = rest.split(" ")[0]
            path[depth:] = [name]
            parents[name] = path[depth - 1] if depth else "Exception"

    return parents


def test_w_prv_1_the_tree_in_the_docstring_is_the_tree_of_the_classes():
    defined = {
        name: kind.__bases__[0].__name__
        for name, kind in vars(errors).items()
        if inspect.isclass(kind) and issubclass(kind, BaseException) and kind.__module__ == errors.__name__
    }
    assert drawn_tree() == defined
    assert len(defined) > 20


def test_gen_3_illegal_calls_and_bad_arguments_are_also_the_builtin_kind():
    assert issubclass(InvalidStateError, RuntimeError)
    assert issubclass(ConfigurationError, ValueError)
    assert "(also RuntimeError)" in errors.__doc__


def test_gen_3_an_illegal_call_names_state_allowed_states_and_remedy():
    error = InvalidStateError("clear", state="awaiting_response", allowed=["idle"], remedy="Await the turn first")
    assert str(error).startswith("invalid state")
    assert all(part in str(error) for part in ("clear", "awaiting_response", "idle", "Await the turn first"))
    assert (error.operation, error.state, error.allowed) == ("clear", "awaiting_response", ("idle",))
    assert str(InvalidStateError("x", state="disposed")).endswith("while disposed")


def test_w_prv_1_a_provider_error_carries_the_facts_of_one_failure():
    partial = AssistantMessage((TextContent("so far"),))
    error = StreamInterruptedError(
        "cut",
        provider="openai",
        model="m",
        status=200,
        code="c",
        request_id="r1",
        retryable=False,
        retry_after=2.5,
        partial=partial,
    )
    assert str(error) == "openai/m: cut"
    facts = (error.provider, error.model, error.status, error.code, error.request_id, error.retry_after)
    assert facts == ("openai", "m", 200, "c", "r1", 2.5)
    assert error.partial is partial
    assert not error.retryable
    assert str(ProviderError("plain")) == "plain"


def test_w_prv_1_the_vendors_exception_is_the_cause():
    original = KeyError("vendor")

    with pytest.raises(RateLimitError) as raised:
        raise RateLimitError("slow down") from original

    assert raised.value.__cause__ is original


@pytest.mark.parametrize(
    ("name", "retryable"),
    [
        ("AuthenticationError", False),
        ("PermissionDeniedError", False),
        ("BadRequestError", False),
        ("ContextWindowError", False),
        ("NotFoundError", False),
        ("RateLimitError", True),
        ("QuotaExceededError", False),
        ("OverloadedError", True),
        ("ServerError", True),
        ("ConnectionFailedError", True),
        ("TimeoutExceededError", True),
        ("StreamInterruptedError", True),
        ("ContentFilteredError", False),
        ("ProtocolError", True),
    ],
)
def test_w_prv_1_each_kind_says_whether_repeating_makes_sense(name, retryable):
    kind = getattr(errors, name)
    assert kind("x").retryable is retryable
    assert kind("x", retryable=not retryable).retryable is not retryable


def test_w_prv_1_every_provider_error_is_in_the_retryable_table():
    leaves = {
        kind.__name__ for kind in vars(errors).values() if inspect.isclass(kind) and issubclass(kind, ProviderError)
    }
    assert len(leaves - {"ProviderError"}) == 14


def test_limits_conflicts_and_cancellation_say_what_happened():
    assert issubclass(BudgetExceededError, LimitExceededError)
    assert LimitExceededError("200 of 100").partial is None
    conflict = ConflictError(expected=3, actual=5)
    assert (conflict.expected, conflict.actual) == (3, 5)
    assert "3" in str(conflict)
    assert "5" in str(conflict)
    token = object()
    cancelled = OperationCancelledError(token)
    assert (str(cancelled), cancelled.token) == ("The operation was cancelled", token)
    assert isinstance(cancelled, SimulacraError)
