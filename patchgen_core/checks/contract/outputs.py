"""The outputs that a module's functions construct, and the fields that they pass."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from patchgen_core.checks.contract.library import Library
from patchgen_core.syntax.classes import Class, dataclass_fields
from patchgen_core.syntax.inference import Inference
from patchgen_core.syntax.module import Module
from patchgen_core.syntax.nodes import Function, decorator_names, inside, last_name
from patchgen_core.syntax.scopes import Scope

_RECORDING = frozenset(["capture_outputs", "check_model_inputs"])
_RECORDED = "_can_record_outputs"
_ALWAYS_RECORDED = frozenset(["hidden_states", "attentions"])
_PASSED = "upstream's version passes"
_DEPTH = 3


@dataclass(frozen=True)
class Construction:
    """A call that constructs an output.

    Attributes:
        fields: what it passes, by field; without what is None for sure.
        unnamed: how many arguments it passes by position to fields whose names are not known.
        is_open: whether stars pass what cannot be told.
        passed_by: who passes the fields, in words.
    """

    name: str
    call: ast.Call
    fields: Mapping[str, ast.expr]
    unnamed: int
    is_open: bool
    passed_by: str = _PASSED


class Outputs:
    """Finds what the functions of a module construct; ``library`` is where classes of other modules are looked up."""

    def __init__(self, module: Module, inference: Inference, library: Library) -> None:
        self.module, self._inference, self._library = module, inference, library

    def constructions(self, function: Function) -> list[Construction]:
        """The outputs that a function constructs, in their order in the text."""
        own = (call for call in self._calls_of_classes if _is_inside(call, function))
        calls = sorted(filter(self._is_output, own), key=lambda call: (call.lineno, call.col_offset))
        return [self._read(call, self.module.scope_of(function)) for call in calls]

    @cached_property
    def _calls_of_classes(self) -> list[ast.Call]:
        """The calls of the module that may construct something, by their names."""
        by_name = self.module.calls_by_name.items()
        return [call.node for name, calls in by_name if name[:1].isupper() for call in calls]

    def with_recorded(self, dotted: str, function: Function) -> list[Construction]:
        """The outputs that a method constructs, with what its decorator sets on the one that is returned."""
        constructions, recorded = self.constructions(function), self.recorded(dotted, function)
        for number, construction in enumerate(constructions):
            if recorded and self.is_returned(function, construction.call):
                held = [field for field in recorded if self._can_hold(construction.name, field)]
                fields = {**dict.fromkeys(held, ast.Constant(...)), **construction.fields}
                constructions[number] = replace(
                    construction, fields=fields, passed_by=f"{_PASSED} or lets its decorator set"
                )
        return constructions

    def recorded(self, dotted: str, function: Function) -> list[str]:
        """The fields that a method's decorator sets on what it returns, from what hooks have recorded."""
        cls = self.module.cls(dotted.partition(".")[0])
        if cls is None or not decorator_names(function) & _RECORDING:
            return []
        for base in self._inference.bases(Class(self.module, cls)):
            statements = [s for s in base.node.body if isinstance(s, ast.Assign)] if base is not None else []
            values = [s.value for s in statements if last_name(s.targets[0]) == _RECORDED]
            if values:
                keys = values[0].keys if isinstance(values[0], ast.Dict) else []
                return [key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
        return []

    def handed_on(self, function: Function, depth: int = 0) -> Construction | None:
        """What a function passes on that returns the output of another model of the module as it is."""
        scope, returned = self.module.scope_of(function), _returned_expressions(function)
        if scope is None or len(returned) != 1 or depth > _DEPTH:
            return None
        call = _single_value(returned[0], scope)
        model = self._model(call.func, scope) if isinstance(call, ast.Call) else None
        forward_of_model = self._inference.find_method(model, "forward") if model is not None else None
        if model is None or forward_of_model is None:
            return None
        forward = forward_of_model[1]
        constructions = [
            c for c in self.with_recorded(f"{model.name}.forward", forward) if self.is_returned(forward, c.call)
        ]
        if not constructions:
            return self.handed_on(forward, depth + 1)
        name = returned[0].id if isinstance(returned[0], ast.Name) else "outputs"
        fields = {field: _attribute(name, field) for field in _common(constructions)}
        passed_by = f"upstream's version hands on from '{model.name}'"
        return Construction(
            constructions[0].name, constructions[0].call, fields, 0, is_open=False, passed_by=passed_by
        )

    def is_returned(self, function: Function, call: ast.Call) -> bool:
        """Whether a function returns what a call constructs."""
        scope = self.module.scope_of(function)
        return any(call in (node, scope and _single_value(node, scope)) for node in _returned_expressions(function))

    def usual(self, name: str) -> Construction | None:
        """What every construction of a class of this module passes."""
        cls = self.module.cls(name)
        calls = [call.node for call in self.module.calls_by_name.get(name, ())] if cls else []
        constructions = [construction for call in calls if not (construction := self._read(call, None)).is_open]
        if cls is None or not constructions:
            return None
        passed_by = "upstream passes wherever it constructs one"
        return Construction(name, constructions[0].call, _common(constructions), 0, is_open=False, passed_by=passed_by)

    def _is_output(self, call: ast.Call) -> bool:
        name = last_name(call.func)
        if not name[:1].isupper():
            return False
        cls = self.module.cls(name)
        if cls is None:
            return _is_output_name(name)
        bases = [base for base in self._inference.bases(Class(self.module, cls)) if base is not None]
        names = (last_name(base) for base_class in bases for base in base_class.node.bases)
        return "dataclass" in decorator_names(cls) or any(map(_is_output_name, names))

    def _read(self, call: ast.Call, scope: Scope | None) -> Construction:
        name = last_name(call.func)
        cls = self.module.cls(name)
        order = dataclass_fields(Class(self.module, cls)) if cls is not None and call.args else None
        positions = [] if order is None else [field.name for field in order]
        passed = dict(zip(positions, call.args)) | {k.arg: k.value for k in call.keywords if k.arg is not None}
        is_open = any(k.arg is None for k in call.keywords) or any(isinstance(a, ast.Starred) for a in call.args)
        fields = {field: value for field, value in passed.items() if not _is_none(value, scope)}
        return Construction(name, call, fields, 0 if positions else len(call.args), is_open)

    def _model(self, called: ast.expr, scope: Scope) -> Class | None:
        """The class of a sub-model that is called; the one that ``AutoModel`` makes when the module defines it."""
        values = self._inference.values(called, scope)
        if values:
            is_one = len(values) == 1 and values[0].kind == "instance" and values[0].cls.module is self.module
            return values[0].cls if is_one else None
        is_own = isinstance(called, ast.Attribute) and last_name(called.value) == scope.self_name
        held = self.module.attributes(scope.cls).get(last_name(called), []) if is_own else []
        constructor = held[0][0] if len(held) == 1 else None
        if not isinstance(constructor, ast.Call) or not ast.unparse(constructor.func).startswith("AutoModel."):
            return None
        arguments = [*constructor.args, *(keyword.value for keyword in constructor.keywords)][:1]
        part, config, _ = (last_name(arguments[0]) if arguments else "").rpartition("_config")
        return self._by_config(f"{part.title()}Config") if config else None

    def _by_config(self, config: str) -> Class | None:
        """The one model of the module whose configs are of a class with a name that ends so."""
        models = []
        for name in self.module.index.definitions:
            cls = self.module.cls(name) if name.endswith("Model") else None
            declared = [s for s in cls.body if isinstance(s, ast.AnnAssign)] if cls is not None else []
            if any(last_name(s.target) == "config" and last_name(s.annotation).endswith(config) for s in declared):
                models += [cls] if cls is not None and not name.endswith("PreTrainedModel") else []
        return Class(self.module, models[0]) if len(models) == 1 else None

    def _can_hold(self, name: str, field: str) -> bool:
        """Whether an output class declares a field, here or in the modules that it comes from."""
        return field in _ALWAYS_RECORDED or field in self._fields(self.module, name)

    def _fields(self, module: Module, name: str) -> set[str]:
        """The fields that a class and its bases declare, of other modules too where those are here."""
        cls = module.cls(name)
        if cls is None:
            definition = self._library.find(module.name, name)
            if definition is None or definition[0] is module or not isinstance(definition[1], ast.ClassDef):
                return set()
            return self._fields(definition[0], definition[1].name)
        own = {last_name(s.target) for s in cls.body if isinstance(s, ast.AnnAssign)}
        bases = {last_name(base) for base in cls.bases} - {name, "ModelOutput"}
        return own.union(*(self._fields(module, base) for base in bases))


def _is_inside(call: ast.Call, function: Function) -> bool:
    return function.lineno <= call.lineno <= (function.end_lineno or 0)


def _returned_expressions(function: Function) -> list[ast.expr]:
    returns = (node.value for node in inside(function) if isinstance(node, ast.Return))
    return [value for value in returns if value is not None]


def _single_value(node: ast.expr, scope: Scope) -> ast.expr | None:
    """An expression, or what a local name was assigned when that was only once."""
    if not isinstance(node, ast.Name):
        return node
    bound = scope.bound.get(node.id, [])
    return bound[0].value if len(bound) == 1 and bound[0].is_value else None


def _attribute(name: str, field: str) -> ast.expr:
    return ast.Attribute(ast.Name(name, ast.Load()), field, ast.Load())


def _common(constructions: Sequence[Construction]) -> dict[str, ast.expr]:
    """The fields that all of several constructions pass, with the values of the first."""
    first, *others = constructions
    return {field: value for field, value in first.fields.items() if all(field in other.fields for other in others)}


def _is_output_name(name: str) -> bool:
    """Whether a class is called as transformers calls its outputs, such as ``BaseModelOutputWithPast``."""
    _, output, after = name.rpartition("Output")
    return bool(output) and (not after or after.startswith("With"))


def _is_none(value: ast.expr, scope: Scope | None) -> bool:
    """Whether an expression is None for sure: the literal, or a local name that is never assigned anything else."""
    if isinstance(value, ast.Constant):
        return value.value is None
    bound = scope.bound.get(value.id, []) if scope is not None and isinstance(value, ast.Name) else []
    values = [binding.value for binding in bound]
    return bool(values) and all(isinstance(v, ast.Constant) and v.value is None for v in values)
