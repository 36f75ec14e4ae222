"""What a mode changes in a model, and puts back."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from torch import nn

_MISSING = object()


class Changes(ExitStack):
    """A context after which everything that was changed through it is as it was."""

    def set(self, owner: object, name: str, value: object) -> None:
        """Set an attribute."""
        before = vars(owner).get(name, _MISSING)
        setattr(owner, name, value)
        self.callback(_put_back, owner, name, before)

    def put_module(self, root: nn.Module, path: str, module: nn.Module) -> None:
        """Put a module in the place of another."""
        above, _, name = path.rpartition(".")
        modules: dict[str, Any] = root.get_submodule(above)._modules
        before = modules[name]
        modules[name] = module
        self.callback(modules.__setitem__, name, before)

    def freeze(self, root: nn.Module) -> None:
        """Have no parameter of a module need a gradient."""
        for parameter in root.parameters():
            if parameter.requires_grad:
                parameter.requires_grad_(False)
                self.callback(parameter.requires_grad_, True)


def _put_back(owner: object, name: str, before: object) -> None:
    if before is _MISSING:
        delattr(owner, name)
    else:
        setattr(owner, name, before)
