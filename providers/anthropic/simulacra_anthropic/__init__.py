"""Claude, over the Messages API, for Simulacra.

Importing this package imports neither the SDK nor an HTTP client; they come with the first provider.
"""

from simulacra_anthropic.caching import PromptCaching
from simulacra_anthropic.entry import plugin
from simulacra_anthropic.provider import AnthropicProvider

__all__ = ["AnthropicProvider", "PromptCaching", "plugin"]
