"""Names that upstream changed in a definition, and the places and the code of edits with them."""

from __future__ import annotations

import contextlib
import io
import tokenize
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from itertools import islice, product

from patchgen_core.syntax.edits import Edit, apply_edits
from patchgen_core.syntax.patterns import stand_in, with_metavariables
from patchgen_core.upgrade.carrying.definitions import ReleaseDefinition
from patchgen_core.upgrade.merging.renames import paired_tokens

_MOST = 48
"""How many ways to rename several names are tried."""

Renames = Mapping[str, str]


def find_renames(old: ReleaseDefinition, new: ReleaseDefinition, wanted: Collection[str]) -> Iterator[Renames]:
    """What some names of a definition may be called in another release: names that are gone, and ones that are new.

    A variable of the function has another one in its place; any other name, as of an attribute or a function, must
    be in no place of the new module, and its new name in none of the old one.
    """
    gone = sorted(name for name in wanted if name in old.identifiers and name not in new.identifiers)
    if not gone:
        return
    pairs: dict[str, Counter[str]] = defaultdict(Counter)
    for one, other in paired_tokens(old.text, new.text):
        if one in gone and _is_rename(one, other, old, new):
            pairs[one][other] += 1
    options = [[other for other, _ in pairs[one].most_common(3)] or [one] for one in gone]
    for others in islice(product(*options), _MOST):
        renames = {one: other for one, other in zip(gone, others) if one != other}
        if renames and len(set(renames.values())) == len(renames):
            yield renames


def _is_rename(one: str, other: str, old: ReleaseDefinition, new: ReleaseDefinition) -> bool:
    if not other.strip("_").isidentifier() or other in old.identifiers or other not in new.identifiers:
        return False
    if one in old.variables or other in new.variables:
        return one in old.variables and other in new.variables
    return one not in new.module_identifiers and other not in old.module_identifiers


def rename_code(text: str, renames: Renames, variables: Collection[str] = ()) -> str:
    """A piece of source with the new names; those of ``variables`` not behind a dot or as names of arguments."""
    if not renames:
        return text
    plain = stand_in(text)
    starts = [0]
    for line in plain.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    edits = []
    for before, token, after in _tokens(plain):
        new = renames.get(token.string) if token.type == tokenize.NAME else None
        is_other = before == "." or (after == "=" and before in ("(", ","))
        if new is not None and not (is_other and token.string in variables):
            start, end = (starts[line - 1] + column for line, column in (token.start, token.end))
            edits.append(Edit(start, end, new))
    return with_metavariables(apply_edits(plain, edits)[0])


def _tokens(text: str) -> Iterator[tuple[str, tokenize.TokenInfo, str]]:
    """The tokens of a text, each with the texts of those around it; as many as can be read."""
    tokens: list[tokenize.TokenInfo] = []
    with contextlib.suppress(tokenize.TokenError, SyntaxError):
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type not in (tokenize.NL, tokenize.COMMENT):
                tokens.append(token)
    strings = ["", *(token.string for token in tokens), ""]
    yield from zip(strings, tokens, strings[2:])
