"""The calls that declare edits: patches that change a place inside their target and leave the rest upstream's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar, overload

from patchgen_core.config import arguments, edit_patches
from patchgen_core.config.arguments import caller
from patchgen_core.config.declarations import Patch
from patchgen_core.config.entries import EntryField, place_pair
from patchgen_core.config.patch_calls import MISSING, NameMap, PatchCalls
from patchgen_core.config.shared_edits import Edits

T = TypeVar("T")


class EditCalls(PatchCalls):
    """What declares edits.

    ``at`` is a piece of upstream's source, found by its syntax: layout, quotes and comments do not matter, ``...``
    stands for any arguments or statements, and ``$NAME`` for any expression, the same each time. A line that ends
    with its colon stands for the whole statement. It has to be there once, or ``count`` times. ``edit`` may be
    :class:`Edits`, which targets share.
    """

    dropped_decorators = EntryField[tuple[str, str]](place_pair)

    @overload
    def edit_method(
        self, target: str, *, at: str = ..., count: int = ..., name_map: NameMap = ..., description: str = ...
    ) -> Callable[[T], T]: ...
    @overload
    def edit_method(
        self, target: str, edit: T, *, at: str = ..., count: int = ..., name_map: NameMap = ..., description: str = ...
    ) -> T: ...
    def edit_method(
        self,
        target: str,
        edit: Any = MISSING,
        *,
        at: str = "",
        count: int = 1,
        name_map: NameMap = None,
        description: str = "",
    ) -> Any:
        """Change a method where ``at`` is, or its whole body: ``...`` in the edit's body stands for what is there.

        The edit's parameters are for readers and linters: each is a parameter of the method or a name that it binds.
        Decorators that upstream's method lacks are added to it.
        """
        arguments.method_target("edit_method", target, caller())
        return self._edit(
            "edit_method", Patch("method_edit", target, description=description), edit, at, count, name_map
        )

    @overload
    def edit_function(
        self, target: str, *, at: str = ..., count: int = ..., name_map: NameMap = ..., description: str = ...
    ) -> Callable[[T], T]: ...
    @overload
    def edit_function(
        self, target: str, edit: T, *, at: str = ..., count: int = ..., name_map: NameMap = ..., description: str = ...
    ) -> T: ...
    def edit_function(
        self,
        target: str,
        edit: Any = MISSING,
        *,
        at: str = "",
        count: int = 1,
        name_map: NameMap = None,
        description: str = "",
    ) -> Any:
        """Change a module-level function where ``at`` is, or its whole body, as :meth:`edit_method` does."""
        patch = Patch("function_edit", target, description=description)
        return self._edit("edit_function", patch, edit, at, count, name_map)

    @overload
    def edit_class(self, target: str, *, name_map: NameMap = ..., description: str = ...) -> Callable[[T], T]: ...
    @overload
    def edit_class(self, target: str, edit: T, *, name_map: NameMap = ..., description: str = ...) -> T: ...
    def edit_class(self, target: str, edit: Any = MISSING, *, name_map: NameMap = None, description: str = "") -> Any:
        """Add what a class statement has to upstream's: base classes in front of its own, decorators, attributes.

        ``...`` in its body stands for upstream's. An attribute that upstream has is replaced.
        """
        return self._declare("edit_class", Patch("class_edit", target, description=description), edit, name_map)

    @overload
    def wrap_method(self, target: str, *, name_map: NameMap = ..., description: str = ...) -> Callable[[T], T]: ...
    @overload
    def wrap_method(self, target: str, replacement: T, *, name_map: NameMap = ..., description: str = ...) -> T: ...
    def wrap_method(
        self, target: str, replacement: Any = MISSING, *, name_map: NameMap = None, description: str = ""
    ) -> Any:
        """Wrap a method, as ``modify_init`` does ``__init__``: the function gets ``original`` first, then ``self``.

        The generated class holds upstream's method, with its decorators, as ``_original_forward`` beside the new one.
        """
        arguments.method_target("wrap_method", target, caller())
        patch = Patch("method_wrapper", target, description=description)
        return self._declare("wrap_method", patch, replacement, name_map)

    def replace_code(
        self, target: str, old: str, new: str, *, count: int = 1, name_map: NameMap = None, description: str = ""
    ) -> None:
        """Put another expression or statement into the place of one; both are source in quotes.

        ``new`` may use the metavariables of ``old``. ``...`` among the arguments of a call in ``new`` stands for those
        that it stands for in ``old``: ``replace_code("X.forward", "self.attn(...)", "self.attn(..., causal=True)")``.
        """
        patch = edit_patches.code_replacement(old, new, count, caller())
        self._quoted("replace_code", patch, target, name_map, description)

    def delete_code(
        self, target: str, code: str, *, count: int = 1, name_map: NameMap = None, description: str = ""
    ) -> None:
        """Take statements out, an item of a list, tuple or set, or a base of a class."""
        patch = edit_patches.code_deletion(code, count, caller())
        self._quoted("delete_code", patch, target, name_map, description)

    def add_parameter(
        self,
        target: str,
        parameter: str,
        *,
        after: str = "",
        before: str = "",
        documentation: str = "",
        name_map: NameMap = None,
        description: str = "",
    ) -> None:
        """Give a method or function one more parameter, such as ``"causal: bool = True"``.

        It comes after or before the parameter that is named, and otherwise behind all that are passed by name.
        ``documentation`` goes into the docstring, behind what that says of other parameters.
        """
        patch = edit_patches.parameter_addition(parameter, after, before, documentation, caller())
        self._quoted("add_parameter", patch, target, name_map, description)

    def remove_parameter(
        self, target: str, parameter: str, *, name_map: NameMap = None, description: str = ""
    ) -> None:
        """Take a parameter out of the signature of a method or function."""
        patch = edit_patches.parameter_removal(parameter, caller())
        self._quoted("remove_parameter", patch, target, name_map, description)

    def _edit(self, call: str, patch: Patch, edit: Any, at: str, count: int, name_map: NameMap) -> Any:
        location = caller()
        if isinstance(edit, Edits):
            return self._share(call, patch, edit, at, count, name_map)
        placed = edit_patches.placed_edit(call, patch.kind, at, count, location)
        return self._declare(call, replace(placed, target=patch.target, description=patch.description), edit, name_map)

    def _share(self, call: str, patch: Patch, edits: Edits, at: str, count: int, name_map: NameMap) -> Edits:
        """Record the edits that targets share, each with the line where it stands."""
        location = caller()
        edit_patches.refuse_place(call, at, count, location)
        arguments.target(call, patch.target, location)
        arguments.text("description", patch.description, location, empty=True)
        patches, decorators = edits.of(patch, arguments.name_map(name_map, location), location)
        self.patches.extend(patches)
        self.dropped_decorators.extend(decorators)
        return edits

    def _quoted(self, call: str, patch: Patch, target: str, name_map: NameMap, description: str) -> None:
        """Record an edit that has no function."""
        self._declare(call, replace(patch, target=target, description=description), None, name_map)
