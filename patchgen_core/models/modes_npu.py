"""The mode in which code for an Ascend NPU runs on a CPU: ``torch_npu`` is a stand-in, and device guards let it in."""

from __future__ import annotations

import ast
import functools
import importlib.util
import inspect
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import FrameType, ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode

from patchgen_core.models.modes import Mode
from patchgen_core.models.npu_operators import OPERATORS

if TYPE_CHECKING:
    from transformers import PreTrainedModel

PACKAGE, DEVICE = "torch_npu", "npu"


def is_installed() -> bool:
    """Whether there is a real ``torch_npu``, beside which nothing stands in."""
    module = sys.modules.get(PACKAGE)
    return importlib.util.find_spec(PACKAGE) is not None if module is None else not hasattr(module, "stands_in")


@contextmanager
def standing_in() -> Iterator[ModuleType]:
    """Have imports of ``torch_npu`` give a module with the operators of this package.

    transformers is asked first whether there is an NPU, and remembers that there is none.
    """
    from transformers.utils.import_utils import is_torch_npu_available

    is_torch_npu_available()
    module = ModuleType(PACKAGE, "Operators of torch_npu in plain torch.")
    module.__spec__ = ModuleSpec(PACKAGE, None)
    vars(module).update(OPERATORS, stands_in=True)
    sys.modules[PACKAGE] = module
    try:
        yield module
    finally:
        sys.modules.pop(PACKAGE, None)


@contextmanager
def _on_npu(model: PreTrainedModel) -> Iterator[None]:
    """Run a model's module as on an NPU: names that it imports of ``torch_npu`` are there, and its conditions that
    compare the type of a device with "npu" hold. Its tensors stay on the CPU."""
    module = sys.modules[type(model).__module__]
    imports, lines = _read_module(inspect.getsource(module))
    with standing_in() as package, _Guards(module.__file__ or "", lines):
        names = {name: value for name, value in _imported(imports, package).items() if vars(module).get(name) is None}
        before = {name: vars(module)[name] for name in names if name in vars(module)}
        vars(module).update(names)
        try:
            yield
        finally:
            for name in names:
                vars(module).pop(name)
            vars(module).update(before)


@functools.lru_cache(maxsize=4)
def _read_module(text: str) -> tuple[tuple[ast.Import | ast.ImportFrom, ...], frozenset[int]]:
    """A module's imports, and its lines that read a device whose type is compared with "npu"."""
    tree = ast.parse(text)
    imports = tuple(node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom)))
    return imports, frozenset(_guarded_lines(tree))


def _imported(imports: tuple[ast.Import | ast.ImportFrom, ...], package: ModuleType) -> Mapping[str, Any]:
    """What imports of ``torch_npu`` bind."""
    names: dict[str, Any] = {}
    for node in imports:
        if isinstance(node, ast.Import):
            names.update({alias.asname or PACKAGE: package for alias in node.names if alias.name == PACKAGE})
        elif node.module == PACKAGE:
            own = {alias.asname or alias.name: getattr(package, alias.name, None) for alias in node.names}
            names.update({name: value for name, value in own.items() if value is not None})
    return names


def _guarded_lines(tree: ast.AST) -> Iterator[int]:
    """The lines that read a device whose type is compared with "npu"."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Compare):
            continue
        sides = [node.left, *node.comparators]
        if not any(
            isinstance(part, ast.Constant) and part.value == DEVICE for side in sides for part in ast.walk(side)
        ):
            continue
        for side in sides:
            if isinstance(side, ast.Attribute) and side.attr == "type" and isinstance(side.value, ast.Attribute):
                yield from range(side.lineno, (side.end_lineno or side.lineno) + 1)


class _Guards(TorchFunctionMode):
    """Gives a device of type "npu" where certain lines of a file read that of a tensor."""

    def __init__(self, path: str, lines: frozenset[int]) -> None:
        super().__init__()
        self.path, self.lines = path, lines

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if function == torch.Tensor.device.__get__:
            reader: FrameType | None = sys._getframe(1)
            while reader is not None and reader.f_code.co_name == "__torch_function__":  # of a mode inside this one
                reader = reader.f_back
            if reader is not None and reader.f_lineno in self.lines and reader.f_code.co_filename == self.path:
                return SimpleNamespace(type=DEVICE)
        return function(*args, **(kwargs or {}))


ON_NPU = Mode("operators of an NPU", _on_npu, is_training_step=True, is_rounded=True)
