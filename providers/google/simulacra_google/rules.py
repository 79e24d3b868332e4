"""What Gemini accepts, as one table: every request passes it last, `lint` reads it, the emulator refuses by it."""

from __future__ import annotations

from functools import partial

from simulacra.rules import RuleTable
from simulacra_google.content_rules import content_rules
from simulacra_google.drafting import Settings, draft_request
from simulacra_google.field_rules import field_rules
from simulacra_google.marks import KIND

RULES = RuleTable(
    vendor=KIND,
    draft=partial(draft_request, settings=Settings(model="any")),
    rules=(*content_rules(), *field_rules()),
)
