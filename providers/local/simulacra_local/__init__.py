"""A language model embedded in the process tree: `Conversation("local:smollm2")`."""

from simulacra_local.entry import plugin
from simulacra_local.provider import LocalProvider
from simulacra_local.server import stop_servers

__all__ = ["LocalProvider", "plugin", "stop_servers"]
