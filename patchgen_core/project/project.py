"""``[tool.patchgen]``: where a project keeps its configs, and how its generated files are normalized."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from patchgen_core.errors import Location, PatchgenError, closest, did_you_mean, display_path
from patchgen_core.project.file_tree import module_file, walk_files
from patchgen_core.project.parity_settings import ParitySettings
from patchgen_core.project.pyproject import PYPROJECT, key_line
from patchgen_core.project.severity_settings import Severity
from patchgen_core.project.sharded_settings import ShardedSettings
from patchgen_core.project.shared_cache_settings import SharedCacheSettings

CONFIG_SUFFIX = "_patch_gen_config.py"
OUTPUT_FOLDER = "generated"
LEGACY_FOLDER = "patches"


@dataclass(frozen=True)
class Project:
    """A project whose models are patched. The reference documentation calls it ``DiscoveryConfig``.

    Attributes:
        search_root: folder below which the configs lie.
        package_prefix: the Python package that ``search_root`` is.
        legacy_patches_prefix: package whose modules may be named ``patches.<name>`` for short, and that
            may hold configs under other file names.
        ruff_extra_ignore: ruff rules to ignore in generated files, beside the project's own.
        diffs: whether every generated module that is checked in has its ``.diff`` beside it. If not, only one that
            is there is kept current.
        ruff_isolated: normalize with ruff's defaults, whatever ruff settings the project has.
        real_imports: modules that configs get for real instead of as stubs while they are loaded.
        optional_packages: packages that only some machines have. Where one is not installed, generated modules
            that import it are not imported, and reports say so.
        select, ignore: contract rules to run and to leave out, by their codes or the beginnings of codes.
        per_config_ignore: rules to leave out for single configs: pairs of a pattern, of a config's dotted name or
            of its path from the root, and codes.
        severity: what findings weigh, by rule or check, and by config or folder.
        baseline: file of findings that are known and held back, from ``root``
            (:mod:`patchgen_core.checks.baseline`).
        kernels: modules and packages that register the kernels for op slots.
        setup: the ``package.module:function`` that prepares the project's run time in the process that runs models
            (:class:`~patchgen_core.models.model_setup.ModelSetup`); empty for none.
        cache_dir: folder that results are kept in, from ``root``; the environment variable ``PATCHGEN_CACHE_DIR``
            wins over it.
        parity: the settings of ``[tool.patchgen.parity]``.
        sharded: the settings of ``[tool.patchgen.sharded]``.
        shared_cache: the settings of ``[tool.patchgen.shared_cache]``.
        upstream: folders that upstream's modules are looked for in before the installed ones, such as those of
            another release (:mod:`patchgen_core.upstream.releases`).
        root: folder of the ``pyproject.toml``; by default the nearest one above an absolute ``search_root``,
            and the working directory for a relative one.
    """

    search_root: Path
    package_prefix: str
    legacy_patches_prefix: str | None = None
    ruff_extra_ignore: tuple[str, ...] = ()
    ruff_isolated: bool = False
    diffs: bool = False
    real_imports: tuple[str, ...] = ()
    optional_packages: tuple[str, ...] = ()
    select: tuple[str, ...] = ("ALL",)
    ignore: tuple[str, ...] = ()
    per_config_ignore: tuple[tuple[str, tuple[str, ...]], ...] = ()
    severity: tuple[Severity, ...] = ()
    baseline: str = "patchgen-baseline.json"
    kernels: tuple[str, ...] = ()
    setup: str = ""
    cache_dir: str = ".patchgen_cache"
    parity: ParitySettings = field(default_factory=ParitySettings)
    sharded: ShardedSettings = field(default_factory=ShardedSettings)
    shared_cache: SharedCacheSettings = field(default_factory=SharedCacheSettings)
    upstream: tuple[Path, ...] = ()
    root: Path | None = None

    def __post_init__(self) -> None:
        root = Path(os.path.abspath(self.root or _root_above(Path(self.search_root))))
        object.__setattr__(self, "root", root)
        object.__setattr__(self, "search_root", Path(os.path.abspath(root / self.search_root)))
        for name in ("ruff_extra_ignore", "real_imports", "optional_packages", "select", "ignore", "kernels"):
            value = getattr(self, name)
            if isinstance(value, str):
                raise PatchgenError(f"{name} must be a list of strings, not {value!r}")
            object.__setattr__(self, name, tuple(value))
        pairs = self.per_config_ignore
        pairs = tuple(pairs.items()) if isinstance(pairs, Mapping) else pairs
        if any(isinstance(codes, str) for _, codes in pairs):
            raise PatchgenError(
                f"per_config_ignore must be a table of lists of strings, not {self.per_config_ignore!r}"
            )
        object.__setattr__(self, "per_config_ignore", tuple((pattern, tuple(codes)) for pattern, codes in pairs))

    @property
    def base(self) -> Path:
        """The project's root folder, absolute."""
        assert self.root is not None
        return self.root

    def key_location(self, key: str, table: str = "") -> Location:
        """Where ``[tool.patchgen]``, or a table in it, has a key, for errors; the file when it has not."""
        path = self.base / PYPROJECT
        name = f"tool.patchgen.{table}".rstrip(".")
        return Location(str(path), key_line(path, key, name) if path.is_file() else 0)

    @cached_property
    def import_roots(self) -> tuple[Path, ...]:
        """Folders that the project's own packages are imported from, the one of ``package_prefix`` first."""
        folder = self.search_root
        for part in reversed(self.package_prefix.split(".")):
            if folder.name != part:
                return (self.base,)
            folder = folder.parent
        return (folder,) if folder == self.base else (folder, self.base)

    def module_name(self, path: Path) -> str:
        """The dotted name of a file; outside ``search_root``, the path from the nearest import root."""
        path = Path(os.path.abspath(path))
        for base, prefix in ((self.search_root, self.package_prefix), *((r, "") for r in self.import_roots)):
            if path.is_relative_to(base):
                parts = path.relative_to(base).with_suffix("").parts
                if parts and parts[-1] == "__init__":
                    parts = parts[:-1]
                return ".".join([*([prefix] if prefix else []), *parts])
        return path.stem

    def module_path(self, module: str) -> Path | None:
        """The file of one of the project's own modules, or None when there is none."""
        below = _below(module, self.package_prefix)
        if below is not None and (path := module_file(self.search_root, below)):
            return path
        for root in self.import_roots:
            if path := module_file(root, tuple(module.split("."))):
                return path
        return None

    def has_package(self, top: str) -> bool:
        """Whether the project has modules of a top-level name; without one, `module_path` finds none of it."""
        is_prefix = top == self.package_prefix.partition(".")[0]
        return is_prefix or any(root.joinpath(top).is_dir() or module_file(root, (top,)) for root in self.import_roots)

    def config_path(self, name: str) -> Path:
        """The config file that a dotted module, ``patches.<name>`` or a path means; an error names the nearest."""
        if name.endswith(".py") or os.sep in name:
            path = Path(os.path.abspath(name))
            if path.is_file():
                return path
            raise PatchgenError(f"there is no config file '{name}' in this project", None, self._near_path(path))
        module = name
        if self.legacy_patches_prefix and _below(name, LEGACY_FOLDER) is not None:
            module = f"{self.legacy_patches_prefix}{name[len(LEGACY_FOLDER) :]}"
        file = self.module_path(module)
        if file is not None and file.name != "__init__.py":
            return file
        base, _, variable = module.partition(":")
        if variable and self.module_path(base) is not None:
            raise PatchgenError(
                f"'{module}' names a variable of a config file", None, f"Write '{base} -c {variable}'."
            )
        modules = [self.module_name(path) for path in self.find_configs()]
        inside = [other for other in modules if other.startswith(f"{module}.")]
        hint = (
            did_you_mean(module, inside or modules)
            or (inside and f"Did you mean '{inside[0]}'?")
            or _near_package(module, modules)
            or _near_file(module, modules)
            or self._where
        )
        raise PatchgenError(f"there is no patch config '{module}' in this project", None, hint)

    @property
    def _where(self) -> str:
        return f"Its configs are below '{display_path(self.search_root)}'."

    def _near_path(self, path: Path) -> str:
        """A hint at the config, or the folder with one, whose path is nearest to another."""
        configs = self.find_configs()
        folders = {folder for file in configs for folder in file.parents if folder.is_relative_to(self.search_root)}
        near = did_you_mean(display_path(path), map(display_path, (*configs, *folders)))
        return near or self._where

    def package_folder(self, name: str) -> Path:
        """The folder of a package below ``package_prefix``, whether there is one or not."""
        return self.search_root.joinpath(*(_below(name, self.package_prefix) or ()))

    def output_folder(self, config: Path) -> Path:
        """Where a config's generated files go: ``generated/`` beside it, or beside its ``patches/`` folder."""
        folder = config.parent.parent if config.parent.name == LEGACY_FOLDER else config.parent
        return folder / OUTPUT_FOLDER

    def find_configs(self) -> list[Path]:
        """Every config file of the project, in path order; those of projects inside it are not its own."""
        if not self.search_root.is_dir():
            raise PatchgenError(
                f"search_root '{display_path(self.search_root)}' is not a folder",
                Location(str(self.base / PYPROJECT)),
            )
        configs = {path for path in walk_files(self.search_root) if path.name.endswith(CONFIG_SUFFIX)}
        return sorted(configs.union(self._legacy_configs()))

    def _legacy_configs(self) -> Iterator[Path]:
        below = _below(self.legacy_patches_prefix or "", self.package_prefix)
        folder = self.search_root.joinpath(*(below or ()))
        if below is None or not folder.is_dir():
            return
        for path in walk_files(folder):
            if path.suffix == ".py" and not path.name.startswith("_") and _makes_a_config(path):
                yield path


DiscoveryConfig = Project
"""The reference documentation's name of :class:`Project`."""


def _below(module: str, prefix: str) -> tuple[str, ...] | None:
    """The parts of ``module`` below the package ``prefix``, or None when it is not below it."""
    if module == prefix:
        return ()
    return tuple(module[len(prefix) + 1 :].split(".")) if module.startswith(prefix + ".") else None


def _makes_a_config(path: Path) -> bool:
    text = path.read_text(encoding="utf-8", errors="replace")
    if "PatchConfig" not in text:
        return False
    import ast

    try:
        tree = ast.parse(text)
    except SyntaxError:
        return True
    calls = (stmt.value for stmt in tree.body if isinstance(stmt, (ast.Assign, ast.AnnAssign)))
    return any(isinstance(c, ast.Call) and ast.unparse(c.func).endswith("PatchConfig") for c in calls)


def _near_package(module: str, modules: Sequence[str]) -> str:
    """A hint at a config of the package whose name is nearest to a module's."""
    packages = {other.rpartition(".")[0]: other for other in reversed(modules)}
    near = closest(module, packages)
    return f"Did you mean '{packages[near]}'?" if near is not None else ""


def _near_file(name: str, modules: Sequence[str]) -> str:
    """A hint at the first config whose file's name begins with a name."""
    near = next((module for module in modules if module.rpartition(".")[2].startswith(name)), None)
    return f"Did you mean '{near}'?" if near is not None else ""


def no_configs(project: Project) -> PatchgenError:
    """The error of a project that has no configs."""
    return PatchgenError(
        f"there is no patch config below '{display_path(project.search_root)}'",
        None,
        f"A config is a file whose name ends in '{CONFIG_SUFFIX}'.",
    )


def _root_above(search_root: Path) -> Path:
    """The nearest folder above an absolute folder that has a ``pyproject.toml``; else the working directory."""
    if search_root.is_absolute():
        for folder in search_root.parents:
            if (folder / PYPROJECT).is_file():
                return folder
        return search_root.parent
    return Path.cwd()
