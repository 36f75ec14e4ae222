"""What a monkey patch does to an upstream module, as plain values that cross a process boundary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

ValueKind = Literal["class", "function", "literal", "module", "other"]
UseKind = Literal["upstream", "imported", "mentioned", "renamed", "clash", "unknown"]


@dataclass(frozen=True)
class UsedName:
    """A global name that a replacement refers to.

    Attributes:
        kind: ``upstream`` has the same under this name; it is ``imported`` from elsewhere; it is ``mentioned`` in an
            annotation and cannot be imported; upstream's of this name is another, so that it must be ``renamed``, or
            cannot be (``clash``); or where it comes from is ``unknown``.
        module, attribute: where it is imported from; no attribute for a module.
    """

    name: str
    kind: UseKind
    module: str = ""
    attribute: str = ""


@dataclass(frozen=True)
class PatchedValue:
    """What a patcher puts in the place of an attribute.

    Attributes:
        kind: ``other`` for objects that neither have a source nor can be written down.
        label: as messages name it.
        module, name: where it can be imported from; the name may be dotted. Both empty when it cannot.
        source: the text of a class or function that cannot be imported, moved to column 0, with its decorators.
        uses: the global names that its source refers to.
        why: why its source cannot be copied.
        wraps: what a function that wraps upstream's method calls that; its source has it as the first parameter.
    """

    kind: ValueKind
    label: str
    module: str = ""
    name: str = ""
    source: str = ""
    uses: tuple[UsedName, ...] = ()
    why: str = ""
    wraps: str = ""


@dataclass(frozen=True)
class AttributeChange:
    """One attribute that has another value after the patcher ran.

    Attributes:
        label: its dotted name.
        cls: the upstream module's class that holds it; empty for the module's own, and for what lies elsewhere.
        is_new: whether there was nothing of its name before.
        value: None when it is gone.
    """

    label: str
    name: str
    cls: str
    is_upstream: bool
    is_new: bool
    value: PatchedValue | None

    @property
    def target(self) -> str:
        """What a config calls it."""
        return f"{self.cls}.{self.name}" if self.cls else self.name


@dataclass(frozen=True)
class PatcherRequest:
    """A patcher to run: a patch type that is registered for the model, ``package.module:function``, or, for an empty
    one, importing ``imports``.

    ``model`` is a model type or upstream's modeling module; ``imports`` are what registers patchers; ``inline`` asks
    for the source of what stands in the patcher's own modules.
    """

    model: str
    patcher: str
    imports: tuple[str, ...] = ()
    arguments: Mapping[str, Any] = field(default_factory=dict)
    inline: bool = False


@dataclass(frozen=True)
class PatcherRun:
    """What running a patcher showed.

    Attributes:
        patcher: as ``package.module:function``, or the modules whose import patches.
        changes: in the order of upstream's module.
        messages: what it printed, logged and warned of.
        side_effects: names of what other packages changed in themselves meanwhile.
        inlined: the modules whose code the config is to hold itself.
        helpers: what that code uses of these modules, by name.
    """

    upstream: str
    patcher: str
    parameters: tuple[str, ...]
    arguments: Mapping[str, Any]
    changes: tuple[AttributeChange, ...] = ()
    messages: tuple[str, ...] = ()
    side_effects: tuple[str, ...] = ()
    inlined: tuple[str, ...] = ()
    helpers: Mapping[str, PatchedValue] = field(default_factory=dict)

    @property
    def origin(self) -> str:
        """The options of ``patchgen adopt`` that name the patcher."""
        return (
            f"--from {self.patcher}" if ":" in self.patcher else f"--import {self.patcher.replace(', ', ' --import ')}"
        )
