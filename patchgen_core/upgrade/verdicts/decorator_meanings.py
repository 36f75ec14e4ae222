"""What a decorator that upstream puts on a target, or takes off it, means for the patch."""

from __future__ import annotations

from collections.abc import Sequence

from patchgen_core.syntax.forms import form, listed
from patchgen_core.syntax.nodes import FUNCTIONS, Definition, Function, decorator_name
from patchgen_core.syntax.signatures import read_parameters

_DOCUMENTING = frozenset(
    [
        *("auto_docstring", "auto_class_docstring", "add_start_docstrings", "add_start_docstrings_to_model_forward"),
        *("add_end_docstrings", "add_code_sample_docstrings", "replace_return_docstrings", "override"),
    ]
)
"""Decorators that write documentation, or mark for readers."""
_OF_KEYWORDS = frozenset(["accepts_precomputed_kwargs"])
"""Decorators that rename or drop keywords which are no parameters, and hand on everything else."""


def harmless_decorators(
    old: Definition, new: Definition, packages: tuple[str, str], ours: Function | None, keeps_upstreams: bool
) -> str:
    """Why the decorators that came or went change nothing for a replacement; empty when one of them may.

    ``ours`` is a method's replacement and ``keeps_upstreams`` whether upstream's decorators stay on it.
    """
    before = {form(d, packages[0]): d for d in old.decorator_list}
    after = {form(d, packages[1]): d for d in new.decorator_list}
    changed = [d for key, d in (*before.items(), *after.items()) if not (key in before and key in after)]
    kept = [[key for key in one if key in other] for one, other in ((before, after), (after, before))]
    if not changed or kept[0] != kept[1]:
        return ""
    names = [decorator_name(decorator) for decorator in changed]
    others = [name for name in names if name not in _DOCUMENTING]
    if not others:
        return f"{_listed(names)} only document{'s' * (len(names) == 1)}"
    takes_same = ours is not None and isinstance(new, FUNCTIONS) and _takes_same(ours, new)
    if all(name in _OF_KEYWORDS for name in others) and keeps_upstreams and takes_same:
        return f"{_listed(others)} stays on the replacement, which has upstream's parameters"
    return ""


def _listed(names: Sequence[str]) -> str:
    return listed([f"@{name}" for name in dict.fromkeys(names)])


def _takes_same(ours: Function, theirs: Function) -> bool:
    """Whether a decorator that looks at the parameters sees the same ones."""
    names = [[parameter.name for parameter in read_parameters(function)] for function in (ours, theirs)]
    stars = [(function.args.vararg is None, function.args.kwarg is None) for function in (ours, theirs)]
    return names[0] == names[1] and stars[0] == stars[1]
