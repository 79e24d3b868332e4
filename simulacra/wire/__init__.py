"""What providers over HTTP share: event streams, one client per event loop, time limits, failures, media types.

Public for custom providers. Nothing here imports an SDK or an HTTP client; plugins hand theirs in.
"""

from simulacra.wire.clients import ClientPerLoop
from simulacra.wire.encoded import EncodedOnce
from simulacra.wire.failures import is_lost, reason_of, transport_error, typed_errors, unreachable
from simulacra.wire.growing_json import GrowingJson
from simulacra.wire.image_size import image_size_of
from simulacra.wire.loop_end import at_loop_end
from simulacra.wire.media import image_type_of, normal_media_type, placeholder_text
from simulacra.wire.per_loop import SendsPerLoop, is_trio
from simulacra.wire.reading import close_response, read_chunks, read_count, read_whole
from simulacra.wire.sdk_options import check_extra, default_timeout, merge_extra, split_params
from simulacra.wire.sse import EventSplitter, ServerEvent, read_event
from simulacra.wire.strict_json import strict_json

__all__ = [
    "ClientPerLoop",
    "EncodedOnce",
    "EventSplitter",
    "GrowingJson",
    "SendsPerLoop",
    "ServerEvent",
    "at_loop_end",
    "check_extra",
    "close_response",
    "default_timeout",
    "image_size_of",
    "image_type_of",
    "is_lost",
    "is_trio",
    "merge_extra",
    "normal_media_type",
    "placeholder_text",
    "read_chunks",
    "read_count",
    "read_event",
    "read_whole",
    "reason_of",
    "split_params",
    "strict_json",
    "transport_error",
    "typed_errors",
    "unreachable",
]
