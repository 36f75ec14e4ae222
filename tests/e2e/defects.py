"""Correct configs, and the defects that can be brought into them by machine, one at a time.

Each function here takes a correct config and yields it with one defect, together with the findings that the rule of
that defect owes. What a defect breaks is told by Python itself: its compiler says which names code loads, its own
signatures which calls they refuse.
"""

from __future__ import annotations

import ast
import builtins
import itertools
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from tests.contracts.compiled import loaded, stored
from tests.e2e.evident import Evident, Reader, is_refused, signature
from tests.e2e.sweep import DEFINITIONS, METHODS, Method

NEW = "patchgen_new"
_REPLACING = ("override_method", "replace_function", "replace_class")


@dataclass(frozen=True)
class Expected:
    """A finding that a rule owes.

    Attributes:
        target: what it is about; empty for anything.
        mentions: what its message has; one of them is enough.
        node: the code that it points at; empty for any.
    """

    target: str
    mentions: tuple[str, ...]
    node: str = ""


@dataclass(frozen=True)
class Mutant:
    """A config with one defect.

    Attributes:
        code: the rule that should find it.
        kind: what was done.
        what: to what.
        text: the config.
        expected: the findings that are owed.
    """

    code: str
    kind: str
    what: str
    text: str
    expected: tuple[Expected, ...]


@dataclass(frozen=True)
class Piece:
    """A class or function of a config that takes the place of upstream's."""

    target: str
    call: str
    index: int
    text: str

    @property
    def owner(self) -> str:
        """What the generated module calls it."""
        return ".".join(self.target.split(".")[:2])

    def node(self) -> ast.AST:
        """Its definition, fresh to be changed."""
        return ast.parse(self.text).body[0]


@dataclass(frozen=True)
class Base:
    """A correct config.

    Attributes:
        name: what reports call it.
        statements: the config's top-level statements, as text.
        generated: what it makes.
        upstream: upstream's module.
        is_alone: whether a mutant keeps only the patch with the defect, which makes it fast.
    """

    name: str
    statements: tuple[str, ...]
    generated: str
    upstream: str
    is_alone: bool = False

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """What it replaces with code of its own."""
        found = []
        for index, text in enumerate(self.statements):
            node = ast.parse(text).body[0]
            for decorator in node.decorator_list if isinstance(node, DEFINITIONS) else ():
                call = decorator.func.attr if _is_config_call(decorator) else ""  # type: ignore[attr-defined]
                if call in _REPLACING:
                    target = decorator.args[0].value  # type: ignore[attr-defined]
                    found.append(Piece(target, call, index, text))
        return tuple(found)

    @cached_property
    def reader(self) -> Reader:
        """What can be told of the calls in what it makes."""
        return Reader(ast.parse(self.generated))

    @cached_property
    def original(self) -> Reader:
        """What can be told of upstream."""
        return Reader(ast.parse(self.upstream))

    def with_changes(self, changes: Mapping[int, str] | None = None, more: str = "") -> str:
        """The config's text with some of its statements changed, and more below it."""
        changes = changes or {}
        replaced = {piece.index for piece in self.pieces} if self.is_alone else set()
        kept = [n for n in range(len(self.statements)) if n in changes or n not in replaced]
        return "\n\n".join([*(changes.get(n, self.statements[n]) for n in kept), more]) + "\n"


def split(text: str) -> tuple[str, ...]:
    """The top-level statements of a module, as text."""
    lines = text.split("\n")
    found = []
    for node in ast.parse(text).body:
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        found.append("\n".join(lines[first - 1 : node.end_lineno]))
    return tuple(found)


def _is_config_call(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func).startswith("config.")


# --- PG201: signatures -----------------------------------------------------------------------------------


def signature_mutants(base: Base) -> Iterator[Mutant]:
    """Every override drops, renames and swaps every parameter, and loses its stars."""
    for piece in base.pieces:
        if piece.call == "replace_class" or piece.target.count(".") > 1:
            continue
        name, _, method = piece.target.partition(".")
        reader = base.original
        if method and (name not in reader.classes or reader.method(name, method) is None):
            continue  # an added method has no signature to keep
        node = piece.node()
        assert isinstance(node, METHODS)
        for kind, what, mentions, changed in _changed_signatures(piece, _is_bound(node, piece)):
            text = base.with_changes({piece.index: ast.unparse(changed)})
            yield Mutant("PG201", kind, f"{piece.target}: {what}", text, (Expected(piece.owner, mentions),))


def _is_bound(node: Method, piece: Piece) -> bool:
    return "." in piece.target and "staticmethod" not in map(ast.unparse, node.decorator_list)


def _changed_signatures(piece: Piece, is_bound: bool) -> Iterator[tuple[str, str, tuple[str, ...], Method]]:
    for name in _names(_arguments(piece), is_bound):
        quoted = (f"'{name}'",)
        yield "drops a parameter", name, quoted, _dropped(piece, name)
        yield "renames a parameter", name, quoted, _renamed(piece, name)
    positional = [a.arg for a in [*_arguments(piece).posonlyargs, *_arguments(piece).args]][is_bound:]
    for first, second in itertools.pairwise(positional):
        yield "swaps two parameters", f"{first}, {second}", (f"'{first}'", f"'{second}'"), _swapped(piece, first)
    for star, attribute in (("*args", "vararg"), ("**kwargs", "kwarg")):
        if getattr(_arguments(piece), attribute) is not None:
            yield f"loses {star}", "", (f"loses {star}",), _without_star(piece, attribute)


def _fresh(piece: Piece) -> Method:
    node = piece.node()
    assert isinstance(node, METHODS)
    return node


def _arguments(piece: Piece) -> ast.arguments:
    return _fresh(piece).args


def _names(arguments: ast.arguments, is_bound: bool) -> list[str]:
    positional = [*arguments.posonlyargs, *arguments.args][is_bound:]
    return [argument.arg for argument in (*positional, *arguments.kwonlyargs)]


def _assign(node: Method, name: str, value: str) -> Method:
    """The function with an assignment in front of its body, below its docstring."""
    at = 1 if ast.get_docstring(node, clean=False) is not None else 0
    node.body.insert(at, ast.parse(f"{name} = {value}").body[0])
    return ast.fix_missing_locations(node)


def _dropped(piece: Piece, name: str) -> Method:
    node = _fresh(piece)
    _drop(node.args, name)
    return _assign(node, name, "None")


def _drop(arguments: ast.arguments, name: str) -> None:
    """Take a parameter and its default out."""
    for group in (arguments.posonlyargs, arguments.args):
        for number, argument in enumerate(group):
            if argument.arg == name:
                offset = len(arguments.posonlyargs) if group is arguments.args else 0
                count = len(arguments.posonlyargs) + len(arguments.args)
                default = number + offset - (count - len(arguments.defaults))
                if default >= 0:
                    del arguments.defaults[default]
                del group[number]
                return
    number = [argument.arg for argument in arguments.kwonlyargs].index(name)
    del arguments.kwonlyargs[number], arguments.kw_defaults[number]


def _renamed(piece: Piece, name: str) -> Method:
    node = _fresh(piece)
    found = next(a for a in ast.walk(node.args) if isinstance(a, ast.arg) and a.arg == name)
    found.arg = f"{name}_renamed"
    return _assign(node, name, found.arg)


def _swapped(piece: Piece, name: str) -> Method:
    """A parameter changes places with the next; what has a default stays where it is."""
    node = _fresh(piece)
    arguments = [*node.args.posonlyargs, *node.args.args]
    at = [argument.arg for argument in arguments].index(name)
    first, second = arguments[at], arguments[at + 1]
    first.arg, second.arg = second.arg, first.arg
    first.annotation, second.annotation = second.annotation, first.annotation
    return node


def _without_star(piece: Piece, attribute: str) -> Method:
    node = _fresh(piece)
    name = getattr(node.args, attribute).arg
    setattr(node.args, attribute, None)
    return _assign(node, name, "{}" if attribute == "kwarg" else "()")


# --- PG202: calls ----------------------------------------------------------------------------------------


def call_mutants(base: Base) -> Iterator[Mutant]:
    """Every callee asks for more and takes less than it did, and every call passes what is unknown."""
    calls: dict[str, list[Evident]] = {}
    for call in base.reader.calls:
        if call.function is not None and not is_refused(call.node, call.signature):
            calls.setdefault(call.callee, []).append(call)
    for piece in base.pieces:
        if piece.call != "replace_class" and piece.target.count(".") < 2:
            yield from _changed_callees(base, piece, calls.get(piece.target, []))
            yield from _changed_calls(base, piece)


def _changed_callees(base: Base, piece: Piece, calls: list[Evident]) -> Iterator[Mutant]:
    if not calls:
        return
    node = _fresh(piece)
    is_bound = _is_bound(node, piece)
    arguments = node.args
    if arguments.defaults or arguments.vararg or arguments.kwonlyargs:
        arguments.kwonlyargs.append(ast.arg(NEW))
        arguments.kw_defaults.append(None)
    else:
        arguments.args.append(ast.arg(NEW))
    changes = [("callee asks for one more", NEW, node)]
    changes += [("callee loses a parameter", n, _dropped(piece, n)) for n in _names(_arguments(piece), is_bound)]
    for kind, name, changed in changes:
        taken = {bound: signature(changed.args, bound) for bound in (True, False)}
        refused = [c for c in calls if is_refused(c.node, taken[is_bound and _passes_instance(c)])]
        if refused:
            expected = tuple(Expected(c.owner or c.callee, (f"'{c.named}'",), ast.unparse(c.node)) for c in refused)
            text = base.with_changes({piece.index: ast.unparse(changed)})
            yield Mutant("PG202", kind, f"{piece.target}: {name}", text, expected)


def _passes_instance(call: Evident) -> bool:
    """Whether a call's own arguments start behind ``self``."""
    assert call.function is not None
    return len(call.signature.parameters) < len(signature(call.function.args, bound=False).parameters)


def _changed_calls(base: Base, piece: Piece) -> Iterator[Mutant]:
    evident: dict[str, list[Evident]] = {}
    for call in base.reader.calls:
        if call.owner == piece.owner:
            evident.setdefault(ast.unparse(call.node), []).append(call)
    for number, node in enumerate(n for n in ast.walk(piece.node()) if isinstance(n, ast.Call)):
        found = evident.get(ast.unparse(node), [])
        changed = piece.node()
        call = [n for n in ast.walk(changed) if isinstance(n, ast.Call)][number]
        call.keywords.append(ast.keyword(NEW, ast.Constant(None)))
        if found and all(is_refused(call, callee.signature) for callee in found):
            expected = tuple(
                Expected(piece.owner, (f"'{name}'",), ast.unparse(call)) for name in {callee.named for callee in found}
            )
            text = base.with_changes({piece.index: ast.unparse(changed)})
            yield Mutant(
                "PG202", "call passes what is unknown", f"{piece.target}: {ast.unparse(node)}", text, expected
            )


# --- PG203, PG204, PG207: names ----------------------------------------------------------------------------


def exclusion_mutants(base: Base) -> Iterator[Mutant]:
    """Every class, function and constant that other code uses is excluded."""
    tree = ast.parse(base.generated)
    patched = {piece.target.split(".")[0] for piece in base.pieces} if not base.is_alone else set()
    reader = base.original
    tables = [name for name in reader.tables if not name.startswith("__")]
    for name in (*reader.classes, *reader.functions, *tables):
        if name in patched:
            continue
        rest = [node for node in tree.body if not _binds(node, name)]
        text = base.with_changes(more=f'config.exclude_from_output("{name}")')
        without = ast.unparse(ast.Module(rest, []))
        quoted = (f"'{name}'",)
        if name in loaded(without):
            yield Mutant("PG203", "excludes what is used", name, text, (Expected("", quoted, name),))
        if name in _listed(ast.parse(without)):
            yield Mutant("PG203", "excludes what a list names", name, text, (Expected("", quoted, repr(name)),))


def _binds(node: ast.stmt, name: str) -> bool:
    if isinstance(node, DEFINITIONS):
        return node.name == name
    targets = node.targets if isinstance(node, ast.Assign) else []
    return any(isinstance(target, ast.Name) and target.id == name for target in targets)


def _listed(tree: ast.Module) -> set[str]:
    """The names in ``_no_split_modules``."""
    return {
        constant.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and "_no_split_modules" in map(ast.unparse, node.targets)
        for constant in ast.walk(node.value)
        if isinstance(constant, ast.Constant) and isinstance(constant.value, str)
    }


def addition_mutants(base: Base) -> Iterator[Mutant]:
    """Every name that a patch uses goes by one that only the config knows, and every addition goes."""
    bound = {name for name in loaded(base.upstream) if not hasattr(builtins, name)}
    for piece in base.pieces if base.is_alone else ():
        node = piece.node()
        assert isinstance(node, DEFINITIONS)
        node.decorator_list = []
        for name in sorted(loaded(ast.unparse(node)) & bound):
            changed = piece.node()
            for inner in ast.walk(changed):
                if isinstance(inner, ast.Name) and inner.id == name:
                    inner.id = f"{NEW}_{name}"
            text = base.with_changes({piece.index: f"{NEW}_{name} = {name}\n\n{ast.unparse(changed)}"})
            expected = (Expected(piece.owner, (f"'{NEW}_{name}'",)),)
            yield Mutant("PG204", "uses a name of the config", f"{piece.target}: {name}", text, expected)
    for index, statement in enumerate(base.statements):
        for what, names, changed_text in _without_addition(statement):
            text = base.with_changes({index: changed_text})
            used = sorted(names & loaded(base.generated))
            for name in used:
                expected = (Expected("", (f"'{name}'",)),)
                yield Mutant("PG204", f"loses {what}", name, text, expected)
    for name in base.original.classes if base.is_alone else ():
        helper = f"@config.add_helper\nclass {NEW}({name}):\n    pass"
        yield Mutant(
            "PG204", "helper above its base", name, base.with_changes(more=helper), (Expected(NEW, (f"'{name}'",)),)
        )


def _without_addition(statement: str) -> Iterator[tuple[str, set[str], str]]:
    node = ast.parse(statement).body[0]
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and _is_config_call(node.value):
        call = ast.unparse(node.value.func)
        if call == "config.add_import":
            names = next((k.value for k in node.value.keywords if k.arg == "names"), None)
            for number, entry in enumerate(names.elts if isinstance(names, ast.List) else ()):
                fresh = ast.parse(statement).body[0]
                listing = next(k.value for k in fresh.value.keywords if k.arg == "names")  # type: ignore[attr-defined]
                del listing.elts[number]
                name = str(getattr(entry, "value", "")).split(" as ")[-1].strip()
                yield "an import", {name}, ast.unparse(fresh) if listing.elts else "pass"
        elif call == "config.add_post_import_block":
            block = ast.literal_eval(node.value.args[0])
            yield "a block", stored(textwrap.dedent(block)), "pass"
    elif isinstance(node, DEFINITIONS) and any("config.add_helper" in ast.unparse(d) for d in node.decorator_list):
        fresh = ast.parse(statement).body[0]
        assert isinstance(fresh, DEFINITIONS)
        fresh.decorator_list = [d for d in fresh.decorator_list if "config.add_helper" not in ast.unparse(d)]
        yield "a helper", {node.name}, ast.unparse(fresh)


def shadowing_mutants(base: Base) -> Iterator[Mutant]:
    """An addition of each kind takes every name that upstream imports, and every builtin that it uses."""
    used = loaded(base.upstream) & loaded(base.generated)
    imported = {
        alias.asname or alias.name.split(".")[0]
        for node in ast.parse(base.upstream).body
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    }
    known = {name for name in used if hasattr(builtins, name) and not name.startswith("__")}
    for name in sorted(imported & used | known):
        kind = "what is imported" if name in imported else "a builtin"
        for what, more in (
            ("import", f'config.add_import("acme.kernels", names=["{name}"])'),
            ("helper", f"@config.add_helper\ndef {name}(*args):\n    return args"),
            ("block", f'config.add_post_import_block("{name} = None")'),
        ):
            text = base.with_changes(more=more)
            yield Mutant("PG207", f"{what} hides {kind}", name, text, (Expected("", (f"'{name}'",)),))


# --- PG206: slots ------------------------------------------------------------------------------------------


def slot_mutants(base: Base) -> Iterator[Mutant]:
    """Every op and variant that a slot asks for is misspelt, or that of another slot."""
    for index, statement in enumerate(base.statements):
        node = ast.parse(statement).body[0]
        if "OpSlot(" not in statement or "add_post_import_block" not in statement or not isinstance(node, ast.Expr):
            continue
        block = textwrap.dedent(ast.literal_eval(node.value.args[0]))  # type: ignore[attr-defined]
        words = [n for n in ast.walk(ast.parse(block)) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
        wrong = {"full": "standard", "standard": "full"}
        for number, word in enumerate(words):
            for kind, new in (("misspells a slot", f"{word.value}_"), ("asks for another", wrong.get(word.value, ""))):
                tree = ast.parse(block)
                constants = [n for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
                constants[number].value = new
                text = base.with_changes({index: f"config.add_post_import_block({ast.unparse(tree)!r})"})
                if new:
                    expected = (Expected("", (f"'{new}'",)),)
                    yield Mutant("PG206", kind, f"{word.value} in line {word.lineno}", text, expected)


# --- PG205: output fields ----------------------------------------------------------------------------------


def output_mutants(base: Base) -> Iterator[Mutant]:
    """Every output class is made without each of its fields in turn."""
    for piece in base.pieces:
        if piece.call == "replace_class":
            continue
        for number, node in enumerate(n for n in ast.walk(piece.node()) if isinstance(n, ast.Call)):
            if not isinstance(node.func, ast.Name) or "Output" not in node.func.id:
                continue
            for keyword in node.keywords:
                if keyword.arg is None:
                    continue
                changed = piece.node()
                call = [n for n in ast.walk(changed) if isinstance(n, ast.Call)][number]
                call.keywords = [k for k in call.keywords if k.arg != keyword.arg]
                text = base.with_changes({piece.index: ast.unparse(changed)})
                what = f"{piece.target}: {node.func.id}({keyword.arg}=)"
                expected = (Expected(piece.owner, (f"'{keyword.arg}'",)),)
                yield Mutant("PG205", "loses an output field", what, text, expected)


BY_RULE: dict[str, Callable[[Base], Iterator[Mutant]]] = {
    "PG201": signature_mutants,
    "PG202": call_mutants,
    "PG203": exclusion_mutants,
    "PG204": addition_mutants,
    "PG205": output_mutants,
    "PG206": slot_mutants,
    "PG207": shadowing_mutants,
}
