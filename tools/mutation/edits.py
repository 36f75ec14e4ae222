"""The edits of ``benchmarks/defects``: slips that people make in patches, and right changes of the same kind.

A file of TOML for each model of ``examples/zoo``. Each edit replaces one text, which is there once, in one file that
people wrote, or in what the edits of the target make of upstream's. ``config`` and ``file`` of a file of TOML hold for
its edits that say nothing else. Whoever adds one has not read the batches of parity, nor the operators of this folder:
what is written with them in mind measures nothing.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchgen_core.errors import PatchgenError, did_you_mean
from patchgen_core.syntax.nodes import FUNCTIONS
from tools.mutation.written_out import write_out

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
ZOO = "examples/zoo"
FOLDER = ROOT / "benchmarks" / "defects"
CLASSES = {
    1: "evaluation",
    2: "caches, generation",
    3: "configurations",
    4: "attention functions",
    5: "media",
    6: "sizes",
    7: "training tools",
    8: "loading, registering",
    9: "ranks",
    10: "NPU kernels",
    11: "the gate's words",
}
"""What must vary for a defect of a class to show."""
CONTROL = 0
"""The class of a right change."""


@dataclass(frozen=True)
class Edit:
    """A change of one file of the zoo.

    Attributes:
        name: what reports call it.
        number: its class, of ``CLASSES``; ``CONTROL`` for a right change.
        model: the folder of the config that is checked.
        config: the config file that is checked, below the zoo.
        file: the file that is changed, below the zoo.
        target: the patch, or the class, that a finding should name.
        mode: in which use of the model it shows; empty for a right change.
        why: what goes wrong for a user, or why nothing does.
        shows: the inputs for which upstream behaves otherwise; empty for a right change.
    """

    name: str
    number: int
    model: str
    config: Path
    file: Path
    target: str
    mode: str
    why: str
    shows: str
    old: str
    new: str

    @property
    def is_defect(self) -> bool:
        """Whether the gate should find it."""
        return self.number != CONTROL

    def is_at(self, file: str, line: int) -> bool:
        """Whether a place, in the zoo or a copy of it, is in the function of its file that it changes."""
        changed, (head, text, tail) = self.text_to_change(ROOT / ZOO)
        if not file or not Path(file).as_posix().endswith(f"{ZOO}/{changed.as_posix()}"):
            return False
        at = (head + text[: text.index(self.old)]).count("\n") + 1 + self.old.startswith("\n")
        for node in ast.parse(head + text + tail).body:
            first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])
            if first <= at <= (node.end_lineno or first):
                return isinstance(node, FUNCTIONS) and first <= line <= (node.end_lineno or first)
        return False

    def apply(self, zoo: Path) -> Path:
        """Make the change in a copy of the zoo; returns the file that it is in.

        Raises:
            PatchgenError: the text to replace is not there exactly once.
        """
        file, (head, text, tail) = self.text_to_change(zoo)
        (zoo / file).write_text(head + text.replace(self.old, self.new) + tail, encoding="utf-8")
        return file

    def text_to_change(self, zoo: Path) -> tuple[Path, tuple[str, str, str]]:
        """The file that it changes, below the zoo, and the text of it: what has the text to replace, between the rest.

        Where patches do not repeat the text, that is the edits of the target written out in the config.

        Raises:
            PatchgenError: the text is not there exactly once.
        """
        text = (zoo / self.file).read_text(encoding="utf-8")
        if text.count(self.old) == 1 and not _is_quoted(text, text.index(self.old)):
            return self.file, ("", text, "")
        head, own, tail = write_out(ROOT, ROOT / ZOO / self.config, self.target)
        if own.count(self.old) != 1:
            message = f"{text.count(self.old)} times in {self.file} and {own.count(self.old)} times in '{self.target}'"
            raise PatchgenError(f"{self.name}: its text is {message}, and not once")
        return self.config, (head, own, tail)


def _is_quoted(text: str, offset: int) -> bool:
    """Whether a place of a config is inside a place of an edit, which is upstream's text to be looked for."""
    line = text.count("\n", 0, offset) + 1
    places = [k.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call) for k in node.keywords]
    return any(
        isinstance(place, ast.Constant)
        and "\n" in str(place.value)
        and place.lineno <= line <= (place.end_lineno or 0)
        for place in places
    )


def read_edits(zoo: Path = ROOT / ZOO) -> list[Edit]:
    """All of them, model by model.

    Raises:
        PatchgenError: a file of TOML is broken, or names a config that the zoo has not.
    """
    return [edit for path in sorted(FOLDER.glob("*.toml")) for edit in _read_file(path, zoo)]


def choose_edits(edits: Sequence[Edit], words: Sequence[str]) -> list[Edit]:
    """The edits whose name, model or class is among ``words``; all where there are none. ``controls`` and ``defects``
    are words as well.

    Raises:
        PatchgenError: a word stands for nothing.
    """
    known = {word for edit in edits for word in _words(edit)}
    for word in words:
        if word not in known:
            raise PatchgenError(
                f"there is no defect, model or class '{word}'", None, did_you_mean(word, sorted(known))
            )
    return [edit for edit in edits if not words or not _words(edit).isdisjoint(words)]


def _words(edit: Edit) -> set[str]:
    return {edit.name, edit.model, str(edit.number), "defects" if edit.is_defect else "controls"}


def _read_file(path: Path, zoo: Path) -> Iterator[Edit]:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        for kind in ("defect", "control"):
            for entry in table[kind]:
                yield _read_edit({**_defaults(table), "class": CONTROL, "mode": "", "shows": "", **entry}, zoo)
    except (tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise PatchgenError(f"{path.name} cannot be read: {type(error).__name__}: {error}") from None


def _defaults(table: dict[str, Any]) -> dict[str, str]:
    return {"config": table["config"], "file": table["file"]}


def _read_edit(entry: dict[str, Any], zoo: Path) -> Edit:
    configs = list(zoo.glob(f"*/{entry['config']}_patch_gen_config.py"))
    if len(configs) != 1:
        raise PatchgenError(f"{entry['name']}: the zoo has no config '{entry['config']}'")
    config = configs[0].relative_to(zoo)
    return Edit(
        name=entry["name"],
        number=entry["class"],
        model=config.parent.name,
        config=config,
        file=Path(entry["file"]),
        target=entry["target"],
        mode=entry["mode"],
        why=entry["wrong"] if entry["class"] != CONTROL else entry["same"],
        shows=entry["shows"],
        old=entry["old"],
        new=entry["new"],
    )
