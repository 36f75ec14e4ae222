"""Monkey patches by model type: applied, repeated, filtered, undone."""

from __future__ import annotations

import logging
import sys
import types
from collections.abc import Callable
from typing import Any

import pytest

from patchgen_core.errors import PatchgenError
from patchgen_core.monkey_patch import MonkeyPatcher
from tests.runtime.patchers import contents, patch_all


def test_apply_and_revert_modules(patcher: MonkeyPatcher, upstream: Callable[[], types.ModuleType]) -> None:
    module = upstream()
    before = contents(module)
    patcher.register("toy", "mine")(lambda: patch_all(module))

    applied = patcher.apply_monkey_patch("toy", "mine")
    assert module.Norm().forward(2) == 21
    assert module.Norm.scale() == 2
    assert (applied.model_type, applied.patch_type, applied.repeated) == ("toy", "mine", False)
    names = ["rotate", "added", "Norm.forward", "Norm.scale", "Norm.extra"]
    assert set(applied.changed) == {f"toy_upstream.{name}" for name in names}

    assert set(patcher.revert("toy", "mine")) == set(applied.changed)
    assert contents(module) == before
    assert module.Norm().forward(2) == -2


@pytest.mark.slow
def test_what_the_patcher_itself_imports_is_put_back(
    patcher: MonkeyPatcher, upstream: Callable[[], types.ModuleType]
) -> None:
    patcher.register("toy", "mine")(lambda: patch_all(upstream()))
    patcher.apply_monkey_patch("toy", "mine")
    module = sys.modules["toy_upstream"]
    assert module.Norm().forward(2) == 21
    patcher.revert("toy", "mine")
    assert module.Norm().forward(2) == -2
    assert not hasattr(module, "added")


@pytest.mark.slow
def test_plain_values_count_in_the_packages_of_upstream_and_patcher(
    patcher: MonkeyPatcher, upstream: Callable[[], types.ModuleType]
) -> None:
    module = upstream()

    def patch() -> None:
        module.LIMIT, module.TABLE["eager"], module.TABLE["fast"] = 7, "ours", "ours"  # type: ignore[attr-defined]

    patch.__module__ = "toy_upstream"
    patcher.register("toy", "mine")(patch)
    applied = patcher.apply_monkey_patch("toy", "mine")
    assert applied.changed == ("toy_upstream.LIMIT", "toy_upstream.TABLE.eager", "toy_upstream.TABLE.fast")
    patcher.revert("toy", "mine")
    assert (module.LIMIT, module.TABLE) == (3, {"eager": "theirs"})


def test_same_arguments_again_do_nothing(patcher: MonkeyPatcher, upstream: Callable[[], types.ModuleType]) -> None:
    module = upstream()

    @patcher.register("toy", "mine")
    def wrap(factor: int = 2) -> None:
        inner = module.rotate
        module.rotate = lambda x: inner(x) * factor  # type: ignore[attr-defined]

    patcher.apply_monkey_patch("toy", "mine", factor=3)
    again = patcher.apply_monkey_patch("toy", "mine", factor=3)
    assert (again.repeated, again.changed) == (True, ())
    assert module.rotate(1) == -3


@pytest.mark.slow
def test_other_arguments_take_the_place_of_the_first(
    patcher: MonkeyPatcher, upstream: Callable[[], types.ModuleType], caplog: pytest.LogCaptureFixture
) -> None:
    module = upstream()
    original = module.rotate

    @patcher.register("toy", "mine")
    def wrap(factor: int = 2) -> None:
        inner = module.rotate
        module.rotate = lambda x: inner(x) * factor  # type: ignore[attr-defined]

    patcher.apply_monkey_patch("toy", "mine", factor=3)
    patcher.apply_monkey_patch("toy", "mine", factor=5)
    assert module.rotate(1) == -5
    assert "the 'mine' patch of 'toy' is applied with other arguments: reverted" in caplog.text
    patcher.revert("toy", "mine")
    assert module.rotate is original


def test_arguments_are_filtered_by_the_signature(patcher: MonkeyPatcher, caplog: pytest.LogCaptureFixture) -> None:
    got: list[dict[str, Any]] = []
    patcher.register("toy", "some")(lambda rope=True, *, norm=True: got.append({"rope": rope, "norm": norm}))
    patcher.register("toy", "all")(lambda **kwargs: got.append(kwargs))
    with caplog.at_level(logging.INFO):
        applied = patcher.apply_monkey_patch("toy", "some", rope=False, use_rmpad=True)
    assert applied.ignored == ("use_rmpad",)
    assert "takes no use_rmpad: ignored" in caplog.text
    assert patcher.apply_monkey_patch("toy", "all", rope=False, use_rmpad=True).ignored == ()
    assert got == [{"rope": False, "norm": True}, {"rope": False, "use_rmpad": True}]


@pytest.mark.slow
def test_registering_again_overwrites_and_warns(patcher: MonkeyPatcher, caplog: pytest.LogCaptureFixture) -> None:
    ran: list[str] = []

    def first() -> None:
        ran.append("first")

    def second() -> None:
        ran.append("second")

    assert patcher.register("toy", "mine")(first) is first
    patcher.register("toy", "mine")(first)
    assert not caplog.records
    patcher.register("toy", "mine")(second)
    assert "second replaces" in caplog.text
    patcher.apply_monkey_patch("toy", "mine")
    assert ran == ["second"]


@pytest.mark.parametrize("failure", [ValueError("no kernel"), KeyboardInterrupt()])
@pytest.mark.mostly_slow(1)
def test_a_patcher_that_fails_half_way_is_undone(
    patcher: MonkeyPatcher, upstream: Callable[[], types.ModuleType], failure: BaseException
) -> None:
    module = upstream()
    before = contents(module)

    @patcher.register("toy", "mine")
    def fail() -> None:
        patch_all(module)
        raise failure

    expected = KeyboardInterrupt if isinstance(failure, KeyboardInterrupt) else PatchgenError
    with pytest.raises(expected) as caught:
        patcher.apply_monkey_patch("toy", "mine")
    if expected is PatchgenError:
        assert "the 'mine' patch of 'toy' failed: ValueError: no kernel" in str(caught.value)
        assert caught.value.__cause__ is failure
    assert contents(module) == before
    with pytest.raises(PatchgenError, match="is not applied to 'toy'"):
        patcher.revert("toy", "mine")


@pytest.mark.slow
def test_patches_on_top_of_each_other_are_reverted_from_the_top(
    patcher: MonkeyPatcher, upstream: Callable[[], types.ModuleType]
) -> None:
    module = upstream()
    original = module.rotate
    for name in ("lower", "upper"):

        def wrap(inner: Any = None) -> None:
            inner = module.rotate
            module.rotate = lambda x: inner(x) * 2  # type: ignore[attr-defined]

        patcher.register("toy", name)(wrap)
        patcher.apply_monkey_patch("toy", name)
    with pytest.raises(PatchgenError, match="rotate was changed again since"):
        patcher.revert("toy", "lower")
    assert module.rotate(1) == -4
    patcher.revert("toy", "upper")
    patcher.revert("toy", "lower")
    assert module.rotate is original


@pytest.mark.slow
def test_force_puts_back_what_was_changed_again(
    patcher: MonkeyPatcher, upstream: Callable[[], types.ModuleType]
) -> None:
    module = upstream()
    before = contents(module)
    patcher.register("toy", "mine")(lambda: patch_all(module))
    patcher.apply_monkey_patch("toy", "mine")
    module.rotate = abs  # type: ignore[attr-defined]
    patcher.revert("toy", "mine", force=True)
    assert contents(module) == before
