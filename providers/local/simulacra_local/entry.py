"""What the registry loads for `"local:model"`."""

from __future__ import annotations

from simulacra_openai import rules_for

from simulacra.provider import ProviderPlugin
from simulacra_local.connection import LOCAL
from simulacra_local.model import SMOLLM2
from simulacra_local.provider import LocalProvider
from simulacra_local.server import INSTALL_RUNTIME

plugin = ProviderPlugin(
    kind=LocalProvider.kind,
    create=LocalProvider,
    remedy=f"{INSTALL_RUNTIME} && {SMOLLM2.install}",
    default_model=SMOLLM2.name,
    rules=rules_for(LOCAL),
)
