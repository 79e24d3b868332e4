"""Short ways to feed a fold in tests."""

from __future__ import annotations

from simulacra.streaming import Fold, MessageStop, ToolArgumentsDelta, ToolCallStart


def new_fold(model=None):
    return Fold("m1", 1_700_000_000_000, model_kind="vendor", model=model)


def fold_all(*events, fold=None):
    fold = fold or new_fold()
    changes = [change for event in events for change in fold.apply(event)]

    return fold, changes


def message_of(*events):
    fold, _ = fold_all(*events, MessageStop())

    return fold.message()


def call(index=0, name="f", *pieces, tool_request_id="t1"):
    return [ToolCallStart(index, tool_request_id, name), *(ToolArgumentsDelta(index, piece) for piece in pieces)]
