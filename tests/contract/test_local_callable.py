"""Callables that a data loader's worker cannot unpickle (PG216)."""

from __future__ import annotations

import pytest

from tests.conftest import Workspace
from tests.contract.support import examine, found

UPSTREAM = """
import functools
from functools import partial


def get_rope_index(input_ids, token):
    return input_ids == token


def make_inner(token):
    def inner(x):
        return x + token

    return inner


class Callable:
    def __call__(self, x):
        return x


class Model:
    def forward(self, x):
        return self.make_transform(2)(x)

    def make_transform(self, token):
        return get_rope_index

    def get_padding_func(self):
        return lambda x: x



class ForConditionalGeneration:
    def get_position_id_func(self):
        return self.model.get_position_id_func()
"""


def patched(work: Workspace, body: str, method: str = "get_position_id_func") -> list[str]:
    """The findings over a method with a body."""
    work.upstream(UPSTREAM)
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    work.config(f'@config.override_method("Model.{method}")\ndef patched(self):\n{lines}')
    return [message.removeprefix(f"PG216 'Model.{method}' returns ") for message in found(work, "PG216")]


NESTED = "def inner(x):\n    return x\n\n"
UNPICKLABLE = {
    NESTED + "return inner": "the nested function 'inner'",
    NESTED + "return partial(inner, 1)": "a partial of the nested function 'inner'",
    NESTED + "return functools.partial(inner, 1)": "a partial of the nested function 'inner'",
    NESTED + "fn = partial(inner, token=1)\nreturn fn": "a partial of the nested function 'inner'",
    NESTED + "return inner if self.x else get_rope_index": "the nested function 'inner'",
    NESTED + "fn = None\nif self.x:\n    fn = inner\nreturn fn or get_rope_index": "the nested function 'inner'",
    "return lambda x: x": "a lambda",
    "fn = lambda x: x\nreturn partial(fn, 1)": "a partial of a lambda",
    "return make_inner(self.token)": "the nested function 'inner' of 'make_inner'",
    "class Inner:\n    def __call__(self, x):\n        return x\n\nreturn Inner()": (
        "an instance of the nested class 'Inner'"
    ),
    "class Inner:\n    pass\n\nreturn Inner": "the nested class 'Inner'",
}
PICKLABLE = [
    "return get_rope_index",
    "return partial(get_rope_index, token=self.token)",
    "return partial(self.forward)",
    "return Callable()",
    NESTED + "return inner(self.x)",
    NESTED + "return [inner(x) for x in self.xs]",
    "def outer():\n    def inner(x):\n        return x\n    return inner\n\nreturn outer()(self.x)",
    "def outer():\n    return lambda x: x\n\nreturn outer()(self.x)",
    "from tools import position_ids\n\nreturn partial(position_ids, 1)",
    "return None",
]


@pytest.mark.parametrize("body", UNPICKLABLE)
def test_callable_that_exists_inside_the_call_only(work: Workspace, body: str) -> None:
    assert patched(work, body) == [f"{UNPICKLABLE[body]}, which a data loader's worker cannot unpickle"]


@pytest.mark.parametrize("body", PICKLABLE)
def test_callable_that_a_module_holds(work: Workspace, body: str) -> None:
    assert patched(work, body) == []


@pytest.mark.parametrize(
    "method", ["get_collate_fn", "get_metadata_collate_func", "build_data_transform", "position_ids_fn"]
)
def test_name_that_hands_out_a_function(work: Workspace, method: str) -> None:
    assert patched(work, "return lambda x: x", method) != []


@pytest.mark.parametrize("method", ["get_mask_function", "get_loss_fn", "get_checkpoint_converter", "prepare_inputs"])
def test_name_of_what_the_training_process_runs_itself(work: Workspace, method: str) -> None:
    assert patched(work, "return lambda x: x", method) == []


def test_what_the_module_calls_itself_is_not_handed_out(work: Workspace) -> None:
    assert patched(work, "return lambda x: x", "make_transform") == []


def test_what_upstream_returns_in_the_same_way_is_left_alone(work: Workspace) -> None:
    assert patched(work, "return lambda x: x + 1", "get_padding_func") == []


def test_finding_shows_the_return(work: Workspace) -> None:
    work.upstream(UPSTREAM)
    config = work.config(
        '@config.override_method("Model.get_position_id_func")\n'
        "def patched(self):\n"
        "    fn = lambda x: x\n"
        "    return fn\n"
    )
    [problem] = examine(work, select=["PG216"]).warnings
    assert problem.location is not None
    assert config.read_text().splitlines()[problem.location.line - 1] == "    return fn"
    assert "top level" in problem.hint
