"""What the Responses API accepts, as one table: every request passes it last, `lint` reads it, the emulator refuses by it."""

from __future__ import annotations

from functools import partial

from simulacra.rules import RuleTable
from simulacra_openai.responses.drafting import Settings, draft_request
from simulacra_openai.responses.field_rules import field_rules
from simulacra_openai.responses.input_rules import input_rules
from simulacra_openai.responses.marks import KIND

RULES = RuleTable(
    vendor=KIND,
    draft=partial(draft_request, settings=Settings(model="any")),
    rules=(*input_rules(), *field_rules()),
)
