"""The ``if TYPE_CHECKING:`` block of a config, by which editors, ruff and type checkers know what its patches use."""
