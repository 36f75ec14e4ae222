"""PG201: what an override may change about its signature, and what it may not."""

from __future__ import annotations

import pytest

from tests.conftest import PREAMBLE, Workspace
from tests.contract.support import examine, found

UPSTREAM = """
from elsewhere import Outside


class Model(Outside):
    def forward(self, x, mask=None, *, scale=1, **kwargs):
        return x

    def strict(self, x, y):
        return x

    def open(self, x, *args, size=0, **kwargs):
        return super().open(x, *args, size=size, **kwargs)

    @staticmethod
    def shape(x, y):
        return x

    @classmethod
    def build(cls, x):
        return cls()

    @property
    def side(self):
        return 1

    @side.setter
    def side(self, value):
        self.value = value


class Child(Model):
    pass


def rotate(q, k, dim=1):
    return q, k
"""


def messages(work: Workspace, config: str) -> list[str]:
    """What PG201 says of a config over the module above."""
    work.upstream(UPSTREAM)
    work.config(config)
    return [title.removeprefix("PG201 ") for title in found(work, "PG201")]


def override(target: str, parameters: str, body: str = "return x", decorator: str = "") -> str:
    """A config that overrides one method or function."""
    call = "override_method" if "." in target else "replace_function"
    return f'@config.{call}("{target}")\n{decorator}def patched({parameters}):\n    {body}\n'


@pytest.mark.parametrize(
    ("target", "parameters", "expected"),
    [
        (
            "Model.forward",
            "self, x, *, scale=1, **kwargs",
            ["drops upstream's parameter 'mask', which only **kwargs take now"],
        ),
        (
            "Model.forward",
            "self, x, mask=None, **kwargs",
            [
                "drops upstream's parameter 'scale', which only **kwargs take now",
            ],
        ),
        ("Model.forward", "self, x, mask=None, *, scale=1", ["loses upstream's **kwargs"]),
        (
            "Model.forward",
            "self, x, mask, *, scale=1, **kwargs",
            [
                "requires 'mask', for which upstream's has a default",
            ],
        ),
        (
            "Model.forward",
            "self, x, attention_mask=None, *, scale=1, **kwargs",
            [
                "renames upstream's 'mask' to 'attention_mask'",
            ],
        ),
        (
            "Model.forward",
            "self, mask, x=None, *, scale=1, **kwargs",
            [
                "has 'mask' in a different position from upstream's",
                "requires 'mask', for which upstream's has a default",
            ],
        ),
        (
            "Model.forward",
            "self, x, *, mask=None, scale=1, **kwargs",
            [
                "takes 'mask' only by keyword, unlike upstream's",
            ],
        ),
        (
            "Model.forward",
            "self, x, /, mask=None, *, scale=1, **kwargs",
            [
                "takes 'x' only by position, unlike upstream's",
            ],
        ),
        (
            "Model.forward",
            "self, x, fast=0, mask=None, *, scale=1, **kwargs",
            [
                "has 'fast' before 'mask', where upstream's has nothing",
            ],
        ),
        (
            "Model.forward",
            "self, x, fast=0, safe=0, mask=None, *, scale=1, **kwargs",
            [
                "has 'fast', 'safe' before 'mask', where upstream's has nothing",
            ],
        ),
        (
            "Model.forward",
            "self, x, mask=None, *, scale=1, fast, **kwargs",
            [
                "requires 'fast', which upstream's does not have",
            ],
        ),
        ("Model.strict", "self, y, x", ["has 'y' in a different position from upstream's"]),
        ("Model.strict", "self, x", ["drops upstream's parameter 'y'"]),
        ("Model.strict", "self, y", ["drops upstream's parameter 'x'"]),
        ("Model.strict", "self, x, z", ["renames upstream's 'y' to 'z'"]),
        ("Model.strict", "self, a, y", ["renames upstream's 'x' to 'a'"]),
        ("Model.strict", "self, *args", ["drops upstream's parameters 'x', 'y'"]),
        ("Model.open", "self, x, size=0, **kwargs", ["loses upstream's *args"]),
        ("Child.strict", "self, x", ["drops upstream's parameter 'y'"]),
        ("rotate", "q, k", ["drops upstream's parameter 'dim'"]),
    ],
)
def test_changes_that_callers_notice_are_found(
    work: Workspace, target: str, parameters: str, expected: list[str]
) -> None:
    assert messages(work, override(target, parameters, "return 1")) == [f"'{target}' {text}" for text in expected]


@pytest.mark.parametrize(
    ("target", "parameters", "body"),
    [
        ("Model.forward", "self, x, mask=None, *, scale=1, **kwargs", "return x"),
        ("Model.forward", "this, x: int, mask: int = 3, *, scale=2, fast=True, **more", "return x"),
        ("Model.forward", "self, x, mask=None, scale=1, fast=True, **kwargs", "return x"),
        ("Model.forward", "self, x, mask=None, *args, scale=1, **kwargs", "return x"),
        ("Model.forward", "self, *args, **kwargs", "return self.strict(*args, **kwargs)"),
        ("Model.forward", "self, *args, **kwargs", "raise NotImplementedError"),
        ("Model.forward", "self, x, mask=None, **kwargs", "return x * kwargs.get('scale', 1)"),
        ("Model.forward", "self, x, mask=None, **kwargs", "return x * kwargs['scale']"),
        ("Model.forward", "self, x, mask=None, **kwargs", "return x * kwargs.pop('scale')"),
        ("Model.open", "self, x, *args, **kwargs", "return super().open(x, *args, **kwargs)"),
        ("Model.open", "self, x, mode, *args, size=0, **kwargs", "return x"),
        ("Model.strict", "self, x, y=0", "return x"),
        ("Model.strict", "self, x, y, z=0, *args, w=0, **kwargs", "return x"),
        ("Model.reset", "self, everything, anew", "return self"),
        ("Outside.strict", "self, everything, anew", "return self"),
    ],
)
def test_changes_that_no_caller_notices_pass(work: Workspace, target: str, parameters: str, body: str) -> None:
    config = override(target.replace("Outside", "Child") + ("_too" if "Outside" in target else ""), parameters, body)
    assert messages(work, config) == []


@pytest.mark.parametrize("body", ["return x['scale']", "return x.get('scale')", "return kwargs.get()"])
def test_what_is_not_read_from_the_keywords_is_dropped(work: Workspace, body: str) -> None:
    found = messages(work, override("Model.forward", "self, x, mask=None, **kwargs", body))
    assert found == ["'Model.forward' drops upstream's parameter 'scale', which only **kwargs take now"]


@pytest.mark.parametrize("call", ["self.strict(mask=1, x=kwargs)", "self.strict(mask=1)", "self.strict(mask=1, **{})"])
def test_stars_are_handed_on_by_another_call(work: Workspace, call: str) -> None:
    body = f"return self.strict(*args, **kwargs), {call}"
    assert messages(work, override("Model.forward", "self, *args, **kwargs", body)) == []


def test_stars_hand_on_what_is_not_passed_beside_them(work: Workspace) -> None:
    body = "return self.strict(*args, mask=2, **kwargs)"
    found = messages(work, override("Model.forward", "self, *args, **kwargs", body))
    assert found == ["'Model.forward' drops upstream's parameter 'mask', which only **kwargs take now"]


def test_what_a_wrapper_of_the_constructor_takes(work: Workspace) -> None:
    work.upstream("class Model:\n    def __init__(self, config, index=0):\n        self.config = config\n")
    config = '@config.modify_init("Model")\ndef init({}):\n    original_init(self, config)\n'
    work.config(config.format("original_init, self, config, index=1"))
    assert found(work, "PG201") == []
    work.config(config.format("original_init, self, config"))
    assert found(work, "PG201") == ["PG201 'Model.__init__' drops upstream's parameter 'index'"]


def test_kind_of_method_stays(work: Workspace) -> None:
    config = '@config.override_method("Model.{}", keep_decorators=False)\n{}def patched({}):\n    return x\n'
    assert messages(work, config.format("shape", "", "self, x, y")) == [
        "'Model.shape' is no static method, unlike upstream's"
    ]
    assert messages(work, config.format("strict", "@staticmethod\n", "x, y")) == [
        "'Model.strict' is a static method, unlike upstream's"
    ]
    assert messages(work, config.format("build", "", "self, x")) == [
        "'Model.build' is no class method, unlike upstream's"
    ]
    assert messages(work, config.format("strict", "@classmethod\n", "cls, x, y")) == [
        "'Model.strict' is a class method, unlike upstream's"
    ]
    assert messages(work, config.format("shape", "@staticmethod\n", "x, y")) == []
    assert messages(work, override("Model.build", "cls, x")) == []


def test_methods_of_a_replaced_class_are_compared_too(work: Workspace) -> None:
    config = """
from acme.models.toy.modeling_toy import Model

@config.replace_class("Child")
class FusedChild(Model):
    def strict(self, x):
        return x

    def added(self, everything):
        return self
"""
    assert messages(work, config) == ["'Child.strict' drops upstream's parameter 'y'"]


def test_accessors_are_compared_with_their_like(work: Workspace) -> None:
    config = """
from typing import overload

config.add_import("typing", names=["overload"])

@config.replace_class("Model")
class FusedModel:
    @property
    def side(self):
        return 2

    @side.setter
    def side(self, value):
        self.value = value

    @overload
    def strict(self, x): ...

    @overload
    def strict(self, x, y, z): ...
    def strict(self, x, y, z=0):
        return x
"""
    assert messages(work, config) == []
    setter = '@config.override_method("Model.side.setter")\ndef side({}):\n    self.value = 0\n'
    assert messages(work, setter.format("self, value")) == []
    assert messages(work, setter.format("self")) == ["'Model.side' drops upstream's parameter 'value'"]


def test_finding_points_at_the_override(work: Workspace) -> None:
    work.upstream(UPSTREAM)
    path = work.config("\n\n" + override("Model.strict", "self, x"))
    problem = examine(work, select=["PG201"]).errors[0]
    assert problem.location is not None
    assert (problem.location.file, problem.location.line) == (str(path), PREAMBLE.count("\n") + 4)
    assert problem.generated is not None
    assert "def strict(self, x):" in problem.generated.text
