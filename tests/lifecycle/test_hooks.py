"""Hook dispatch: modes, order, containment, and what is refused before anything changes (contracts §10.4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import anyio
import pytest

from acp_bridge.errors import PluginRejected
from acp_bridge.lifecycle.hooks import Hooks, Next, hookimpl
from tests.lifecycle import specs

pytestmark = pytest.mark.anyio


class Listener:
    """Answers every hook; what it does is set by the test."""

    def __init__(
        self,
        name: str,
        journal: list[str],
        *,
        answer: str | None = None,
        fails: Exception | None = None,
        on_call: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = name
        self._journal = journal
        self._answer = answer
        self._fails = fails
        self._on_call = on_call

    def _called(self, word: str) -> None:
        self._journal.append(f"{self.name} {word}")
        self._on_call()
        if self._fails is not None:
            raise self._fails

    @hookimpl
    def heard(self, word: str) -> None:
        self._called(word)

    @hookimpl
    def forbidden(self, word: str) -> str | None:
        self._called(word)
        return self._answer

    @hookimpl
    async def told(self, word: str) -> None:
        self._called(word)

    @hookimpl
    async def asked(self, word: str) -> str | None:
        self._called(word)
        return self._answer

    @hookimpl
    async def wrapped(self, word: str, next: Next[str]) -> str:
        self._called(word)
        return self._answer or f"{self.name}({await next()})"


class Failures(list[tuple[str, str]]):
    def note(self, hook: str, error: BaseException) -> None:
        self.append((hook, str(error)))


@pytest.fixture
def failures() -> Failures:
    return Failures()


@pytest.fixture
def hooks(failures: Failures) -> Hooks:
    return Hooks(specs, failures.note)


@pytest.fixture
def journal() -> list[str]:
    return []


@contextmanager
def registered(hooks: Hooks, *listeners: Listener) -> Iterator[None]:
    with ExitStack() as stack:
        for listener in listeners:
            stack.enter_context(hooks.registered(listener.name, listener))
        yield


async def default() -> str:
    return "default"


async def test_emit_calls_in_order_of_registration_and_contains_what_fails(
    hooks: Hooks, journal: list[str], failures: Failures
) -> None:
    broken = Listener("b", journal, fails=ValueError("broken"))
    with registered(hooks, Listener("a", journal), broken, Listener("c", journal)):
        hooks.emit(specs.heard, "x")
    assert journal == ["a x", "b x", "c x"]
    assert failures == [("heard", "broken")]


async def test_parallel_starts_all_and_raises_the_failures_together(hooks: Hooks, journal: list[str]) -> None:
    one, two = OSError("one"), OSError("two")
    listeners = [Listener("a", journal, fails=one), Listener("b", journal), Listener("c", journal, fails=two)]
    with registered(hooks, *listeners), pytest.raises(ExceptionGroup) as caught:
        await hooks.parallel(specs.told, "x")
    assert journal == ["a x", "b x", "c x"]
    assert caught.value.exceptions == (one, two)


async def test_parallel_listeners_overlap(hooks: Hooks) -> None:
    class Meets:
        def __init__(self, mine: anyio.Event, theirs: anyio.Event) -> None:
            self.mine, self.theirs = mine, theirs

        @hookimpl
        async def told(self, word: str) -> None:
            self.mine.set()
            await self.theirs.wait()

    first, second = anyio.Event(), anyio.Event()
    with hooks.registered("a", Meets(first, second)), hooks.registered("b", Meets(second, first)):
        with anyio.fail_after(5):
            assert await hooks.parallel(specs.told, "x") == 2


@pytest.mark.parametrize("count", [1, 2])
async def test_a_single_failure_of_parallel_is_raised_as_it_is(hooks: Hooks, journal: list[str], count: int) -> None:
    listeners = [Listener("a", journal, fails=OSError("full")), Listener("b", journal)][:count]
    with registered(hooks, *listeners), pytest.raises(OSError, match="full"):
        await hooks.parallel(specs.told, "x")


async def test_parallel_tells_how_many_listened(hooks: Hooks, journal: list[str]) -> None:
    assert await hooks.parallel(specs.told, "x") == 0
    with registered(hooks, Listener("a", journal)):
        assert await hooks.parallel(specs.told, "x") == 1


async def test_serial_stops_at_the_first_answer(hooks: Hooks, journal: list[str]) -> None:
    listeners = [Listener("a", journal), Listener("b", journal, answer="yes"), Listener("c", journal, answer="no")]
    with registered(hooks, *listeners):
        assert await hooks.serial(specs.asked, "x") == "yes"
    assert journal == ["a x", "b x"]
    assert await hooks.serial(specs.asked, "x") is None


def test_bail_stops_at_the_first_answer_at_once(hooks: Hooks, journal: list[str]) -> None:
    listeners = [Listener("a", journal), Listener("b", journal, answer="no"), Listener("c", journal, answer="never")]
    with registered(hooks, *listeners):
        assert hooks.bail(specs.forbidden, "x") == "no"
    assert journal == ["a x", "b x"]
    assert hooks.bail(specs.forbidden, "x") is None


def test_what_a_bail_listener_raises_reaches_the_caller(hooks: Hooks, journal: list[str]) -> None:
    broken = Listener("b", journal, fails=OSError("full"))
    with registered(hooks, Listener("a", journal), broken), pytest.raises(OSError, match="full"):
        hooks.bail(specs.forbidden, "x")


async def test_a_waterfall_is_an_onion_with_the_first_registered_outermost(hooks: Hooks, journal: list[str]) -> None:
    with registered(hooks, Listener("a", journal), Listener("b", journal)):
        assert await hooks.waterfall(specs.wrapped, "x", default) == "a(b(default))"
    assert await hooks.waterfall(specs.wrapped, "x", default) == "default"


async def test_a_waterfall_listener_that_does_not_delegate_replaces_everything_inside(
    hooks: Hooks, journal: list[str]
) -> None:
    with registered(hooks, Listener("a", journal, answer="mine"), Listener("b", journal)):
        assert await hooks.waterfall(specs.wrapped, "x", default) == "mine"
    assert journal == ["a x"]


async def test_what_a_waterfall_listener_raises_reaches_the_caller(hooks: Hooks, journal: list[str]) -> None:
    broken = Listener("b", journal, fails=OSError("full"))
    with registered(hooks, Listener("a", journal), broken), pytest.raises(OSError, match="full"):
        await hooks.waterfall(specs.wrapped, "x", default)


async def test_a_listener_registered_during_a_call_hears_the_next_one(hooks: Hooks, journal: list[str]) -> None:
    """Dispatch works on the list as of the call: plugins may mount plugins."""
    with ExitStack() as stack:
        late = Listener("late", journal)
        once = iter([lambda: stack.enter_context(hooks.registered("late", late))])
        stack.enter_context(hooks.registered("a", Listener("a", journal, on_call=lambda: next(once, lambda: None)())))
        hooks.emit(specs.heard, "1")
        hooks.emit(specs.heard, "2")
    assert journal == ["a 1", "a 2", "late 2"]


async def test_a_listener_removed_during_a_waterfall_still_takes_part_in_it_and_in_no_later_one(
    hooks: Hooks, journal: list[str]
) -> None:
    with ExitStack() as stack:
        inner = ExitStack()
        stack.enter_context(hooks.registered("a", Listener("a", journal, on_call=inner.close)))
        inner.enter_context(hooks.registered("b", Listener("b", journal)))
        assert await hooks.waterfall(specs.wrapped, "x", default) == "a(b(default))"
        assert await hooks.waterfall(specs.wrapped, "x", default) == "a(default)"


async def test_removal_leaves_no_trace(hooks: Hooks, journal: list[str]) -> None:
    with registered(hooks, Listener("a", journal)):
        assert hooks.listening(specs.heard)
    assert not hooks.listening(specs.heard)
    hooks.emit(specs.heard, "x")
    assert journal == []
    with registered(hooks, Listener("a", journal)):
        hooks.emit(specs.heard, "again")
    assert journal == ["a again"]


class Unknown:
    @hookimpl
    def unheard_of(self, word: str) -> None: ...


class WrongArgument:
    @hookimpl
    def heard(self, wort: str) -> None: ...


class MissingArgument:
    @hookimpl
    async def wrapped(self, word: str) -> str:
        return word


class TryFirst:
    @hookimpl(tryfirst=True)
    def heard(self, word: str) -> None: ...


class TryLast:
    @hookimpl(trylast=True)
    def heard(self, word: str) -> None: ...


class Wrapper:
    @hookimpl(wrapper=True)
    def heard(self, word: str) -> Iterator[None]:
        yield


class NeverAwaited:
    @hookimpl
    async def heard(self, word: str) -> None: ...


class NotAwaitable:
    @hookimpl
    def asked(self, word: str) -> str | None: ...


@pytest.mark.parametrize(
    ("plugin", "hook", "reason"),
    [
        (Unknown(), "unheard_of", "there is no hook of that name"),
        (WrongArgument(), "heard", r"its arguments must be \(word\)"),
        (MissingArgument(), "wrapped", r"its arguments must be \(word, next\)"),
        (TryFirst(), "heard", "order is the composition's table"),
        (TryLast(), "heard", "order is the composition's table"),
        (Wrapper(), "heard", "order is the composition's table"),
        (NeverAwaited(), "heard", "it must be a plain function"),
        (NotAwaitable(), "asked", "it must be a coroutine function"),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_a_plugin_that_does_not_fit_is_rejected_by_name_hook_and_reason_and_nothing_changes(
    hooks: Hooks, plugin: object, hook: str, reason: str
) -> None:
    with pytest.raises(PluginRejected, match=reason) as caught, hooks.registered("misfit", plugin):
        pytest.fail("it was registered")
    assert (caught.value.plugin, caught.value.what) == ("misfit", f"hook {hook}")
    assert not hooks.listening(specs.heard)


async def test_a_name_can_be_taken_once_only(hooks: Hooks, journal: list[str]) -> None:
    with registered(hooks, Listener("a", journal)):
        twin = hooks.registered("a", Listener("a", journal))
        with pytest.raises(PluginRejected, match="mounted already"), twin:
            pytest.fail("it was registered")
        hooks.emit(specs.heard, "x")
    assert journal == ["a x"]
