"""The tables and functions that a parsed statement names, from Spark's unresolved plan as JSON.

`TreeNode.toJSON` lists the nodes of a plan in pre-order, with expressions and the plans of subqueries and
CTEs as trees in their fields, in one call of the JVM. Only nodes that are known to hide nothing in another
form are accepted; the name of any other one is in `unknown`. Knows neither rights nor the metastore.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

Name = tuple[str, ...]
Node = Mapping[str, Any]
_QUERIES: Final = frozenset(
    {
        *("Project", "Filter", "Aggregate", "Join", "Sort", "GlobalLimit", "LocalLimit", "LimitAll"),
        *("Offset", "Union", "Intersect", "Except", "Distinct", "SubqueryAlias", "OneRowRelation"),
        *("LocalRelation", "Sample", "Generate", "LateralJoin", "UnresolvedHint", "Pivot", "Unpivot"),
        *("RepartitionByExpression", "PipeOperator"),
    }
)
_CHANGES: Final = frozenset({"UpdateTable", "DeleteFromTable", "MergeIntoTable"})
_PARTS_OF_CHANGES: Final = frozenset(
    {
        *("Assignment", "UpdateAction", "InsertAction", "DeleteAction", "UpdateStarAction"),
        *("InsertStarAction", "QualifiedColType", "ColumnDefinition", "DefaultValueExpression"),
        *("UnresolvedTableSpec", "OptionList", "AlterColumnSpec"),
    }
)
_UNRESOLVED: Final = frozenset(
    {
        *("UnresolvedAttribute", "UnresolvedStar", "UnresolvedStarExceptOrReplace"),
        *("UnresolvedAlias", "UnresolvedInlineTable", "UnresolvedSubqueryColumnAliases"),
        *(
            "UnresolvedExtractValue",
            "UnresolvedHaving",
            "UnresolvedQualify",
            "MultiAlias",
            "UnresolvedRegex",
            "UnresolvedTVFAliases",
        ),
        *("UnresolvedCollation", "UnresolvedNamedLambdaVariable", "UnresolvedOrdinal"),
        *("UnresolvedPartitionSpec", "UnresolvedFieldName", "UnresolvedFieldPosition"),
        *("UnresolvedFunctionName", "NamePlaceholder$", "CurrentNamespace$", "RelationTimeTravel"),
    }
)
_SUBJECTS: Final = frozenset(
    {"UnresolvedTable", "UnresolvedTableOrView", "UnresolvedView", "UnresolvedIdentifier"}
)
_RUNS_CODE: Final = frozenset({"CallMethodViaReflection", "TryReflect", "ScalaUDF", "PythonUDF"})
NAMED_WINDOWS: Final = "WithWindowDefinition"
_CATALYST: Final = "org.apache.spark.sql.catalyst."


@dataclass
class ParsedNames:
    """What a plan names, each once and in order: names as their parts, without quotes.

    `root` is the class of its first node, `windows` the number of nodes with named windows, which JSON leaves
    out. `subjects` and `databases` are those of a command, `unknown` is what is not understood. The arguments
    of a table function are None unless they are constants, and the first one a string.
    """

    root: str = ""
    windows: int = 0
    reads: dict[Name, None] = field(default_factory=dict)
    writes: dict[Name, None] = field(default_factory=dict)
    subjects: dict[Name, None] = field(default_factory=dict)
    databases: dict[Name, None] = field(default_factory=dict)
    functions: dict[Name, None] = field(default_factory=dict)
    table_functions: list[tuple[Name, tuple[str, ...] | None]] = field(default_factory=list)
    unknown: dict[str, None] = field(default_factory=dict)


class NameReader:
    """Reads the trees of one statement; `found` are the names so far."""

    def __init__(self, *, ignores_case: bool, command: str | None = None) -> None:
        """`command` is the class of a command that the first node may be."""
        self._ignores_case = ignores_case
        self._command = command
        self.found = ParsedNames()

    def read(self, tree: str) -> None:
        """Read the JSON of a plan or an expression."""
        nodes = json.loads(tree)
        self.found.root = self.found.root or _kind(nodes[0])
        self._visit(nodes, frozenset())

    def _visit(self, nodes: Sequence[Node], hidden: frozenset[str]) -> None:
        """Visit the nodes of a tree; `hidden` are the CTEs in scope."""
        outer: list[tuple[int, frozenset[str]]] = []
        targets: set[int] = set()
        for position, node in enumerate(nodes):
            while outer and position >= outer[-1][0]:
                hidden = outer.pop()[1]
            kind = _kind(node)
            if kind in _CHANGES:
                targets.add(self._target_of(nodes, position))
            if kind == "UnresolvedWith":
                outer.append((_end_of(nodes, position), hidden))
                hidden = self._visit_definitions(node, hidden)
                continue
            if position in targets:
                self.found.writes[_parts(node["multipartIdentifier"])] = None
            else:
                self._take(node, kind, hidden)
            # Spark refuses CTEs with a time: whatever the name is, it is a table's.
            inside = frozenset[str]() if kind == "RelationTimeTravel" else hidden
            skipped = "table" if kind == "InsertIntoStatement" else None
            for tree in _trees_in([value for key, value in node.items() if key != skipped]):
                self._visit(tree, inside)

    def _visit_definitions(self, node: Node, hidden: frozenset[str]) -> frozenset[str]:
        for definition in node["cteRelations"]:
            name = self._folded(definition["_1"])
            inside = hidden | {name} if node.get("allowRecursion") else hidden
            trees = list(_trees_in(definition["_2"]))
            if len(trees) != 1:
                self.found.unknown["a common table expression"] = None
            for tree in trees:
                self._visit(tree, inside)
            hidden |= {name}
        return hidden

    def _folded(self, name: str) -> str:
        return name.lower() if self._ignores_case else name

    def _take(self, node: Node, kind: str, hidden: frozenset[str]) -> None:
        found = self.found
        if kind == "UnresolvedRelation":
            parts = _parts(node["multipartIdentifier"])
            if node.get("isStreaming"):
                found.unknown["a stream"] = None
            if len(parts) != 1 or self._folded(parts[0]) not in hidden:
                found.reads[parts] = None
        elif kind == "UnresolvedFunction":
            found.functions[_parts(node["nameParts"])] = None
        elif kind == "UnresolvedGenerator":
            function = node["name"]
            database = [function["database"]] if function.get("database") else []
            found.functions[*database, function["funcName"]] = None
        elif kind == "UnresolvedTableValuedFunction":
            found.table_functions.append((_parts(node["name"]), _constants(node["functionArgs"])))
        elif kind in _SUBJECTS:
            found.subjects[_parts(node.get("multipartIdentifier") or node["nameParts"])] = None
        elif kind == "UnresolvedNamespace":
            found.databases[_parts(node["multipartIdentifier"])] = None
        elif kind == "InsertIntoStatement":
            self._take_insert(node)
        elif kind == NAMED_WINDOWS:
            found.windows += 1
        elif not self._is_known(node, kind):
            found.unknown[kind] = None

    def _take_insert(self, node: Node) -> None:
        (target,) = _trees_in(node["table"])
        if len(target) == 1 and _kind(target[0]) == "UnresolvedRelation":
            self.found.writes[_parts(target[0]["multipartIdentifier"])] = None
        else:
            self.found.unknown["the target of INSERT"] = None

    def _target_of(self, nodes: Sequence[Node], start: int) -> int:
        """The position of the relation that the change at `start` changes; -1 if it is something else."""
        position = start + 1
        while position < len(nodes) and _kind(nodes[position]) == "SubqueryAlias":
            position += 1
        if position < len(nodes) and _kind(nodes[position]) == "UnresolvedRelation":
            return position
        self.found.unknown["the target of a change"] = None
        return -1

    def _is_known(self, node: Node, kind: str) -> bool:
        package = str(node["class"]).removesuffix(f".{kind}")
        if kind == self._command:
            return True
        if package == f"{_CATALYST}plans.logical":
            return kind in _QUERIES or kind in _CHANGES or kind in _PARTS_OF_CHANGES
        if package == f"{_CATALYST}analysis":
            return kind in _UNRESOLVED
        is_expression = f"{package}.".startswith(f"{_CATALYST}expressions.")
        # Spark's parser makes them of its grammar; functions are `UnresolvedFunction`.
        return is_expression and kind not in _RUNS_CODE


def _kind(node: Node) -> str:
    return str(node["class"]).rpartition(".")[2]


def _parts(text: Any) -> Name:
    """The parts of a name in the form `[a, b]`, or as a list."""
    if isinstance(text, list):
        return tuple(map(str, text))
    return tuple(str(text).removeprefix("[").removesuffix("]").split(", "))


def _end_of(nodes: Sequence[Node], start: int) -> int:
    """The position behind the node at `start` and all nodes below it."""
    missing, position = 1, start
    while missing:
        missing += int(nodes[position]["num-children"]) - 1
        position += 1
    return position


def _trees_in(value: Any) -> Iterator[Sequence[Node]]:
    """The outermost trees in the value of a field: in lists, options and tuples too."""
    if isinstance(value, Mapping):
        if "class" in value:
            yield [value]
        else:
            yield from _trees_in(list(value.values()))
    elif isinstance(value, list):
        if value and isinstance(value[0], Mapping) and "class" in value[0]:
            yield value
            return
        for item in value:
            yield from _trees_in(item)


def _constants(arguments: Any) -> tuple[str, ...] | None:
    """The values of the arguments of a call; None if one is not a constant, or the first is not a string."""
    trees = list(_trees_in(arguments))
    is_named = bool(trees) and trees[0][0].get("dataType") == "string"
    if is_named and all(len(tree) == 1 and _kind(tree[0]) == "Literal" for tree in trees):
        return tuple(str(tree[0].get("value")) for tree in trees)
    return None
