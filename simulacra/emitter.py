"""Listeners: subscribing by class or name, emitting in order, isolating what fails, bubbling to ancestors.

An event nobody listens to costs one dictionary look-up: ask `wants` before building it.
"""

from __future__ import annotations

import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar, TypeVar

from simulacra.errors import ConfigurationError

logger = logging.getLogger("simulacra.events")


class Event:
    """Base of everything an emitter announces; subscribe to it to hear all."""

    __slots__ = ()
    name: ClassVar[str] = "event"
    is_owed: ClassVar[bool] = True
    """Whether those behind a listener that was cancelled hear it all the same."""


E = TypeVar("E", bound=Event)
Listener = Callable[[Any], object]
Unsubscribe = Callable[[], None]


class _Subscription:
    """One listener of one event. Each is its own, also when the same listener was subscribed twice."""

    __slots__ = ("event", "is_spent", "listener", "once")

    def __init__(self, event: type[Event], listener: Listener, *, once: bool) -> None:
        self.event = event
        self.listener = listener
        self.once = once
        self.is_spent = False


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
        self._subscriptions: list[_Subscription] = []
        self._by_class: dict[type[Event], tuple[_Subscription, ...]] = {}
        self._posted: deque[tuple[Event, Callable[[], object]]] = deque()
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
        return self._subscribe(event, listener, once=False)

    def once(self, event: type[E] | str, listener: Callable[[E], object]) -> Unsubscribe:
        """Subscribe to the next such event only."""
        return self._subscribe(event, listener, once=True)

    def off(self, event: type[Event] | str, listener: Listener) -> None:
        """Unsubscribe; an unknown listener is ignored."""
        if self._closed:
            return

        wanted = self._resolve(event)

        for subscription in self._subscriptions:
            if subscription.event is wanted and subscription.listener == listener:
                self._remove(subscription)
                return

    def wants(self, event: type[Event]) -> bool:
        """Whether anybody, here or among the ancestors, would hear such an event."""
        if self._heard_here(event):
            return True

        bubbles = self._bubble is not None and not self._closed

        return bubbles and self.parent is not None and self.parent.hears_descendants()

    def hears_descendants(self) -> bool:
        """Whether anybody listens to descendants' events, here or further up."""
        return self._hears_children() or (self.parent is not None and self.parent.hears_descendants())

    async def emit(self, event: Event) -> None:
        """Deliver; returns when every listener has."""
        if self._posted:
            await self.flush()

        if self.parent is not None or self._heard_here(type(event)):
            await self._deliver(event, event)

    async def emit_child(self, event: Event) -> None:
        """Deliver a descendant's event as `child_event`, here and in every ancestor."""
        if self._bubble is None or self._closed:
            return

        if self._posted:
            await self.flush()

        if self._hears_children():
            await self._deliver(self._bubble(event), event)
        elif self.parent is not None:
            await self.parent.emit_child(event)

    def post(self, event: Event) -> None:
        """Deliver from a sync call: sync listeners now, async ones before the next event is emitted."""
        for subscription in self._heard_here(type(event)):
            self._call_now(subscription, event)

        if self.parent is not None and not self._closed:
            self.parent.post_child(event)

    def post_child(self, event: Event) -> None:
        """`emit_child`, from a sync call."""
        if self._bubble is None or self._closed:
            return

        if self._hears_children():
            bubbled = self._bubble(event)

            for subscription in self._heard_here(type(bubbled)):
                self._call_now(subscription, bubbled)

        if self.parent is not None:
            self.parent.post_child(event)

    async def flush(self) -> None:
        """Call the async listeners of what was posted, here and in every ancestor."""
        while self._posted:
            event, call = self._posted.popleft()

            try:
                await _settle(call())
            except Exception as error:  # noqa: BLE001 -- a listener never breaks what it listens to
                await self._failed(error, event)

        if self.parent is not None:
            await self.parent.flush()

    async def _deliver(self, told: Event, event: Event) -> None:
        """Tell the listeners here, then the ancestors.

        Args:
            told: What listeners here get.
            event: What happened.
        """
        waiting = iter(self._heard_here(type(told)))

        try:
            for subscription in waiting:
                await self._call(subscription, told)
        except BaseException:
            if event.is_owed:
                for subscription in waiting:
                    self._call_now(subscription, told)

                if self.parent is not None and not self._closed:
                    self.parent.post_child(event)

            raise

        if self.parent is not None and not self._closed:
            await self.parent.emit_child(event)

    def close(self) -> None:
        """Drop every listener; later subscriptions and emissions do nothing."""
        self._closed = True
        self._subscriptions.clear()
        self._by_class.clear()
        self._posted.clear()

    def _subscribe(self, event: type[Event] | str, listener: Listener, *, once: bool) -> Unsubscribe:
        if self._closed:
            return lambda: None

        subscription = _Subscription(self._resolve(event), listener, once=once)
        self._subscriptions.append(subscription)
        self._by_class.clear()

        return lambda: self._remove(subscription)

    def _resolve(self, event: type[Event] | str) -> type[Event]:
        if event is Event:
            return Event

        name = event if isinstance(event, str) else getattr(event, "name", None)
        found = self._classes.get(name) if isinstance(name, str) else None

        if found is None or (found is not event and not isinstance(event, str)):
            raise ConfigurationError(f"unknown event {event!r}; known events: {', '.join(sorted(self._classes))}")

        return found

    def _heard_here(self, event: type[Event]) -> tuple[_Subscription, ...]:
        heard = self._by_class.get(event)

        if heard is None:
            heard = tuple(one for one in self._subscriptions if one.event is event or one.event is Event)
            self._by_class[event] = heard

        return heard

    def _hears_children(self) -> bool:
        child_event = self._classes.get("child_event")

        return child_event is not None and bool(self._heard_here(child_event))

    def _remove(self, subscription: _Subscription) -> None:
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)
            self._by_class.clear()

    def _take(self, subscription: _Subscription) -> bool:
        """Whether the listener is to be called; one for a single event takes itself off first."""
        if subscription.once:
            if subscription.is_spent:
                return False

            subscription.is_spent = True
            self._remove(subscription)

        return True

    async def _call(self, subscription: _Subscription, event: Event) -> None:
        if not self._take(subscription):
            return

        try:
            outcome = subscription.listener(event)

            if outcome is not None:
                await _settle(outcome)
        except Exception as error:  # noqa: BLE001 -- a listener never breaks what it listens to
            await self._failed(error, event)

    def _call_now(self, subscription: _Subscription, event: Event) -> None:
        if not self._take(subscription):
            return

        if inspect.iscoroutinefunction(subscription.listener):
            self._posted.append((event, lambda: subscription.listener(event)))
            return

        try:
            outcome = subscription.listener(event)
        except Exception as error:  # noqa: BLE001 -- a listener never breaks what it listens to
            failure = error
            _log(failure, event)
            self._posted.append((event, lambda: self._report_failure(failure, event)))
        else:
            if inspect.isawaitable(outcome):
                self._posted.append((event, lambda: outcome))

    async def _failed(self, error: Exception, event: Event) -> None:
        _log(error, event)
        await self._report_failure(error, event)

    async def _report_failure(self, error: Exception, event: Event) -> None:
        if event.name != "lifecycle_error":
            await self._report(error, event.name)


def _log(error: Exception, event: Event) -> None:
    logger.error("event=<%s> | listener failed", event.name, exc_info=error)


async def _settle(outcome: object) -> None:
    if inspect.isawaitable(outcome):
        await outcome


class Observable:
    """What can be listened to. On a disposed object all of this does nothing."""

    _emitter: Emitter

    def on(self, event: type[E] | str, listener: Callable[[E], object]) -> Unsubscribe:
        """Subscribe a sync or async listener to an event class, to `Event` for all, or by name.

        Returns:
            A function that unsubscribes.

        Raises:
            ConfigurationError: No event of that name exists.
        """
        return self._emitter.on(event, listener)

    def once(self, event: type[E] | str, listener: Callable[[E], object]) -> Unsubscribe:
        """Subscribe to the next such event only."""
        return self._emitter.once(event, listener)

    def off(self, event: type[Event] | str, listener: Listener) -> None:
        """Unsubscribe; an unknown listener is ignored."""
        self._emitter.off(event, listener)
