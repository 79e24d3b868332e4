"""Words for what a block carries so that it goes back as it came."""

from __future__ import annotations

KIND = "openai_responses"
"""The provider's kind, also the key of a block's `extended` that holds what this API said of it."""
ITEM = "item"
"""The item that a block was, or was a part of; of a message without its content."""
PART = "part"
"""The part of a message that a text was, without its text."""
FOREIGN = "foreign"
"""Type of an item or part that this API does not know: what it is stands in `block`, what stands for it in `text`."""
