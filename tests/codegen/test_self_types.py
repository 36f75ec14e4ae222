"""A config may say what ``self`` is; the generated class does not repeat it."""

from __future__ import annotations

import pytest

from tests.codegen.patching import unmarked
from tests.conftest import Workspace

pytestmark = pytest.mark.usefixtures("toy_upstream")


def signature(work: Workspace, config: str, name: str) -> str:
    """The line of the generated module that a method starts with."""
    work.config(config)
    return next(line.strip() for line in unmarked(work.text()).split("\n") if f"def {name}(" in line)


@pytest.mark.parametrize("annotation", ["Norm", '"Norm"'])
def test_the_class_of_an_override_is_not_repeated(work: Workspace, annotation: str) -> None:
    text = f"@config.override_method('Norm.forward')\ndef forward(self: {annotation}, x: int = 1):\n    return x\n"
    assert signature(work, text, "forward") == "def forward(self, x: int = 1):"


def test_nor_that_of_a_class_method(work: Workspace) -> None:
    text = (
        "@config.override_method('Norm.make', add=True)\n@classmethod\ndef make(cls: type[Norm]):\n    return cls(1)\n"
    )
    assert signature(work, text, "make") == "def make(cls):"


@pytest.mark.parametrize(("call", "method"), [("modify_init", "__init__"), ("wrap_method", "forward")])
def test_nor_behind_the_original_of_a_wrapper(work: Workspace, call: str, method: str) -> None:
    target = "Norm" if call == "modify_init" else "Norm.forward"
    text = f"@config.{call}('{target}')\ndef wrap(original, self: Norm, value):\n    original(self, value)\n"
    assert signature(work, text, method).endswith("self, value):")
    assert "Norm, value" not in unmarked(work.text())


def test_a_shared_patch_names_the_class_that_it_was_written_for(work: Workspace) -> None:
    text = """
    @config.override_method("Norm.forward")
    def forward(self: "Norm", x):
        return x


    config.override_method("Head.forward", forward, name_map={"Norm": "Head"})
    """
    work.config(text)
    assert unmarked(work.text()).count("def forward(self, x):") == 2


def test_another_class_is_what_the_config_says(work: Workspace) -> None:
    text = "@config.override_method('Norm.forward')\ndef forward(self: 'Head', x):\n    return x\n"
    assert signature(work, text, "forward") == 'def forward(self: "Head", x):'


def test_an_edit_may_say_it_too(work: Workspace) -> None:
    work.config("@config.edit_method('Norm.forward')\ndef guard(self: Norm, x):\n    x = x + self.size\n    ...\n")
    assert "def forward(self, x):\n        x = x + self.size\n        return x" in unmarked(work.text())
