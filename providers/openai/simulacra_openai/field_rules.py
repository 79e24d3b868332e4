"""Rules about the other fields of a request.

Source: OpenAI's API reference, chat/create; its guides to structured outputs, predicted outputs, audio and reasoning.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from simulacra.rules import Found, Rule, Wire
from simulacra.rules.reading import map_of, texts_in
from simulacra_openai.call_rules import FUNCTION_NAME
from simulacra_openai.common_rules import OUTPUT_FORMATS, is_number, metadata_fits, numbers_in_range
from simulacra_openai.presets import Preset
from simulacra_openai.strict import strict_fault
from simulacra_openai.wire_reading import messages_of

REASONING_MODEL = re.compile(r"(o\d|gpt-[5-9])(?!.*chat-latest)")
"""Models that know the limit of a reply only under its newer name."""
MAX_STOPS = 4
_LIMITS = ("max_tokens", "max_completion_tokens")
_RANGES = {
    "temperature": (0, 2),
    "top_p": (0, 1),
    "frequency_penalty": (-2, 2),
    "presence_penalty": (-2, 2),
    "top_logprobs": (0, 20),
    "n": (1, 128),
}
_NOT_PREDICTED = ("tools", "max_completion_tokens", "audio", "logprobs")


def field_rules(preset: Preset, mend: Callable[[Wire], Wire]) -> tuple[Rule, ...]:
    """The rules of a service.

    Args:
        preset: How it differs from OpenAI.
        mend: Puts a request's fields right.
    """
    return (*_common(mend), *_limits(mend), *_features()) if preset.is_closed else _common(mend)


def _common(mend: Callable[[Wire], Wire]) -> tuple[Rule, ...]:
    return (
        Rule(
            name="model-named",
            demand="a request names its model",
            fix="Give the provider a model",
            find=lambda wire: [] if isinstance(wire.get("model"), str) and wire["model"] else [Found(("model",))],
        ),
        Rule(
            name="limits-are-positive",
            demand="the most tokens of a reply are a whole number of at least 1",
            fix="Ask for more tokens",
            find=_strange_limits,
            code="integer_below_min_value",
        ),
        Rule(
            name="one-limit",
            demand="max_tokens and max_completion_tokens do not come together",
            fix="The one that the service prefers stays",
            find=lambda wire: [Found(("max_tokens",))] if all(wire.get(name) is not None for name in _LIMITS) else [],
            repair=mend,
        ),
        Rule(
            name="stream-options-need-a-stream",
            demand="stream_options are only allowed when stream is true",
            fix="They are left out",
            find=lambda wire: (
                [Found(("stream_options",))] if wire.get("stream_options") and not wire.get("stream") else []
            ),
            repair=mend,
        ),
        Rule(
            name="output-format-known",
            demand="response_format is text, json_object, or json_schema with a name",
            fix="Ask for the output with a schema",
            find=_strange_format,
            code="invalid_value",
        ),
        Rule(
            name="output-name-fits",
            demand="the name of an output schema matches [a-zA-Z0-9_-] and has 1 to 64 characters",
            fix="An underscore stands for every other character, and the rest is cut off",
            find=_strange_output_name,
            repair=mend,
            code="invalid_value",
        ),
    )


def _limits(mend: Callable[[Wire], Wire]) -> tuple[Rule, ...]:
    return (
        Rule(
            name="reasoning-models-know-the-newer-limit",
            demand="reasoning models take max_completion_tokens, not max_tokens",
            fix="The limit is given by its newer name",
            find=_old_limit,
            repair=mend,
            code="unsupported_parameter",
        ),
        numbers_in_range(_RANGES),
        Rule(
            name="stop-sequences-few",
            demand=f"stop is a text, or an array of 1 to {MAX_STOPS} texts",
            fix="Give fewer stop sequences",
            find=_strange_stops,
            code="invalid_value",
        ),
        metadata_fits(),
    )


def _features() -> tuple[Rule, ...]:
    return (
        Rule(
            name="top-logprobs-need-logprobs",
            demand="top_logprobs are only given when logprobs is true",
            fix="Set logprobs",
            find=lambda wire: (
                [Found(("top_logprobs",))] if wire.get("top_logprobs") and not wire.get("logprobs") else []
            ),
        ),
        Rule(
            name="strict-outputs-are-strict",
            demand="a strict output schema is of type object and meets the rules of structured outputs at every level",
            fix="Leave strict to the provider, or change the schema",
            find=_loose_output,
        ),
        Rule(
            name="json-mode-says-json",
            demand="with response_format json_object a message has the word JSON in it",
            fix="Say in the system prompt that the answer is to be JSON",
            find=_silent_json_mode,
        ),
        Rule(
            name="audio-output-described",
            demand="audio output needs modalities with audio, and audio with voice and format; pcm16 when it is streamed",
            fix="Give both options, and the format pcm16",
            find=_strange_audio,
            code="invalid_value",
        ),
        Rule(
            name="predictions-stand-alone",
            demand="a prediction does not come with tools, a limit, audio, log probabilities or penalties",
            fix="Leave one of them out",
            find=_hindered_prediction,
            code="unsupported_parameter",
        ),
    )


def _strange_limits(wire: Wire) -> Iterator[Found]:
    for name in _LIMITS:
        limit = wire.get(name)

        if limit is not None and not (is_number(limit) and isinstance(limit, int) and limit >= 1):
            yield Found((name,), repr(limit))


def _old_limit(wire: Wire) -> Iterator[Found]:
    model = wire.get("model")

    if wire.get("max_tokens") is not None and isinstance(model, str) and REASONING_MODEL.match(model):
        yield Found(("max_tokens",))


def _strange_stops(wire: Wire) -> Iterator[Found]:
    stops = wire.get("stop")
    given = [stops] if isinstance(stops, str) else stops

    if given is None:
        return

    if (
        not isinstance(given, list)
        or not 0 < len(given) <= MAX_STOPS
        or not all(isinstance(text, str) for text in given)
    ):
        yield Found(("stop",), f"{len(given)} of them" if isinstance(given, list) else repr(given))


def _strange_format(wire: Wire) -> Iterator[Found]:
    asked = wire.get("response_format")

    if asked is None:
        return

    kind = map_of(asked).get("type")

    if not isinstance(kind, str) or kind not in OUTPUT_FORMATS:
        yield Found(("response_format", "type"), repr(kind))
    elif kind == "json_schema" and not isinstance(map_of(asked.get("json_schema")).get("name"), str):
        yield Found(("response_format", "json_schema", "name"))


def _strange_output_name(wire: Wire) -> Iterator[Found]:
    name = map_of(map_of(wire.get("response_format")).get("json_schema")).get("name")

    if isinstance(name, str) and not FUNCTION_NAME.fullmatch(name):
        yield Found(("response_format", "json_schema", "name"), repr(name))


def _loose_output(wire: Wire) -> Iterator[Found]:
    schema = map_of(map_of(wire.get("response_format")).get("json_schema"))

    if schema.get("strict") is True and (fault := strict_fault(schema.get("schema"))):
        yield Found(("response_format", "json_schema", "schema"), fault)


def _silent_json_mode(wire: Wire) -> Iterator[Found]:
    if map_of(wire.get("response_format")).get("type") != "json_object":
        return

    if not any(
        "json" in text.lower() for _, message in messages_of(wire) for _, text in texts_in(message.get("content"))
    ):
        yield Found(("messages",))


def _strange_audio(wire: Wire) -> Iterator[Found]:
    modalities, audio = wire.get("modalities"), map_of(wire.get("audio"))
    is_asked = isinstance(modalities, list) and "audio" in modalities

    if is_asked != bool(audio):
        yield Found(("audio",) if is_asked else ("modalities",))
    elif is_asked and not (audio.get("voice") and audio.get("format")):
        yield Found(("audio",))
    elif is_asked and wire.get("stream") and audio["format"] != "pcm16":
        yield Found(("audio", "format"), repr(audio["format"]))


def _hindered_prediction(wire: Wire) -> Iterator[Found]:
    if wire.get("prediction") is None:
        return

    for name in _NOT_PREDICTED:
        if wire.get(name):
            yield Found((name,))

    for name in ("presence_penalty", "frequency_penalty"):
        if is_number(wire.get(name)) and wire[name] > 0:
            yield Found((name,))
