from __future__ import annotations

import pytest

from simulacra.transformers import TransformContext


@pytest.fixture
def context() -> TransformContext:
    return TransformContext(conversation_id="c")
