"""A language model embedded in the process tree: `Conversation("local:smollm2")`."""

from simulacra.provider import ProviderPlugin
from simulacra_local.model import SMOLLM2
from simulacra_local.provider import LocalProvider
from simulacra_local.server import INSTALL_RUNTIME, stop_servers

plugin = ProviderPlugin(
    kind=LocalProvider.kind,
    create=LocalProvider,
    remedy=f"{INSTALL_RUNTIME} && {SMOLLM2.install}",
    default_model=SMOLLM2.name,
)

__all__ = ["LocalProvider", "plugin", "stop_servers"]
