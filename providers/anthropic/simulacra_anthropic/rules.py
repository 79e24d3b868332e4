"""What the Messages API accepts, as one table: every request passes it last, `lint` reads it, the emulator refuses by it.

Each group of rules stands in a file of its own, what they demand is put right in `mending`, `field_mending` and
`schema_mending`.
"""

from __future__ import annotations

from functools import partial

from simulacra.rules import RuleTable
from simulacra_anthropic.call_rules import call_rules
from simulacra_anthropic.drafting import Settings, draft_request
from simulacra_anthropic.field_mending import mend_fields
from simulacra_anthropic.field_rules import field_rules
from simulacra_anthropic.mending import MessageMender
from simulacra_anthropic.message_rules import message_rules
from simulacra_anthropic.schema_mending import mend_schemas
from simulacra_anthropic.schema_rules import schema_rules

_mend_messages = MessageMender()

RULES = RuleTable(
    vendor="anthropic",
    draft=partial(draft_request, settings=Settings(model="any")),
    rules=(
        *message_rules(_mend_messages),
        *call_rules(_mend_messages),
        *field_rules(mend_fields),
        *schema_rules(mend_schemas),
    ),
)
"""Each provider has a copy of its own, `renewed`."""
