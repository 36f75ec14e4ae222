"""Whether instances have an attribute from a base in another module."""

from __future__ import annotations

import ast
from collections.abc import Set

from patchgen_core.checks.contract.library import Library, absolute_module, package_of
from patchgen_core.checks.contract.members import ANY_NAME, Lineage, declared_members, own_members
from patchgen_core.syntax.classes import Class
from patchgen_core.syntax.module import Module
from patchgen_core.syntax.nodes import last_name

_EMPTY_BASES = frozenset(["object", "ABC", "Generic", "Protocol"])
_NAMES = """
T_destination add_module apply bfloat16 buffers call_super_init children compile cpu cuda double dump_patches eval
extra_repr float forward get_buffer get_extra_state get_parameter get_submodule half ipu load_state_dict modules
mtia named_buffers named_children named_modules named_parameters parameters register_backward_hook register_buffer
register_forward_hook register_forward_pre_hook register_full_backward_hook register_full_backward_pre_hook
register_load_state_dict_post_hook register_load_state_dict_pre_hook register_module register_parameter
register_state_dict_post_hook register_state_dict_pre_hook requires_grad_ set_extra_state set_submodule
share_memory state_dict to to_empty train training type xpu zero_grad _apply _backward_hooks _backward_pre_hooks
_buffers _call_impl _compiled_call_impl _forward_hooks _forward_hooks_always_called _forward_hooks_with_kwargs
_forward_pre_hooks _forward_pre_hooks_with_kwargs _get_backward_hooks _get_backward_pre_hooks _get_name
_is_full_backward_hook _load_from_state_dict _load_state_dict_post_hooks _load_state_dict_pre_hooks
_maybe_warn_non_full_backward_hook _modules _named_members _non_persistent_buffers_set _parameters
_register_load_state_dict_pre_hook _register_state_dict_hook _replicate_for_data_parallel _save_to_state_dict
_slow_forward _state_dict_hooks _state_dict_pre_hooks _version _wrapped_call_impl
"""
TORCH_MODULE = frozenset(_NAMES.split())
"""What every ``torch.nn.Module`` has, beside names with two underscores in front."""


class OutsideMembers:
    """The members of bases that other modules define.

    Args:
        library: where these modules are read.
        package: upstream's package, whose generic classes set attributes by computed names only where they are
            declared, or named in a string of the class.
    """

    def __init__(self, library: Library, package: str) -> None:
        self._library, self._package = library, package
        self._names = library.members.setdefault(package, {})

    def may_give(self, lineage: Lineage, name: str) -> bool:
        """Whether a base of another module has a member of a name, or cannot be read."""
        return any(names is None or name in names for names in (self._of(m, b) for m, b in lineage.outside))

    def is_module(self, lineage: Lineage) -> bool:
        """Whether instances are modules of torch; others, such as mixins, rely on what they are combined with."""
        return "named_parameters" in self.names(lineage)

    def names(self, lineage: Lineage) -> set[str]:
        """The members of all bases of other modules that can be read."""
        return {name for module, base in lineage.outside for name in self._of(module, base) or ()}

    def _of(self, module: Module, base: ast.expr) -> set[str] | None:
        """The members of a base that a module names; None when they cannot be told."""
        base = base.value if isinstance(base, ast.Subscript) else base
        if last_name(base) in _EMPTY_BASES:
            return set()
        if last_name(base) == "Module" and ast.unparse(base) in ("nn.Module", "torch.nn.Module", "Module"):
            return set(TORCH_MODULE)
        imports = module.index.imports.get(base.id, []) if isinstance(base, ast.Name) else []
        statement, alias = imports[0] if len(imports) == 1 else (None, None)
        if not isinstance(statement, ast.ImportFrom) or alias is None:
            return None
        return self._read(absolute_module(statement, package_of(module.name, module.source.path)), alias.name)

    def _read(self, home: str, name: str) -> set[str] | None:
        if (home, name) not in self._names:
            self._names[home, name] = set()  # a class that derives from itself
            self._names[home, name] = self._members(home, name)
        return self._names[home, name]

    def _members(self, home: str, name: str) -> set[str] | None:
        module, node = self._library.find(home, name) or (None, None)
        if module is None or not isinstance(node, ast.ClassDef):
            return None
        names: Set[str] | None = own_members(Class(module, node))
        if names is None and home.startswith(f"{self._package}.") and not home.startswith(f"{self._package}.models."):
            names = declared_members(Class(module, node)) | _strings(node)
        if names is None or names & ANY_NAME:
            return None
        for base in node.bases:
            is_here = isinstance(base, ast.Name) and module.cls(base.id) is not None
            more = self._read(module.name, last_name(base)) if is_here else self._of(module, base)
            if more is None:
                return None
            names = names | more
        return set(names)


def _strings(node: ast.AST) -> set[str]:
    return {
        inner.value for inner in ast.walk(node) if isinstance(inner, ast.Constant) and isinstance(inner.value, str)
    }
