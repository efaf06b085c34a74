"""The order of a project's models and tests by what they read, and the selection of models by name.

Knows only names: each model and test with the tables that it reads.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from graphlib import CycleError, TopologicalSorter

from hudisql.errors import InvalidArgumentError


@dataclass(frozen=True)
class Lineage:
    """Models by full name, each with the names that it reads, some of which are models."""

    reads: Mapping[str, Collection[str]]

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The models, each after those that it reads. Raises InvalidArgumentError for a cycle."""
        graph = {name: sorted(self.parents(name)) for name in sorted(self.reads)}
        try:
            return tuple(TopologicalSorter(graph).static_order())
        except CycleError as error:
            path = " → ".join(error.args[1])
            raise InvalidArgumentError(
                f"the models read each other in a cycle: {path} (each is read by the next)",
                hint="a model cannot read a table that depends on it: let one of them read a source",
            ) from error

    def parents(self, name: str) -> set[str]:
        """The models that a model reads."""
        return {read for read in self.reads[name] if read in self.reads}

    def above(self, names: Iterable[str]) -> set[str]:
        """The models that depend on one of these names (models or sources), directly or through others."""
        found = set(names)
        reached = set()
        for name in self.order:
            if found & set(self.reads[name]):
                found.add(name)
                reached.add(name)
        return reached

    def below(self, name: str) -> set[str]:
        """The models that a model depends on, directly or through others."""
        dependencies: set[str] = set()
        for model in reversed(self.order):
            if model == name or model in dependencies:
                dependencies |= self.parents(model)
        return dependencies

    def select(self, selections: Sequence[str]) -> tuple[str, ...]:
        """The selected models in order: `name`, `name+` with its dependents, `+name` with its dependencies.

        `*` in a name matches any characters; a name without database is sufficient if it is unique. Without
        selections all are selected. Raises InvalidArgumentError for a selection without a model.
        """
        chosen: set[str] = set() if selections else set(self.order)
        for selection in selections:
            names = self._named(selection.removeprefix("+").removesuffix("+"), selection)
            chosen |= names
            if selection.endswith("+"):
                chosen |= self.above(names)
            if selection.startswith("+"):
                chosen |= {model for name in names for model in self.below(name)}
        return tuple(name for name in self.order if name in chosen)

    def _named(self, pattern: str, selection: str) -> set[str]:
        wanted = pattern.lower()
        found = {
            name
            for name in self.order
            if fnmatchcase(name, wanted) or ("." not in wanted and fnmatchcase(name.split(".")[-1], wanted))
        }
        if not found or ("*" not in wanted and len(found) > 1):
            problem = f"matches {' and '.join(sorted(found))}" if found else "matches no model"
            raise InvalidArgumentError(
                f"--select {selection} {problem}", hint=f"the models are {', '.join(self.order)}"
            )
        return found


def waits_for_tests(lineage: Lineage, tests: Mapping[str, Collection[str]]) -> dict[str, set[str]]:
    """The tests that must pass before each model is refreshed, by model; `tests` have the names they read.

    A model waits for the tests that read only tables that it depends on.
    """
    needed: dict[str, set[str]] = {}
    for model in lineage.order:
        below = lineage.below(model)
        needed[model] = {
            test
            for test, names in tests.items()
            if (own := {name for name in names if name in lineage.reads}) and own <= below
        }
    return needed
