"""Many images in one request: then each has to be small. An agent's screenshots would end its conversation otherwise.

Source: https://platform.claude.com/docs/en/build-with-claude/vision, and refusals of the API (anthropics/claude-code#49537).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from simulacra.errors import ConfigurationError
from simulacra.messages import Content, MediaContent
from simulacra.rules import Found, Wire
from simulacra.rules.reading import JsonMap, objects_in
from simulacra.wire import image_size_of
from simulacra_anthropic.media import longest_side, placeholder_of
from simulacra_anthropic.message_rules import PlacedBlock, blocks_in

FEW_IMAGES = 20
"""So many images may be of any size that the API takes."""
SMALL_SIDE = 2000
"""Most pixels of each one's side where there are more."""
DEMAND = f"of more than {FEW_IMAGES} images in a request, those in results included, none has over {SMALL_SIDE:,} pixels a side"
_REASON = f"with larger ones than {SMALL_SIDE:,} pixels a side a request takes {FEW_IMAGES} images"
Place = tuple[int, ...]
"""Of an image: its message, its block, and where that is a result, its part of the result."""


def large_of_many(wire: Wire) -> Iterator[Found]:
    """The images that are too large for a request of so many."""
    images = list(_images_in(blocks_in(wire)))

    for place, block in images if len(images) > FEW_IMAGES else ():
        if (side := longest_side(block)) > SMALL_SIDE:
            at, *inside = place
            path = ("messages", at, *(step for number in inside for step in ("content", number)), "source")
            yield Found(path, f"{side} pixels, with {len(images)} images")


def with_small_images(wire: Wire, blocks: Sequence[PlacedBlock]) -> Wire:
    """The request with as few images left out as will do: large ones first, old ones first, those of the prompt last.

    Args:
        wire: The request.
        blocks: What `blocks_in` finds in it.
    """
    images = list(_images_in(blocks))
    surplus = len(images) - FEW_IMAGES

    if surplus <= 0 or not (large := {place for place, block in images if longest_side(block) > SMALL_SIDE}):
        return wire

    turns = list(wire["messages"])
    prompt = len(turns) - 1
    # The prompt's own large ones can only stay when there are few altogether, so that small ones have to go, too.
    order = [place for place, _ in images if place in large and place[0] < prompt]
    order += (
        [place for place, _ in images if place not in large and place[0] < prompt] if len(order) < len(large) else []
    )
    order += [place for place, _ in images if place in large and place[0] == prompt]

    for at, *inside in order[:surplus]:
        turns[at] = _without(turns[at], inside)

    return {**wire, "messages": turns}


def check_images(prompt: Iterable[Content]) -> None:
    """Refuse a prompt that has too many large images in itself: only the user can say which.

    Raises:
        ConfigurationError: It has.
    """
    images = [block for block in prompt if isinstance(block, MediaContent) and block.kind == "image"]
    sides = [max(image_size_of(image.data or b"") or (0,)) for image in images] if len(images) > FEW_IMAGES else []

    if any(side > SMALL_SIDE for side in sides):
        raise ConfigurationError(
            f"the prompt's images cannot be sent to anthropic: {len(images)} of them, one with {max(sides)} pixels a side;"
            f" {_REASON}. Send fewer, or smaller ones"
        )


def _images_in(blocks: Iterable[PlacedBlock]) -> Iterator[tuple[Place, JsonMap]]:
    for at, _, place, block in blocks:
        if block.get("type") == "image":
            yield (at, place), block
        elif block.get("type") == "tool_result":
            parts = objects_in(block.get("content"))
            yield from (((at, place, inner), part) for inner, part in parts if part.get("type") == "image")


def _without(holder: JsonMap, inside: Sequence[int]) -> JsonMap:
    """A message, or a result, with a text in place of one of its images."""
    place, *deeper = inside
    content = list(holder["content"])
    content[place] = _without(content[place], deeper) if deeper else placeholder_of(content[place], _REASON)

    return {**holder, "content": content}
