"""What the text of a module tells of what it imports, and of what it may look at beside its arguments."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from patchgen_core.syntax.nodes import FUNCTIONS, Function, list_nodes

_LOOKING = re.compile(
    r"""
      (time|random|secrets|uuid|subprocess|socket|requests|httpx|aiohttp|shutil|glob|tempfile|fileinput|sqlite3|mmap
      |pkgutil|runpy|ctypes|gzip|bz2|lzma|zipfile|tarfile|huggingface_hub|datasets|dotenv|joblib|pickle|shelve|dbm
      |linecache|select|signal|resource|getpass|pwd)\..+
    | (urllib\.request|http\.client|numpy\.random|np\.random|safetensors(\.\w+)?|importlib\.resources|torch\.hub)\..+
    | datetime\.(datetime\.(now|utcnow|today)|date\.today)
    | os\.(?!path\b|environ|getenv|sep|linesep|name|PathLike|fspath|cpu_count|pathsep|curdir|pardir|extsep|devnull).+
    | os\.path\.(exists|lexists|isfile|isdir|islink|ismount|getmtime|getatime|getctime|getsize|samefile).*
    | (io|codecs)\.open | sys\.(argv|stdin|path|modules|meta_path)(\..+)?
    | importlib\.(reload|util\.(?!resolve_name|module_from_spec)\w+|machinery\.(?!ModuleSpec)\w+)
    | inspect\.getsource\w*
    | (torch|torch\.jit|numpy|np)\.(load|loadtxt|fromfile|genfromtxt|memmap) | torch\.(seed|initial_seed)
    | pandas\.read_\w+ | platform\.\w+
    """,
    re.VERBOSE,
)
_BUILTINS = frozenset(("open", "exec", "eval", "compile", "input", "breakpoint"))
_METHODS = frozenset(
    (
        *("read_text", "read_bytes", "write_text", "write_bytes", "open", "iterdir", "glob", "rglob", "exists"),
        *("is_file", "is_dir", "is_symlink", "stat", "lstat", "from_pretrained", "load_file", "safe_open", "urlopen"),
        *("load_dataset", "hf_hub_download", "snapshot_download", "unlink", "mkdir"),
    )
)
_IMPORTING = ("importlib.import_module", "__import__", "import_module")
ASKING = ("importlib.util.find_spec", "shutil.which")
"""What asks for modules and programs, and sees nothing else."""
_PRIVATE = re.compile(r"(?!__)_\w+")
_REFERENCE = re.compile(r"(?:[\w.]*[.:])?((?!__)_\w+)")
"""A text that may stand for a private function, as that of ``getattr(module, "_load")`` does."""
_TELLING = (ast.Import, ast.ImportFrom, ast.Call)
"""What tells of imports."""
REGISTRY = "MODELING_REGISTRY"
"""What calls the functions that are handed to it: for the model that somebody asks for, and for no other."""

Import = tuple[int, str, str]
"""As ``from`` has it: dots, module, and a name or nothing."""


@dataclass(frozen=True)
class Body:
    """Code that runs as one: what it refers to, and its first line that may look at more than its arguments.

    ``first`` is the line of its ``def``, 0 for what runs at an import. With ``only_asks`` it asks for nothing but
    modules and programs, of which the process tells that runs it (:mod:`patchgen_core.workers.watched_code`).
    A function that a decorator hands to :data:`REGISTRY` is ``registered``. What is imported inside one, or inside a
    private function, which others call by its name alone, counts where it runs: ``imports``.
    """

    uses: frozenset[str]
    look: str = ""
    line: int = 0
    imports: frozenset[Import] = frozenset()
    registered: bool = False
    first: int = 0
    only_asks: bool = False


@dataclass(frozen=True)
class SourceSummary:
    """What a module's text tells.

    Attributes:
        imports: what it imports, wherever in the module, but for those of ``bodies``.
        top: what runs when it is imported.
        bodies: its functions and methods.
        places: which of them run by a name: a function by its own, and the methods of a class by the name of that as
            well. A class without methods has none.
    """

    imports: frozenset[Import]
    top: Body
    bodies: tuple[Body, ...]
    places: Mapping[str, tuple[int, ...]]

    def named(self) -> Iterator[tuple[str, list[Body]]]:
        """What runs by each name."""
        return ((name, [self.bodies[place] for place in places]) for name, places in self.places.items())


def summarize_source(text: str) -> SourceSummary:
    """The summary of a module's text; a SyntaxError or ValueError where it is not Python."""
    tree = ast.parse(text)
    nodes = [node for node in list_nodes(tree) if isinstance(node, _TELLING)]
    names, others = dict(_aliases(nodes)), dict(_other_names(nodes))
    inside: set[ast.AST] = set()
    bodies: list[Body] = []
    places: dict[str, list[int]] = {}
    top: list[ast.AST] = []

    def collect(node: ast.AST, owners: tuple[str, ...]) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, FUNCTIONS):
                for name in (child.name, *owners):
                    places.setdefault(name, []).append(len(bodies))
                own = _nodes_of_body(child)
                body = _body(own, names, others, child.lineno)
                is_registered = _is_registered(child)
                if is_registered or (not owners and _is_private(child)):
                    inside.update(own)
                    body = replace(body, imports=frozenset(_imports(own, names)), registered=is_registered)
                bodies.append(body)
                for part in (*child.decorator_list, child.args):
                    top.extend(node for node in list_nodes(part) if not is_registered or not _is_registry(node))
            elif isinstance(child, ast.ClassDef):
                for name in (child.name, *owners):
                    places.setdefault(name, [])
                collect(child, (*owners, child.name))
            else:
                top.append(child)
                collect(child, owners)

    collect(tree, ())
    everywhere = frozenset(_imports((node for node in nodes if node not in inside), names))
    by_name = {name: tuple(each) for name, each in places.items()}
    return SourceSummary(everywhere, _body(top, names, others), tuple(bodies), by_name)


def _nodes_of_body(function: Function) -> list[ast.AST]:
    returns = [function.returns] if function.returns is not None else []
    return [node for part in (function.args, *function.body, *returns) for node in list_nodes(part)]


def _is_private(function: Function) -> bool:
    """Whether others call a function by its name alone."""
    return not function.decorator_list and _PRIVATE.fullmatch(function.name) is not None


def _is_registered(function: Function) -> bool:
    """Whether each decorator of a function is a method of the registry, called or not, and there is one."""
    methods = [node.func if isinstance(node, ast.Call) else node for node in function.decorator_list]
    return bool(methods) and all(isinstance(one, ast.Attribute) and _is_registry(one.value) for one in methods)


def _is_registry(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == REGISTRY


def _aliases(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, str]]:
    """What names of imports stand for, wherever in the module these are."""
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield (alias.asname, alias.name) if alias.asname else (alias.name.partition(".")[0],) * 2
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from ((alias.asname or alias.name, f"{node.module}.{alias.name}") for alias in node.names)


def _other_names(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, str]]:
    """The names under which a module has what it imports by ``from``, where these are others than its own."""
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            yield from ((alias.asname, alias.name) for alias in node.names if alias.asname)


def _imports(nodes: Iterable[ast.AST], names: dict[str, str]) -> Iterator[Import]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((0, alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.level, node.module or "", alias.name) for alias in node.names)
        elif isinstance(node, ast.Call) and _dotted(node.func, names) in _IMPORTING and (name := _literal(node)):
            yield 0, name, ""


def _literal(call: ast.Call) -> str:
    """The one argument of an import by a call, where it is an absolute name."""
    first = call.args[0] if call.args else None
    is_name = isinstance(first, ast.Constant) and isinstance(first.value, str) and not first.value.startswith(".")
    return first.value if is_name and isinstance(first, ast.Constant) and isinstance(first.value, str) else ""


def _body(nodes: Sequence[ast.AST], names: dict[str, str], others: dict[str, str], first: int = 0) -> Body:
    uses: set[str] = set()
    written = {id(node.value) for node in nodes if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)}
    looks: list[tuple[bool, int, str]] = []
    for node in nodes:
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Load):
                uses.update((node.id, others.get(node.id, node.id)))
            look = _look_of(names.get(node.id, node.id))
        elif isinstance(node, ast.Attribute):
            uses.add(node.attr)
            look = "" if id(node) in written else _look_of(_dotted(node, names))
        elif isinstance(node, ast.Constant):
            text = _REFERENCE.fullmatch(node.value) if isinstance(node.value, str) else None
            uses.update(text.groups() if text is not None else ())
            look = ""
        else:
            look = _look_of_call(node, names) if isinstance(node, ast.Call) else ""
        if look:
            looks.append((look in ASKING, getattr(node, "lineno", 0), look))
    only_asks, line, look = min(looks, default=(False, 0, ""))
    return Body(frozenset(uses), look, line, first=first, only_asks=only_asks)


@functools.lru_cache(maxsize=16384)
def _look_of(dotted: str) -> str:
    """What an expression that means this looks at; empty for nothing."""
    return dotted if _LOOKING.fullmatch(dotted) else ""


def _look_of_call(node: ast.Call, names: dict[str, str]) -> str:
    if isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS:
        return f".{node.func.attr}()"
    dotted = _dotted(node.func, names)
    if dotted in _BUILTINS and isinstance(node.func, ast.Name):
        return f"{dotted}()"
    return f"{dotted}() of a computed name" if dotted in _IMPORTING and not _literal(node) else ""


def _dotted(node: ast.AST, names: dict[str, str]) -> str:
    """What a name means, through the imports of its module; empty for another expression."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    if parts and node.id not in names:
        return ""
    return ".".join([names.get(node.id, node.id), *reversed(parts)])
