"""What the calls of the DSL store: plain data, each with the line it was declared on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import WRAPPER_ASSIGNMENTS
from typing import Any, Literal

from patchgen_core.errors import Location

PatchKind = Literal[
    "class_replacement",
    "function_replacement",
    "method_override",
    "init_modification",
    "method_wrapper",
    "external",
    "method_edit",
    "function_edit",
    "class_edit",
    "code_replacement",
    "code_deletion",
    "parameter_addition",
    "parameter_removal",
]
WITHOUT_FUNCTION: frozenset[PatchKind] = frozenset(
    ["code_replacement", "code_deletion", "parameter_addition", "parameter_removal"]
)
"""The kinds of patches that say in their call alone what they do."""
EDITS: frozenset[PatchKind] = WITHOUT_FUNCTION | {"method_edit", "function_edit", "class_edit"}
"""The kinds of patches that change a place inside their target; a target may have several."""
WRAPPERS: frozenset[PatchKind] = frozenset(["init_modification", "method_wrapper"])
"""The kinds of patches that call upstream's method."""


@dataclass(frozen=True)
class Patch:
    """One declared change to one target.

    Attributes:
        kind: ``external`` stands for a class or a function, whichever upstream's target is.
        target: ``Class``, ``Class.method``, ``Class.property.setter`` or ``function``, as upstream names it.
        replacement: the class or function whose source takes the target's place, or stands around what is there;
            None for ``external`` and for code in quotes.
        replacement_module, replacement_name: where ``external`` imports from.
        name_map: class prefixes to rename in the replacement, old to new.
        description: why; shown in the generated header and at the patch.
        keep_decorators: for methods, whether upstream's decorators stay.
        add: for methods, that a name upstream lacks is meant, even if it looks like a slip.
        at: for edits, the place in the target: a pattern of statements or of an expression, or a parameter's name;
            empty for the whole body.
        code: for edits in quotes, what comes there.
        count: for edits, how many times the pattern is there.
        is_before: for a parameter, whether it comes before the one at ``at`` instead of after it.
        documentation: of an added parameter, its entry in the docstring.
        used_at: of an edit that targets share, the call that gives it to this one; ``location`` is its own line.
        comments_at: of the first of shared edits, the line above which the comments on all of them stand.
    """

    kind: PatchKind
    target: str
    replacement: Any = None
    replacement_module: str = ""
    replacement_name: str = ""
    name_map: Mapping[str, str] = field(default_factory=dict)
    description: str = ""
    keep_decorators: bool = True
    add: bool = False
    location: Location | None = None
    at: str = ""
    code: str = ""
    count: int = 1
    is_before: bool = False
    documentation: str = ""
    used_at: Location | None = None
    comments_at: Location | None = None

    @property
    def is_edit(self) -> bool:
        """Whether it leaves its target upstream's but for a place."""
        return self.kind in EDITS


@dataclass(frozen=True)
class ImportSpec:
    """An import that the generated module needs.

    Attributes:
        names: what to import from ``module``, each ``name`` or ``name as other``.
        alias: ``import module as alias``, or the alias of a single name.
        is_from_import: False for ``import module``.
    """

    module: str
    names: tuple[str, ...] = ()
    alias: str | None = None
    is_from_import: bool = True
    location: Location | None = field(default=None, compare=False)


@dataclass(frozen=True, eq=False)
class Helper:
    """A class or function of the config that is copied into the generated module.

    It stands below the upstream class or function ``after``, by default below the imports. ``name_map`` holds the
    class prefixes to rename in it. It has the name of its definition, and is equal to it: a config may look for
    ``helper.__name__``, or for a function, in another config's helpers.
    """

    definition: Any
    after: str | None = None
    name_map: Mapping[str, str] = field(default_factory=dict)
    location: Location | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        names = (name for name in WRAPPER_ASSIGNMENTS if hasattr(self.definition, name))
        vars(self).update({name: getattr(self.definition, name) for name in names}, __wrapped__=self.definition)

    @property
    def target(self) -> str | None:
        """``after``, as the reference documentation has it."""
        return self.after

    @property
    def helper(self) -> Any:
        """``definition``, as the reference documentation has it."""
        return self.definition

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the definition returns."""
        return self.definition(*args, **kwargs)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Helper):
            return other is self.definition
        mine, theirs = (self.after, dict(self.name_map)), (other.after, dict(other.name_map))
        return self.definition is other.definition and mine == theirs

    def __hash__(self) -> int:
        return hash(self.definition)


@dataclass(frozen=True)
class Allowance:
    """A contract rule that a config breaks on purpose, in ``target`` alone if that is given."""

    code: str
    reason: str
    target: str | None
    location: Location

    def covers(self, code: str, target: str) -> bool:
        """Whether it is about what a rule finds in a class, method or function; a class stands for its methods."""
        is_inside = self.target is None or target == self.target or target.startswith(f"{self.target}.")
        return code == self.code and is_inside


@dataclass(frozen=True)
class Tolerance:
    """How far the patched model may be from Hugging Face eager.

    Attributes:
        multiple: of the error that eager itself has in the same dtype; 0 for the same bits.
        implementation: the implementation that it is limited to; None for all of them, "eager" among them.
        dtype: the dtype that it is limited to; None for all.
        head: a pattern of the names of heads that it is limited to; None for all.
    """

    multiple: float
    reason: str
    implementation: str | None
    dtype: str | None
    location: Location = field(compare=False)
    head: str | None = None

    def covers(self, implementation: str, dtype: str, head: str = "") -> bool:
        """Whether it is about an implementation of a head in a dtype."""
        is_of_head = self.head is None or fnmatchcase(head, self.head)
        return is_of_head and self.implementation in (None, implementation) and self.dtype in (None, dtype)
