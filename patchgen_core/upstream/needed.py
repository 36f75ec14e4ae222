"""Which files of a release are needed to look at some of its modules."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator

from patchgen_core.errors import closest

MODELS = "models"
"""The subpackage that holds a folder for each model."""

_IMPORT = re.compile(
    r"^[ \t]*from[ \t]+(\.*)([\w.]*)[ \t]+import[ \t]+(\([^)]*\)|[^\n]*)|^[ \t]*import[ \t]+([^\n]+)", re.MULTILINE
)
_NAME = re.compile(r"[\w.]+")


def dotted_name(file: str) -> str:
    """The module that a file of a package is, given with forward slashes from the package's parent."""
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def nearest_module(module: str, modules: Collection[str]) -> str | None:
    """The module of a release nearest to one that it lacks: one as deep in the package, else any."""
    depth = module.count(".")
    return closest(module, (name for name in modules if name.count(".") == depth)) or closest(module, modules)


def needed_files(package: str, files: Collection[str], modules: Iterable[str], read: Callable[[str], str]) -> set[str]:
    """The files that are read when some modules are generated from, compared or checked.

    The modules' own folders, those of the models that these import, the package's top-level modules, and the
    subpackages that are imported on the way. Imports are followed from module to module, those inside functions as
    well; they are found in the text, which takes a thirtieth of the time that parsing does: what looks like an import
    and is none, in a docstring, names no file or one that does no harm. Of a module that is not there, the nearest
    one is taken, for the error that names it.

    Args:
        package: name of the top-level package.
        files: all Python files of the release, with forward slashes, from the package's parent.
        modules: dotted names of the wanted modules.
        read: returns the text of a file.
    """
    by_name = {dotted_name(file): file for file in files}
    wanted = {name for name in modules if name.partition(".")[0] == package}
    near = {nearest_module(name, by_name) for name in wanted - set(by_name)} - {None}
    roots = {package, f"{package}.{MODELS}"}  # whose __init__ imports everything
    reached: set[str] = set()
    rest = [name for name in (*wanted, *filter(None, near)) if name in by_name]
    while rest:
        name = rest.pop()
        if name in reached:
            continue
        reached.add(name)
        if name not in roots:
            found = _imported(name, by_name[name], read(by_name[name]))
            rest += [other for other in found if other in by_name and other not in reached]
    units = {_unit(by_name[name]) for name in reached}
    return {file for file in files if file.count("/") == 1 or _unit(file) in units or dotted_name(file) in roots}


def _unit(file: str) -> str:
    """What is taken together: a model's folder, another subpackage, or a module that stands alone."""
    parts = file.split("/")
    depth = 3 if parts[1] == MODELS else 2
    return file if len(parts) <= depth else "/".join(parts[:depth])


def _imported(name: str, file: str, text: str) -> Iterator[str]:
    """The names that a module may import as modules."""
    package = name if file.endswith("/__init__.py") else name.rpartition(".")[0]
    for found in _IMPORT.finditer(text):
        dots, module, names, plain = found.groups()
        if plain is not None:
            yield from _NAME.findall(plain)
            continue
        parents = package.split(".") if dots else []
        base = ".".join([*parents[: len(parents) - len(dots) + 1], *filter(None, [module])])
        yield base
        yield from (f"{base}.{imported}" for imported in _NAME.findall(names))
