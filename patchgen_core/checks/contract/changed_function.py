"""A function in the place of upstream's, and the calls that count on upstream's signature."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property

from patchgen_core.checks.contract.keyword_arguments import keywords_handed_on
from patchgen_core.checks.contract.rule import Replaced, Subject
from patchgen_core.checks.contract.signature_changes import SignatureChange, read_signature
from patchgen_core.syntax.nodes import FUNCTIONS, Function, all_methods, last_name
from patchgen_core.syntax.scopes import Call
from patchgen_core.syntax.signatures import Signature, misfit, read_parameters

PREPARING = "prepare_inputs_for_generation"


@dataclass(frozen=True, eq=False)
class ChangedFunction:
    """A replaced function, the one of upstream's in whose place it stands, and who calls it."""

    subject: Subject
    replaced: Replaced
    upstream: Function

    @property
    def dotted(self) -> str:
        """``Class.method`` or ``function``."""
        return self.replaced.dotted

    @cached_property
    def ours(self) -> Signature:
        """What it takes."""
        return read_signature(self.dotted, self.replaced.node)

    @cached_property
    def theirs(self) -> Signature:
        """What upstream's takes."""
        return read_signature(self.dotted, self.upstream)

    @cached_property
    def calls(self) -> list[Call]:
        """The calls in the module that evidently call it."""
        return self.subject.callers.calls_of(self.dotted)

    @cached_property
    def has_known_callers(self) -> bool:
        """Whether all its callers stand in the module."""
        return self.subject.callers.are_known(self.dotted)

    @property
    def suits_own_callers(self) -> bool:
        """Whether only the config's own code calls it, in ways that fit."""
        is_fitting = not any(misfit(call.node, self.ours) for call in self.calls)
        return is_fitting and self.subject.callers.are_own(self.dotted)

    def suits_calls(self, change: SignatureChange) -> bool:
        """Whether every call passes what it takes, and nothing that only upstream's would look at."""
        return all(self._fits(call, change) for call in self.calls)

    def _fits(self, call: Call, change: SignatureChange) -> bool:
        node = call.node
        keywords = {keyword.arg for keyword in node.keywords}
        lost = {parameter.name for parameter in self.theirs.parameters if self.ours.find(parameter.name) is None}
        if misfit(node, self.ours) or lost & keywords:
            return False
        has_stars = None in keywords or any(isinstance(argument, ast.Starred) for argument in node.args)
        if change.kind == "required" and has_stars:
            names = [parameter.name for parameter in self.ours.positional]
            places = {name: names.index(name) if name in names else len(node.args) for name in change.names}
            return all(self.subject.callers.supplies(call, place, name) for name, place in places.items())
        if change.kind == "renamed" and self.subject.is_own(call.owner) and change.names[0] in keywords:
            return True  # its author knows the name, whatever else the stars hold
        return not has_stars

    def passes_by_name(self, names: set[str]) -> bool:
        """Whether a call passes one of some parameters by name."""
        return any(names & {keyword.arg for keyword in call.node.keywords} for call in self.calls)

    def calls_by_position(self, name: str) -> list[Call]:
        """The calls that pass an argument where a parameter of ours stands, meant for upstream's in that place."""
        place = [parameter.name for parameter in self.ours.positional].index(name)
        return [call for call in self.calls if self._counts_on_upstream(call, place)]

    def _counts_on_upstream(self, call: Call, place: int) -> bool:
        arguments = call.node.args
        star = next((n for n, argument in enumerate(arguments) if isinstance(argument, ast.Starred)), None)
        if star is not None and star <= place:
            return True
        if len(arguments) <= place:
            return False
        has_our_name = last_name(arguments[place]) == self.ours.positional[place].name
        is_ours = has_our_name or len(arguments) > len(self.theirs.positional)
        return not (is_ours and self.subject.is_own(call.owner))

    @cached_property
    def keywords_handed_on(self) -> set[str]:
        """The parameters of upstream's that reach what takes them through ``**kwargs``.

        ``generate()`` refuses what a model with a head takes so, unless the class prepares it.
        """
        names = keywords_handed_on(self.subject, self.replaced, self.ours)
        name, _, method = self.dotted.partition(".")
        if method != "forward" or not self.subject.callers.is_for_users(name):
            return names
        prepares = self.subject.generated.function(f"{name}.{PREPARING}")
        return names & {parameter.name for parameter in read_parameters(prepares)} if prepares is not None else set()

    def is_left_out_of_generation(self, names: set[str]) -> bool:
        """Whether the config's own code prepares a head's inputs for ``generate()``, and names none of some."""
        name, _, method = self.dotted.partition(".")
        prepares = self.subject.generated.function(f"{name}.{PREPARING}")
        if prepares is None or method != "forward" or not self.subject.is_own(f"{name}.{PREPARING}"):
            return False
        passed = {str(node.value) for node in ast.walk(prepares) if isinstance(node, ast.Constant)}
        passed |= {keyword.arg or "" for keyword in ast.walk(prepares) if isinstance(keyword, ast.keyword)}
        return not names & passed

    def takes_another_for(self, ours: str, theirs: str) -> bool:
        """Whether a parameter only happens to stand in the place of upstream's: it means something else.

        That is evident where both have defaults, and a function takes both of them or their names have no word in
        common; not where a call passes the place.
        """
        if self.calls_by_position(ours):
            return False
        parameters = (self.ours.find(ours), self.theirs.find(theirs))
        if any(parameter is None or parameter.required for parameter in parameters):
            return False
        is_alike = bool(set(ours.split("_")) & set(theirs.split("_")))
        return not is_alike or self.are_told_apart(ours, theirs)

    def are_told_apart(self, ours: str, theirs: str) -> bool:
        """Whether two names stand for different things: some function has a parameter of each."""
        modules = (self.subject.generated, self.subject.upstream)
        nodes = [node for m in modules for definitions in m.index.definitions.values() for node in definitions]
        functions = [f for node in nodes for f in ([node] if isinstance(node, FUNCTIONS) else all_methods(node))]
        return any({theirs, ours} <= {parameter.name for parameter in read_parameters(f)} for f in functions)
