"""Words for what a block carries so that it goes back as it came."""

from __future__ import annotations

KIND = "google"
"""The provider's kind, also the key of a block's `extended` that holds further fields of its part."""
SIGNATURE = "thought_signature"
"""The key of a block's `extended` under which a part's signature stands (GOO-2)."""
SIGNED_FOR = "thought_signature_model"
"""The key beside it that names the model that was asked: what answers under that name may be called otherwise."""
MADE_ID = "gem_"
"""How the ids of calls begin to which the vendor gave none; it is told none."""
CALL = "call"
"""Among the fields of a call's part: those of the call itself."""
THOUGHT = "thought"
"""Among the fields of a thought: it is one of Gemini's own."""
FOREIGN = "foreign"
"""Key of a part that this API does not know: what it is; what stands for it is its `text`."""
