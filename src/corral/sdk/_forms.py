"""The two forms of every call: `agent.remote(prompt)` waits, `await agent.remote.aio(prompt)` is for asyncio code.

Each is written once, as a coroutine. `both` gives a method the two forms, and `stream` does the same for what yields
one item after the other: `for event in run.follow()` and `async for event in run.follow.aio()`.
"""

import asyncio
import functools
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import aclosing
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

import anyio

from . import _background

S = TypeVar("S")
P = ParamSpec("P")
R = TypeVar("R")


class Call(Generic[P, R]):
    """A function with two forms."""

    def __init__(self, work: Callable[P, Coroutine[Any, Any, R]]) -> None:
        self._work = work
        functools.update_wrapper(self, work)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return _background.run(functools.partial(self._work, *args, **kwargs))

    async def aio(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """The same for asyncio code: it does not block the caller's event loop."""
        return await asyncio.wrap_future(_background.start(functools.partial(self._work, *args, **kwargs)))


class Stream(Generic[P, R]):
    """A function with two forms that yields items. What it began ends when the iteration does."""

    def __init__(self, work: Callable[P, AsyncGenerator[R]]) -> None:
        self._work = work
        functools.update_wrapper(self, work)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Iterator[R]:
        return _items(self._work(*args, **kwargs))

    def aio(self, *args: P.args, **kwargs: P.kwargs) -> AsyncGenerator[R]:
        """The same for asyncio code. Leave it early with `contextlib.aclosing`."""
        return _async_items(self._work(*args, **kwargs))


class both(Generic[S, P, R]):
    """Gives a coroutine method its two forms."""

    def __init__(self, method: Callable[Concatenate[S, P], Coroutine[Any, Any, R]]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    @overload
    def __get__(self, instance: None, owner: type[S]) -> "both[S, P, R]": ...
    @overload
    def __get__(self, instance: S, owner: type[S]) -> Call[P, R]: ...
    def __get__(self, instance: S | None, owner: type[S]) -> "both[S, P, R] | Call[P, R]":
        if instance is None:
            return self
        return Call(MethodType(self._method, instance))


class stream(Generic[S, P, R]):
    """Gives an asynchronous generator method, or a method that returns such a generator, its two forms."""

    def __init__(self, method: Callable[Concatenate[S, P], AsyncGenerator[R]]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    @overload
    def __get__(self, instance: None, owner: type[S]) -> "stream[S, P, R]": ...
    @overload
    def __get__(self, instance: S, owner: type[S]) -> Stream[P, R]: ...
    def __get__(self, instance: S | None, owner: type[S]) -> "stream[S, P, R] | Stream[P, R]":
        if instance is None:
            return self
        return Stream(MethodType(self._method, instance))


class _End:
    """What comes after the last item."""


class _Pump(Generic[R]):
    """Iterates on the loop, always in one task, as what it iterates may hold scopes and connections open."""

    def __init__(self, source: AsyncGenerator[R]) -> None:
        self._source = source
        self._send, self._receive = anyio.create_memory_object_stream[R](0)
        self._scope = anyio.CancelScope()
        self._ended = anyio.Event()
        self._error: Exception | None = None

    @classmethod
    async def on_loop(cls, source: AsyncGenerator[R]) -> "_Pump[R]":
        return cls(source)

    async def work(self) -> None:
        try:
            with self._scope:
                async with self._send, aclosing(self._source):
                    async for item in self._source:
                        await self._send.send(item)
        except Exception as error:
            self._error = error
        finally:
            self._ended.set()

    async def next(self) -> R | _End:
        try:
            return await self._receive.receive()
        except anyio.EndOfStream:
            await self._ended.wait()
            if self._error is not None:
                raise self._error from None
            return _End()

    def over(self) -> bool:
        """Whether nothing is left to close on the loop, which may have ended itself."""
        if self._ended.is_set():
            self._receive.close()
        return self._ended.is_set()

    async def close(self) -> None:
        self._scope.cancel()
        self._receive.close()
        with anyio.CancelScope(shield=True):
            await self._ended.wait()


def _items(source: AsyncGenerator[R]) -> Iterator[R]:
    pump = _background.run(functools.partial(_Pump.on_loop, source))
    _background.start(pump.work)
    try:
        while not isinstance(item := _background.run(pump.next), _End):
            yield item
    finally:
        if not pump.over():
            _background.run(pump.close)


async def _async_items(source: AsyncGenerator[R]) -> AsyncGenerator[R]:
    pump = await asyncio.wrap_future(_background.start(functools.partial(_Pump.on_loop, source)))
    _background.start(pump.work)
    try:
        while not isinstance(item := await asyncio.wrap_future(_background.start(pump.next)), _End):
            yield item
    finally:
        if not pump.over():
            await asyncio.shield(asyncio.wrap_future(_background.start(pump.close)))
