"""What pydantic says of a wrong value, in words for people."""

from __future__ import annotations

from pydantic import ValidationError

_MOST = 3


def faults_of(error: ValidationError) -> str:
    """The first few faults, each with its place: `content.0.text: Field required`."""
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    told = [": ".join(filter(None, (".".join(map(str, fault["loc"])), fault["msg"]))) for fault in faults[:_MOST]]
    more = [f"{len(faults) - _MOST} more"] if len(faults) > _MOST else []

    return "; ".join([*told, *more])
