"""Edits of classes: bases, decorators, attributes, and code of the class itself."""

from __future__ import annotations

import pytest

from tests.codegen.editing import edited
from tests.conftest import Workspace


def test_a_class_gets_bases_decorators_and_attributes(work: Workspace) -> None:
    text = edited(
        work,
        """
        from lib import Mixin, own
        from torch import nn


        @config.edit_class("Layer")
        @own
        class Sharded(Mixin, nn.Module):
            # not to be split
            _no_split_modules = ["Inner", "Outer"]
            sharded = True
            ...
            last = 1


        @config.override_method("Layer.extra", add=True)
        def extra(self):
            return 1
        """,
        "Layer",
    )
    assert text.startswith(
        '@own\nclass Layer(Mixin, nn.Module):\n    """A layer."""\n    sharded = True\n\n'
        '    # not to be split\n    _no_split_modules = ["Inner", "Outer"]\n    size = 1\n'
    )
    assert text.endswith("        return x\n\n    last = 1\n\n    def extra(self):\n        return 1\n")


def test_a_class_is_an_attribute(work: Workspace) -> None:
    config = """
        from dataclasses import dataclass

        config.add_import("dataclasses", names=["dataclass"])


        @config.edit_class("Layer")
        class Sharded:
            ...

            # what a mesh may split
            @dataclass
            class Splits:
                tensors: bool = True
                experts: bool = False
        """
    expected = (
        "    # what a mesh may split\n    @dataclass\n    class Splits:\n"
        "        tensors: bool = True\n        experts: bool = False\n"
    )
    assert expected in edited(work, config, "Layer")


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        ("class E:\n    a = 1\n    ...", "class Empty(Layer):\n    a = 1\n"),
        ("class E(Mixin): ...", "class Empty(Mixin, Layer): ...\n"),
    ],
)
def test_a_class_without_a_body_is_edited(work: Workspace, edit: str, expected: str) -> None:
    config = f"from lib import Mixin\n\n\n@config.edit_class('Empty')\n{edit}\n"
    assert edited(work, config, "Empty") == expected


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ('config.replace_code("Layer", "size = 1", "size = 2")', "    size = 2\n"),
        ('config.replace_code("Layer", "[\'Inner\']", "[]")', "    _no_split_modules = []\n"),
        ('config.delete_code("Layer", "size = ...")', '    _no_split_modules = ["Inner"]\n    \n'),
    ],
)
def test_code_of_a_class_itself_is_replaced(work: Workspace, config: str, expected: str) -> None:
    assert expected in edited(work, config, "Layer")
