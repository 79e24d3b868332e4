"""Listeners: subscribing by class or name, emitting in order, isolating what fails, bubbling to ancestors.

An event nobody listens to costs one dictionary look-up: ask `wants` before building it.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar, Protocol, TypeVar

from simulacra.errors import ConfigurationError

logger = logging.getLogger("simulacra.events")


class Event:
    """Base of everything an emitter announces; subscribe to it to hear all."""

    __slots__ = ()
    name: ClassVar[str] = "event"


E = TypeVar("E", bound=Event)
Listener = Callable[[Any], object]
Unsubscribe = Callable[[], None]


class Observable(Protocol):
    """What can be listened to."""

    def on(self, event: type[E] | str, listener: Callable[[E], object]) -> Unsubscribe: ...

    def off(self, event: type[Event] | str, listener: Listener) -> None: ...


class Emitter:
    """Delivers events to listeners, in subscription order, awaiting async ones.

    Args:
        events: Every event class this emitter announces.
        report: Told of a listener that raised: the error and the event's name.
        bubble: Makes the event that ancestors hear out of a descendant's event; `None` if nothing bubbles.
    """

    def __init__(
        self,
        events: tuple[type[Event], ...],
        *,
        report: Callable[[Exception, str], Awaitable[None]],
        bubble: Callable[[Event], Event] | None = None,
    ) -> None:
        self._classes: Mapping[str, type[Event]] = {event.name: event for event in events}
        self._report = report
        self._bubble = bubble
        self._listeners: list[tuple[type[Event], Listener]] = []
        self._by_class: dict[type[Event], tuple[Listener, ...]] = {}
        self._posted: list[tuple[Listener, Event]] = []
        self._closed = False
        self.parent: Emitter | None = None

    def on(self, event: type[E] | str, listener: Callable[[E], object]) -> Unsubscribe:
        """Subscribe.

        Args:
            event: An event class, `Event` for all of them, or a name.
            listener: A sync or async function of one argument, the event.

        Returns:
            A function that unsubscribes.

        Raises:
            ConfigurationError: No event of that name is announced here.
        """
        wanted = self._resolve(event)

        if self._closed:
            return lambda: None

        entry = (wanted, listener)
        self._listeners.append(entry)
        self._by_class.clear()

        return lambda: self._remove(entry)

    def once(self, event: type[E] | str, listener: Callable[[E], object]) -> Unsubscribe:
        """Subscribe to the next such event only."""

        def first(emitted: E) -> object:
            unsubscribe()

            return listener(emitted)

        unsubscribe = self.on(event, first)

        return unsubscribe

    def off(self, event: type[Event] | str, listener: Listener) -> None:
        """Unsubscribe; an unknown listener is ignored."""
        self._remove((self._resolve(event), listener))

    def wants(self, event: type[Event]) -> bool:
        """Whether anybody, here or among the ancestors, would hear such an event."""
        if self._heard_here(event):
            return True

        return self.parent is not None and self._bubble is not None and self.parent.hears_descendants()

    def hears_descendants(self) -> bool:
        """Whether anybody listens to descendants' events, here or further up."""
        child_event = self._classes.get("child_event")
        here = child_event is not None and bool(self._heard_here(child_event))

        return here or (self.parent is not None and self.parent.hears_descendants())

    async def emit(self, event: Event) -> None:
        """Deliver; returns when every listener has."""
        if self._posted:
            await self.flush()

        for listener in self._heard_here(type(event)):
            await self._call(listener, event)

        if self.parent is not None:
            await self.parent.emit_child(event)

    async def emit_child(self, event: Event) -> None:
        """Deliver a descendant's event as `child_event`, here and in every ancestor."""
        if self._bubble is None:
            return

        bubbled = self._bubble(event)

        for listener in self._heard_here(type(bubbled)):
            await self._call(listener, bubbled)

        if self.parent is not None:
            await self.parent.emit_child(event)

    def post(self, event: Event) -> None:
        """Deliver from a sync call: sync listeners now, async ones before the next event is emitted."""
        for listener in self._heard_here(type(event)):
            self._call_now(listener, event)

        if self.parent is not None:
            self.parent.post_child(event)

    def post_child(self, event: Event) -> None:
        """`emit_child`, from a sync call."""
        if self._bubble is None:
            return

        bubbled = self._bubble(event)

        for listener in self._heard_here(type(bubbled)):
            self._call_now(listener, bubbled)

        if self.parent is not None:
            self.parent.post_child(event)

    async def flush(self) -> None:
        """Call the async listeners of what was posted."""
        while self._posted:
            listener, event = self._posted.pop(0)
            await self._call(listener, event)

    def close(self) -> None:
        """Drop every listener; later subscriptions and emissions do nothing."""
        self._closed = True
        self._listeners.clear()
        self._by_class.clear()
        self._posted.clear()

    def _resolve(self, event: type[Event] | str) -> type[Event]:
        found = self._classes.get(event) if isinstance(event, str) else event

        if found is None or (found is not Event and self._classes.get(found.name) is not found):
            raise ConfigurationError(f"unknown event {event!r}; known events: {', '.join(sorted(self._classes))}")

        return found

    def _heard_here(self, event: type[Event]) -> tuple[Listener, ...]:
        heard = self._by_class.get(event)

        if heard is None:
            heard = tuple(listener for wanted, listener in self._listeners if wanted is event or wanted is Event)
            self._by_class[event] = heard

        return heard

    def _remove(self, entry: tuple[type[Event], Listener]) -> None:
        if entry in self._listeners:
            self._listeners.remove(entry)
            self._by_class.clear()

    async def _call(self, listener: Listener, event: Event) -> None:
        try:
            outcome = listener(event)

            if inspect.isawaitable(outcome):
                await outcome
        except Exception as error:  # noqa: BLE001 -- a listener never breaks what it listens to
            await self._failed(error, event)

    def _call_now(self, listener: Listener, event: Event) -> None:
        if inspect.iscoroutinefunction(listener):
            self._posted.append((listener, event))
            return

        try:
            outcome = listener(event)
        except Exception as error:  # noqa: BLE001 -- a listener never breaks what it listens to
            failure = error
            self._posted.append((lambda _: self._failed(failure, event), event))
        else:
            if inspect.isawaitable(outcome):
                self._posted.append((lambda _: outcome, event))

    async def _failed(self, error: Exception, event: Event) -> None:
        logger.error("event=<%s> | listener failed", event.name, exc_info=error)

        if event.name != "lifecycle_error":
            await self._report(error, event.name)
