"""What differs between services that speak chat completions, as data."""

from __future__ import annotations

from dataclasses import dataclass, replace

FIREWORKS_KEY = "FIREWORKS_API_KEY"
CLOUDFLARE_KEY = "CLOUDFLARE_API_KEY"
AZURE_KEY = "AZURE_OPENAI_API_KEY"
FIREWORKS_BASE_URL = "https://api.fireworks.ai/inference/v1"
OLLAMA_BASE_URL = "http://127.0.0.1:11434/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """One kind of service.

    Args:
        kind: The service's word: of its raw parts, its refusals and in errors.
        base_url: Where it is, the version included; `None` when only the user knows.
        key: Environment variable that holds its key; `None` when it asks for none.
        remedy: How to get what is missing, as one sentence or command.
        limit_field: What the service calls the most tokens a reply may have.
        strict_flag: Whether a tool or an output schema carries `strict`.
        nullable_optionals: Whether optional parameters of a tool are nullable there all the same (FW-2).
        system_role: Role of the system prompt; `None` decides by the model's name.
        is_closed: Whether fields and parts that OpenAI does not document are refused, and its limits hold.
        takes_null: Whether an assistant message with tool calls and no text may say so by `null`.
        thinking_fields: Fields of a delta that carry reasoning; the first that says something counts.
        replayed_thinking: The field in which the model's own reasoning goes back, if the service wants it back.
        media_types: Media types a prompt may hold; `None` when unknown.
        response_headers: Headers of an answer that are told with it, such as a gateway's.
    """

    kind: str = "openai"
    base_url: str | None = None
    key: str | None = None
    remedy: str = ""
    limit_field: str = "max_completion_tokens"
    strict_flag: bool = True
    nullable_optionals: bool = False
    system_role: str | None = None
    is_closed: bool = False
    takes_null: bool = True
    thinking_fields: tuple[str, ...] = ("reasoning_content", "reasoning")
    replayed_thinking: str | None = None
    media_types: frozenset[str] | None = None
    response_headers: tuple[str, ...] = ()

    @property
    def refusal_mark(self) -> str:
        """Under this key of `extended` a text says that it is a refusal."""
        return f"{self.kind}_refusal"

    @property
    def raw_kinds(self) -> frozenset[str]:
        """Kinds of raw parts that go back: its own, and OpenAI's, whose wire it speaks."""
        return frozenset({self.kind, "openai"})


OPENAI = Preset(
    is_closed=True,
    media_types=frozenset(
        {
            "image/png",
            "image/jpeg",
            "image/gif",
            "image/webp",
            "audio/wav",
            "audio/mpeg",
            "application/pdf",
        }
    ),
)
COMPATIBLE = Preset(limit_field="max_tokens", strict_flag=False, system_role="system")
FIREWORKS = Preset(
    kind="fireworksai",
    base_url=FIREWORKS_BASE_URL,
    key=FIREWORKS_KEY,
    remedy="Get a key at https://fireworks.ai/account/api-keys, then: export FIREWORKS_API_KEY=fw_...",
    limit_field="max_tokens",
    strict_flag=False,
    nullable_optionals=True,
    system_role="system",
)
CLOUDFLARE = Preset(
    kind="cloudflare",
    key=CLOUDFLARE_KEY,
    remedy="Take the key of the service behind the gateway, then: export CLOUDFLARE_API_KEY=...",
    limit_field="max_tokens",
    strict_flag=False,
    nullable_optionals=True,
    system_role="system",
    response_headers=("cf-aig-cache-status", "cf-aig-log-id"),
)
OLLAMA = Preset(
    kind="ollama",
    base_url=OLLAMA_BASE_URL,
    limit_field="max_tokens",
    strict_flag=False,
    system_role="system",
    takes_null=False,
)
AZURE = replace(
    OPENAI,
    kind="azure",
    key=AZURE_KEY,
    remedy="Take a key from the resource's page in the Azure portal, then: export AZURE_OPENAI_API_KEY=...",
)
