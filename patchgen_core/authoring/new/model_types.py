"""The model types of transformers and the modules they live in, read from its text."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from patchgen_core.errors import PatchgenError
from patchgen_core.syntax.forms import quoted
from patchgen_core.syntax.source import SourceCache, SourceFile
from patchgen_core.upstream.module import find_upstream

_AUTO = "transformers.models.auto"
_HEADS = (
    "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES",
    "MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES",
    "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES",
)
_NO_TYPE = "Use a model type as a config.json has it under 'model_type'."
_OTHERS = ("MODEL_FOR_PRETRAINING_MAPPING_NAMES", "MODEL_MAPPING_NAMES")


@dataclass(frozen=True)
class ModelType:
    """A model type and the upstream module that holds its classes.

    Attributes:
        name: as ``config.json`` has it.
        classes: those in transformers' tables, the model without a head among them.
        base: the class of the model without a head; empty where the tables have none.
    """

    name: str
    module: str
    config_class: str
    classes: tuple[str, ...]
    base: str = ""

    @property
    def identifier(self) -> str:
        """The name as a folder and a file have it."""
        return self.name.replace("-", "_").replace(".", "_").lower()


class ModelTypes:
    """transformers' tables of model types, looked for in ``search`` before the interpreter's own path."""

    def __init__(self, sources: SourceCache, search: Sequence[Path] = ()) -> None:
        self.sources, self.search = sources, search

    def source(self, module: str) -> SourceFile:
        """The text of one of transformers' modules.

        Raises:
            PatchgenError: there is none, or transformers is not installed.
        """
        return self.sources.get(find_upstream(module, self.search).path)

    @cached_property
    def _tables(self) -> dict[str, dict[str, tuple[str, ...]]]:
        tables: dict[str, dict[str, tuple[str, ...]]] = {}
        for module in ("auto_mappings", "configuration_auto", "modeling_auto"):
            for node in self.source(f"{_AUTO}.{module}").tree.body:
                for name, pairs in read_table(node):
                    tables.setdefault(name, {}).update(pairs)
        return tables

    @property
    def names(self) -> list[str]:
        """Every model type that has a model."""
        configs = self._tables.get("CONFIG_MAPPING_NAMES", {})
        return sorted(name for name in configs if self._classes(name))

    def find(self, name: str) -> ModelType:
        """A model type.

        Raises:
            PatchgenError: transformers has no such type, or no modeling module for it; names the nearest ones.
        """
        configs = self._tables.get("CONFIG_MAPPING_NAMES", {})
        classes = self._classes(name)
        if name not in configs or not classes:
            near = nearest(name, self.names)
            hint = f"Did you mean {quoted(near, 'or')}?" if near else _NO_TYPE
            why = "has no model for" if name in configs else "has no model type"
            raise PatchgenError(f"transformers {why} '{name}'", hint=hint)
        base = self._tables.get("MODEL_MAPPING_NAMES", {}).get(name, ("",))[0]
        sharing = [other for other in self.names if other != name and classes[0] in self._classes(other)]
        for owner in (name, *sharing):  # some types have the classes of another one
            module = self._modeling_module(self._folder(owner), classes)
            if module:
                return ModelType(name, module, configs[name][0], classes, base)
        raise PatchgenError(
            f"no modeling module of 'transformers.models.{self._folder(name)}' defines {' or '.join(classes)}",
            hint=f"'{name}' takes its classes from elsewhere: write a config for that module.",
        )

    def model_of(self, config_class: str) -> str:
        """The class that ``AutoModel`` makes of a configuration class; empty when there is none, or several."""
        types = [n for n, (c, *_) in self._tables.get("CONFIG_MAPPING_NAMES", {}).items() if c == config_class]
        classes = {self._tables.get("MODEL_MAPPING_NAMES", {}).get(name, ()) for name in types}
        names = classes.pop() if len(classes) == 1 else ()
        return names[0] if len(names) == 1 else ""

    def _folder(self, name: str) -> str:
        special = self._tables.get("SPECIAL_MODEL_TYPE_TO_MODULE_NAME", {})
        return special.get(name, (name.replace("-", "_"),))[0]

    def _classes(self, name: str) -> tuple[str, ...]:
        tables = (*_HEADS, *_OTHERS)
        return tuple(dict.fromkeys(c for table in tables for c in self._tables.get(table, {}).get(name, ())))

    def _modeling_module(self, folder: str, classes: Sequence[str]) -> str:
        """The module of a folder of models that defines most of some classes; empty when none does."""
        package = f"transformers.models.{folder}"
        try:
            place = find_upstream(package, self.search).path.parent
        except PatchgenError:
            return ""
        counted: list[tuple[int, str]] = []
        for path in sorted(place.glob("modeling_*.py")):
            text = path.read_text(encoding="utf-8", errors="replace")
            count = sum(f"\nclass {cls}(" in text for cls in classes)
            if count:
                counted.append((-count, f"{package}.{path.stem}"))
        return min(counted)[1] if counted else ""


def nearest(name: str, names: Iterable[str]) -> list[str]:
    """Up to three known names, nearest first."""
    plain = {_without_separators(other): other for other in sorted(set(names))}
    return [plain[near] for near in difflib.get_close_matches(_without_separators(name), plain, n=3, cutoff=0.6)]


def _without_separators(name: str) -> str:
    return re.sub("[-_.]", "", name.lower())


def read_table(node: ast.stmt) -> list[tuple[str, Mapping[str, tuple[str, ...]]]]:
    """A table of names that a statement makes or adds to: ``NAME = OrderedDict([...])``, ``NAME.update({...})``."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        return [(node.targets[0].id, _pairs(node.value))]
    call = node.value if isinstance(node, ast.Expr) else None
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "update":
        holder = call.func.value
        if isinstance(holder, ast.Name) and call.args:
            return [(holder.id, _pairs(call.args[0]))]
    return []


def _pairs(node: ast.expr) -> dict[str, tuple[str, ...]]:
    """Names by name: of a dictionary, a list of pairs, or a call with either."""
    entries: list[tuple[ast.expr | None, ast.expr]] = []
    if isinstance(node, ast.Call):
        entries = [(None, part) for part in (*node.args, *(k.value for k in node.keywords if k.arg is None))]
    elif isinstance(node, ast.Dict):
        entries = list(zip(node.keys, node.values))
    elif isinstance(node, (ast.List, ast.Tuple)):
        entries = [(e.elts[0], e.elts[1]) for e in node.elts if isinstance(e, ast.Tuple) and len(e.elts) == 2]
    pairs = {name: names for key, value in entries if key is None for name, names in _pairs(value).items()}
    for key, value in entries:
        if isinstance(key, ast.Constant) and isinstance(key.value, str) and (names := _names(value)):
            pairs[key.value] = names
    return pairs


def _names(node: ast.expr) -> tuple[str, ...]:
    parts = node.elts if isinstance(node, (ast.Tuple, ast.List)) else [node]
    values = [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    return tuple(values)
