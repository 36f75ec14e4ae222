"""What the text of a module tells of what it imports, and of what it may look at beside its arguments."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from patchgen_core.syntax.nodes import FUNCTIONS, list_nodes

_LOOKING = re.compile(
    r"""
      (time|random|secrets|uuid|subprocess|socket|requests|httpx|aiohttp|shutil|glob|tempfile|fileinput|sqlite3|mmap
      |pkgutil|runpy|ctypes|gzip|bz2|lzma|zipfile|tarfile|huggingface_hub|datasets|dotenv|joblib|pickle|shelve|dbm
      |linecache|select|signal|resource|getpass|pwd)\..+
    | (urllib\.request|http\.client|numpy\.random|np\.random|safetensors(\.\w+)?|importlib\.resources|torch\.hub)\..+
    | datetime\.(datetime\.(now|utcnow|today)|date\.today)
    | os\.(?!path\b|environ|getenv|sep|linesep|name|PathLike|fspath|cpu_count|pathsep|curdir|pardir|extsep|devnull).+
    | os\.path\.(exists|lexists|isfile|isdir|islink|ismount|getmtime|getatime|getctime|getsize|expanduser|samefile).*
    | (io|codecs)\.open | sys\.(argv|stdin|path|modules|meta_path)(\..+)?
    | importlib\.(reload|util\.\w+|machinery\.\w+) | inspect\.getsource\w*
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
        *("load_dataset", "hf_hub_download", "snapshot_download", "expanduser", "home", "unlink", "mkdir"),
    )
)
_IMPORTING = ("importlib.import_module", "__import__", "import_module")
_TELLING = (ast.Import, ast.ImportFrom, ast.Call)
"""What tells of imports."""


@dataclass(frozen=True)
class Body:
    """Code that runs as one: what it refers to, and its first line that may look at more than its arguments."""

    uses: frozenset[str]
    look: str = ""
    line: int = 0


@dataclass(frozen=True)
class SourceSummary:
    """What a module's text tells.

    Attributes:
        imports: what it imports, as ``from`` has it: dots, module, and a name or nothing.
        top: what runs when it is imported.
        bodies: its functions and methods.
        places: which of them run by a name: a function by its own, and the methods of a class by the name of that as
            well. A class without methods has none.
    """

    imports: frozenset[tuple[int, str, str]]
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
    names = dict(_aliases(nodes))
    imports = frozenset(_imports(nodes, names))
    bodies: list[Body] = []
    places: dict[str, list[int]] = {}
    top: list[ast.AST] = []

    def collect(node: ast.AST, owners: tuple[str, ...]) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, FUNCTIONS):
                for name in (child.name, *owners):
                    places.setdefault(name, []).append(len(bodies))
                bodies.append(_body(list_nodes(child), names))
                for part in (*child.decorator_list, child.args):
                    top.extend(list_nodes(part))
            elif isinstance(child, ast.ClassDef):
                for name in (child.name, *owners):
                    places.setdefault(name, [])
                collect(child, (*owners, child.name))
            else:
                top.append(child)
                collect(child, owners)

    collect(tree, ())
    return SourceSummary(
        imports, _body(top, names), tuple(bodies), {name: tuple(each) for name, each in places.items()}
    )


def _aliases(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, str]]:
    """What names of imports stand for, wherever in the module these are."""
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield (alias.asname, alias.name) if alias.asname else (alias.name.partition(".")[0],) * 2
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from ((alias.asname or alias.name, f"{node.module}.{alias.name}") for alias in node.names)


def _imports(nodes: Iterable[ast.AST], names: dict[str, str]) -> Iterator[tuple[int, str, str]]:
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


def _body(nodes: Iterable[ast.AST], names: dict[str, str]) -> Body:
    uses: set[str] = set()
    looks: list[tuple[int, str]] = []
    for node in nodes:
        if isinstance(node, ast.Name):
            uses.add(node.id)
            look = _look_of(names.get(node.id, node.id))
        elif isinstance(node, ast.Attribute):
            uses.add(node.attr)
            look = _look_of(_dotted(node, names))
        else:
            look = _look_of_call(node, names) if isinstance(node, ast.Call) else ""
        if look:
            looks.append((getattr(node, "lineno", 0), look))
    line, look = min(looks, default=(0, ""))
    return Body(frozenset(uses), look, line)


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
