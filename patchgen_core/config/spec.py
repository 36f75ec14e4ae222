"""The DSL: what a patch config declares.

A config is a Python file whose name ends in ``_patch_gen_config.py`` and that holds a
:class:`PatchConfig` called ``config``. Everything here is plain data: declaring a patch stores what was
declared and the line it was declared on. Whether upstream has such a target is decided when the config is
generated.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeVar, overload

from patchgen_core.config import arguments
from patchgen_core.config.arguments import caller
from patchgen_core.config.declarations import Allowance, Helper, ImportSpec, Patch, Tolerance
from patchgen_core.config.edit_calls import EditCalls
from patchgen_core.config.entries import Entries, EntryField, place_declaration, place_helper, place_pair, place_text
from patchgen_core.config.patch_calls import MISSING
from patchgen_core.config.text_field import TextField, place_of
from patchgen_core.errors import Location, PatchgenError, did_you_mean
from patchgen_core.project.parity_settings import DTYPES

T = TypeVar("T")

_FIELDS = {
    "post_import_block": "post_import_blocks",
    "add_block_after": "positioned_blocks",
    "drop_import_names": "drop_imported_names",
    "exclude_from_output": "exclude",
    "drop_decorators": "dropped_decorators",
}
_PLAIN = ("location", "transformers_version", "toy_config")
_FIELD_TYPES = (EntryField, TextField)


class PatchConfig(EditCalls):
    """The changes to one upstream module, and the file that holds the result.

    Args:
        source_module: upstream's module, such as ``transformers.models.qwen3.modeling_qwen3``.
        target_file: name of the generated file inside the output folder, ending in ``.py``.
        description: one line for the generated header.
        transformers_version: the upstream version this config is written for. When the version found
            is another one, generating is an error. None accepts any.
        toy_config: the configuration of the small model that parity runs: fields that differ from those of the one
            that is made, such as ``{"num_hidden_layers": 3}``; a whole one, with its ``model_type``; or the path of
            a JSON file or of a folder with a ``config.json``, relative to the config's folder. Changes nothing that
            is generated.

    The fields ``patches``, ``additional_imports``, ``post_import_blocks``, ``positioned_blocks``, ``helpers``,
    ``positioned_helpers``, ``drop_imported_names``, ``exclude``, ``dropped_decorators``, ``allowed`` and
    ``tolerances`` are lists that take a set's operations as well: a config may extend its own from another
    config's, and what comes in so keeps the line it was declared on. An identical entry that comes in
    twice counts once. The calls that declare patches are decorators, or plain calls when ``replacement`` is given;
    they return the replacement itself.
    """

    source_module = TextField()
    target_file = TextField()
    description = TextField(empty=True)
    additional_imports = EntryField[ImportSpec](place_declaration)
    post_import_blocks = EntryField[str](place_text)
    positioned_blocks = EntryField[tuple[str, str]](place_pair)
    helpers = EntryField[Any](place_helper)
    positioned_helpers = EntryField[Helper](place_declaration)
    drop_imported_names = EntryField[str](place_text)
    exclude = EntryField[str](place_text)
    allowed = EntryField[Allowance](place_declaration)
    tolerances = EntryField[Tolerance](place_declaration)

    def __init__(
        self,
        source_module: str,
        target_file: str,
        description: str = "",
        transformers_version: str | None = None,
        toy_config: Mapping[str, Any] | str | os.PathLike[str] | None = None,
    ) -> None:
        self.location = caller()
        self.source_module = source_module
        self.target_file = target_file
        self.description = description
        self.transformers_version = transformers_version
        self.toy_config = arguments.toy_config(toy_config, self.location)
        super().__init__()
        for name in dir(PatchConfig):
            if isinstance(getattr(PatchConfig, name), EntryField):
                setattr(self, name, [])

    def __setattr__(self, name: str, value: Any) -> None:
        """A PatchgenError for an attribute that there is not, and that is near to one that there is. Subclasses may
        have their own."""
        is_plain = type(self) is not PatchConfig or name in _PLAIN or name.startswith("_")
        if not is_plain and not hasattr(PatchConfig, name):
            fields = [each for each in dir(PatchConfig) if isinstance(getattr(PatchConfig, each), _FIELD_TYPES)]
            if hint := did_you_mean(name, (*fields, *_PLAIN)):
                raise PatchgenError(f"PatchConfig has no '{name}'", caller(), hint)
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        return f"PatchConfig({self.source_module!r}, {self.target_file!r})"

    # --- what goes beside the patches --------------------------------------------------------------

    def add_import(
        self,
        module: str,
        names: list[str] | tuple[str, ...] | None = None,
        alias: str | None = None,
        is_from_import: bool | None = None,
    ) -> None:
        """Add an import below upstream's own.

        ``names`` makes ``from module import ...``; without it the whole module is imported, as ``alias``
        if that is given. ``alias`` beside a single name renames that name.
        """
        location = caller()
        checked = arguments.imported(module, names, alias, is_from_import, location)
        self.additional_imports.append(ImportSpec(module, checked, alias, bool(checked), location))

    @overload
    def add_helper(self, definition: T, *, name_map: Mapping[str, str] | None = ...) -> T: ...
    @overload
    def add_helper(self, *, name_map: Mapping[str, str] | None = ...) -> Callable[[T], T]: ...
    def add_helper(self, definition: Any = MISSING, *, name_map: Mapping[str, str] | None = None) -> Any:
        """Copy a class or function below the imports; a decorator with or without parentheses, or a call."""
        return self._add_helper(self.helpers, definition, None, name_map)

    @overload
    def add_helper_after(self, target: str, *, name_map: Mapping[str, str] | None = ...) -> Callable[[T], T]: ...
    @overload
    def add_helper_after(self, target: str, definition: T, *, name_map: Mapping[str, str] | None = ...) -> T: ...
    def add_helper_after(
        self, target: str, definition: Any = MISSING, *, name_map: Mapping[str, str] | None = None
    ) -> Any:
        """Copy a class or function right below upstream's ``target``, for those that need it when they are defined."""
        arguments.target("add_helper_after", target, caller())
        return self._add_helper(self.positioned_helpers, definition, target, name_map)

    def _add_helper(
        self, helpers: Entries[Any], definition: Any, after: str | None, name_map: Mapping[str, str] | None
    ) -> Any:
        location = arguments.decorated_at(definition, caller())
        names = arguments.name_map(name_map, location)

        def record(obj: T) -> T:
            if isinstance(obj, Helper):  # another config's
                helpers.append(replace(obj, after=after, name_map=names or obj.name_map))
            else:
                helpers.append(Helper(obj, after, names, location))
            return obj

        what = "add_helper" if after is None else f"add_helper_after '{after}'"
        return self._decorator(record, definition, what, location)

    def add_post_import_block(self, code: str) -> None:
        """Insert source text below the imports, as it stands (dedented)."""
        location = caller()
        self.post_import_blocks.append(place_text(arguments.text("code", code, location), location))

    def add_block_after(self, target: str, code: str) -> None:
        """Insert source text below upstream's class or function ``target``, for statements that need it."""
        location = caller()
        arguments.target("add_block_after", target, location)
        arguments.text("code", code, location)
        self.positioned_blocks.append((target, code))

    def drop_import_names(self, *names: str) -> None:
        """Remove upstream's module-level imports of these names, with their fallbacks."""
        self._add_names("drop_import_names", self.drop_imported_names, names)

    def drop_decorators(self, target: str, *names: str) -> None:
        """Remove decorators of upstream's class, method or function, named without their arguments.

        ``drop_decorators("LlamaAttention", "use_kernelized_func")`` removes
        ``@use_kernelized_func(apply_rotary_pos_emb)``.
        """
        location = caller()
        arguments.target("drop_decorators", target, location)
        for name in names:
            arguments.text("drop_decorators: a name", name, location)
            self.dropped_decorators.append((target, name))

    def exclude_from_output(self, *names: str) -> None:
        """Leave upstream's classes, methods, functions or constants of these names out of the generated module.

        A method is named ``Class.method``; what its class inherits takes its place.
        """
        self._add_names("exclude_from_output", self.exclude, names)

    def allow(self, code: str, reason: str, target: str | None = None) -> None:
        """Accept what a contract rule finds in this config, and say why.

        ``target`` limits it to one ``Class`` and its methods, ``Class.method`` or ``function``. An allowance that
        nothing comes of is a finding itself.
        """
        location = caller()
        arguments.text("allow: code", code, location)
        arguments.text("allow: reason", reason, location)
        if target is not None:
            arguments.text("allow: target", target, location)
        self.allowed.append(Allowance(code, reason, target, location))

    def tolerate(
        self,
        multiple: float,
        reason: str,
        *,
        implementation: str | None = None,
        dtype: str | None = None,
        head: str | None = None,
    ) -> None:
        """Let the patched model be further from Hugging Face eager than parity does by default, or less far.

        Args:
            multiple: of the error that eager itself has against float64, in the same dtype; 0 for the same bits.
            implementation: the one it is limited to, such as "eager" or "liger_kernel"; all by default.
            dtype: "float32" or "bfloat16"; both by default.
            head: the model class, or a pattern such as "*ForCausalLM"; all by default.
        """
        location = caller()
        checked = arguments.multiple("tolerate", multiple, location)
        arguments.text("tolerate: reason", reason, location)
        for name, value in (("implementation", implementation), ("dtype", dtype), ("head", head)):
            if value is not None:
                arguments.text(f"tolerate: {name}", value, location)
        if dtype is not None and dtype not in DTYPES:
            raise PatchgenError(
                f"tolerate: there is no dtype '{dtype}' in parity", location, did_you_mean(dtype, DTYPES)
            )
        self.tolerances.append(Tolerance(checked, reason, implementation, dtype, location, head))

    def _add_names(self, call: str, names_so_far: Entries[str], names: tuple[str, ...]) -> None:
        location = caller()
        for name in names:
            arguments.text(f"{call}: a name", name, location)
            names_so_far.append(name)

    def place_of(self, name: Literal["source_module", "target_file"]) -> Location:
        """Where one of its texts was given: to the call that made it, or in an assignment since."""
        return place_of(self, name)

    def location_of(self, call: str, value: str | tuple[str, str]) -> Location:
        """Where ``value`` was passed to ``call``, in whichever config, or where this config was made."""
        entries: Sequence[Any] = getattr(self, _FIELDS[call])
        places = (getattr(entry, "location", None) for entry in entries if entry == value)
        return next(filter(None, places), self.location)


def create_patch_from_external(
    target: str,
    replacement_module: str,
    replacement_name: str,
    description: str = "",
) -> Patch:
    """A patch that imports a class or function under upstream's name instead of copying its source.

    Append it to ``config.patches``. ``target`` is a class or a function of upstream's module.
    """
    location = caller()
    arguments.text("target", target, location)
    arguments.text("replacement_module", replacement_module, location)
    arguments.text("replacement_name", replacement_name, location)
    arguments.text("description", description, location, empty=True)
    if "." in target:
        raise PatchgenError(
            f"create_patch_from_external: '{target}' is a method; only classes and functions can be imported",
            location,
            "Override it with a method that calls the external function.",
        )
    if not arguments.is_name(replacement_name) or not arguments.is_module(replacement_module):
        raise PatchgenError(
            f"create_patch_from_external: cannot import '{replacement_name}' from '{replacement_module}'",
            location,
            "Name an absolute module and one name inside it.",
        )
    return Patch(
        "external",
        target,
        replacement_module=replacement_module,
        replacement_name=replacement_name,
        description=description,
        location=location,
    )
