"""Edits as the calls of the DSL describe them, checked at the line that declares them."""

from __future__ import annotations

from dataclasses import replace
from types import FunctionType
from typing import Any

from patchgen_core.config import arguments
from patchgen_core.config.declarations import Patch, PatchKind
from patchgen_core.errors import Location, PatchgenError


def placed_edit(call: str, kind: PatchKind, at: str, count: int, location: Location) -> Patch:
    """Code of a function at a place, or in the whole body."""
    arguments.text(f"{call}: at", at, location, empty=True)
    return Patch(kind, "", at=at, count=arguments.count(call, count, location), location=location)


def code_replacement(old: str, new: str, count: int, location: Location) -> Patch:
    """Code in quotes in the place of other code."""
    arguments.text("replace_code: old", old, location)
    arguments.text("replace_code: new", new, location)
    count = arguments.count("replace_code", count, location)
    return Patch("code_replacement", "", at=old, code=new, count=count, location=location)


def code_deletion(code: str, count: int, location: Location) -> Patch:
    """Code that goes."""
    arguments.text("delete_code: code", code, location)
    count = arguments.count("delete_code", count, location)
    return Patch("code_deletion", "", at=code, count=count, location=location)


def parameter_addition(parameter: str, after: str, before: str, documentation: str, location: Location) -> Patch:
    """One more parameter."""
    values = (("parameter", parameter), ("after", after), ("before", before), ("documentation", documentation))
    for name, value in values:
        arguments.text(f"add_parameter: {name}", value, location, empty=name != "parameter")
    if after and before:
        raise PatchgenError("add_parameter: after and before do not go together", location, "Give one of them.")
    patch = Patch("parameter_addition", "", at=after or before, code=parameter, is_before=bool(before))
    return replace(patch, documentation=documentation, location=location)


def parameter_removal(parameter: str, location: Location) -> Patch:
    """One parameter less."""
    arguments.text("remove_parameter: parameter", parameter, location)
    return Patch("parameter_removal", "", at=parameter, location=location)


def refuse_place(call: str, at: Any, count: Any, location: Location) -> None:
    """Shared edits have places of their own."""
    if at != "" or count != 1:
        message = f"{call}: at and count are for one edit, and each of shared edits has its own"
        raise PatchgenError(message, location, "Leave them out, or pass a function as the edit.")


def remember_place(patch: Patch, edit: Any) -> None:
    """Have a function know the place that it was first declared with.

    Raises:
        PatchgenError: it is an edit of the whole body here and was written for a place, which is not given.
    """
    if patch.kind not in ("method_edit", "function_edit") or not isinstance(edit, FunctionType):
        return
    at, location = vars(edit).setdefault(_PLACE, (patch.at, patch.location))
    if at and not patch.at:
        message = f"'{edit.__name__}' edits the place {at!r} at {location}, and no place is given for it here"
        hint = f"Pass at={at!r} here too, or pass Edits, which keep their places."
        raise PatchgenError(message, patch.location, f"{hint} To edit the whole body, write another function.")


_PLACE = "__patchgen_place__"
