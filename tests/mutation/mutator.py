"""Makes mutations: one operator, number, name or statement of a source changed, the rest left as it is.

What is changed:

- a comparison: its border (`<` to `<=`), and its sense (`<` to `>=`, `==` to `!=`, `in` to `not in`);
- a condition, or what a function of conditions returns: negated; `and` to `or`; `not x` and `~x` to `x`;
- `+` to `-`, `*` to `//`, `|` to `&`, and back;
- a number: one more and one less; `True` to `False`; what `sum`, `min`, `max` and their likes choose; "left" to "right";
- a statement with an effect: left out; `break` to `continue` and back; what is returned: nothing instead.

Assertions, annotations, texts, decorators and enumerations are left alone: an assertion guards what must not happen anyway, and only a
second bug could show that it is gone. An edit is cut into the text at the place that the parser names, so that the rest of
a line, and its number, stay what a reader knows.
"""

import ast
from collections.abc import Iterator, Sequence

import attrs

COMPARISONS: dict[type[ast.cmpop], tuple[str, ...]] = {
    ast.Lt: ("<=", ">="),
    ast.LtE: ("<", ">"),
    ast.Gt: (">=", "<="),
    ast.GtE: (">", "<"),
    ast.Eq: ("!=",),
    ast.NotEq: ("==",),
    ast.Is: ("is not",),
    ast.IsNot: ("is",),
    ast.In: ("not in",),
    ast.NotIn: ("in",),
}
OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "//",
    ast.FloorDiv: "*",
    ast.Div: "*",
    ast.Mod: "//",
    ast.BitOr: "&",
    ast.BitAnd: "|",
}
TWINS = {
    one: other
    for pair in (
        ("min", "max"),
        ("any", "all"),
        ("argmin", "argmax"),
        ("minimum", "maximum"),
        ("popleft", "pop"),
        ("appendleft", "append"),
        ("bisect_left", "bisect_right"),
        ("zeros", "ones"),
    )
    for one, other in (pair, pair[::-1])
}
SIDES = {"left": "right", "right": "left"}


@attrs.frozen
class Mutation:
    """One change: in which function (dotted name; empty at the top of the module), and the line before and after."""

    module: str
    function: str
    line: int
    before: str
    after: str
    source: str
    """The whole module with the change in it."""
    is_in_body: bool = False
    """True if it is within the body of a function, so that nothing that happens at import is changed."""

    def __str__(self) -> str:
        return f"{self.module}:{self.line} {self.function}\n  - {self.before}\n  + {self.after}"


@attrs.frozen
class _Edit:
    node: ast.AST
    text: str


@attrs.frozen
class _Place:
    """The place of a node: the dotted name of the function or class around it."""

    name: str = ""
    is_body: bool = False


def mutations(module: str, source: str, functions: Sequence[str] = ()) -> list[Mutation]:
    """Every mutation of `source`; of these functions (dotted names) alone if any are named."""
    text = _Text(source)
    found: dict[str, Mutation] = {}
    for place, edit in _walk(ast.parse(source), _Place()):
        if functions and place.name not in functions:
            continue
        changed = text.with_edit(edit)
        line = edit.node.lineno  # type: ignore[attr-defined]  # every edited node has a place
        before, after = text.difference(changed)
        found.setdefault(changed, Mutation(module, place.name, line, before, after, changed, place.is_body))
    return [mutation for mutation in found.values() if mutation.source != source]


class _Text:
    """A source in bytes, for the parser counts columns in bytes."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._bytes = source.encode()
        self._starts = [0]
        for line in self._bytes.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def with_edit(self, edit: _Edit) -> str:
        """The source with one node replaced."""
        begin, end = self._span(edit.node)
        return (self._bytes[:begin] + edit.text.encode() + self._bytes[end:]).decode()

    def _span(self, node: ast.AST) -> tuple[int, int]:
        begin = self._starts[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
        end = self._starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]
        return begin, end

    def difference(self, changed: str) -> tuple[str, str]:
        """The lines that differ, without their margins, as they were and as they are."""
        old, new = self._source.splitlines(), changed.splitlines()
        first = next((at for at, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), 0)
        same_end = next((at for at, (a, b) in enumerate(zip(reversed(old), reversed(new), strict=False)) if a != b), 0)
        lines = old[first : len(old) - same_end], new[first : len(new) - same_end]
        before, after = (" ".join(line.strip() for line in each) for each in lines)
        return before, after


def _walk(node: ast.AST, place: _Place) -> Iterator[tuple[_Place, _Edit]]:
    """All edits below `node`."""
    if isinstance(node, ast.Assert | ast.Import | ast.ImportFrom | ast.JoinedStr | ast.Raise) or _is_enumeration(node):
        return
    for edit in _of(node):
        yield place, edit
    inner = place
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        name = f"{place.name}.{node.name}".lstrip(".")
        inner = _Place(name, place.is_body or isinstance(node, ast.FunctionDef))
    for name, value in ast.iter_fields(node):
        if name in SKIPPED:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _walk(
                    child, inner if inner is place or name == "body" else _Place(inner.name, place.is_body)
                )


def _is_enumeration(node: ast.AST) -> bool:
    """Its numbers are names, of which one is as good as another."""
    return isinstance(node, ast.ClassDef) and any("Enum" in ast.unparse(base) for base in node.bases)


SKIPPED = frozenset({"annotation", "returns", "decorator_list", "type_params", "bases"})


def _of(node: ast.AST) -> Iterator[_Edit]:
    """The edits of this very node."""
    match node:
        case ast.Compare():
            yield from _comparison(node)
        case ast.BoolOp(op=op, values=values):
            word = " or " if isinstance(op, ast.And) else " and "
            yield _Edit(node, "(" + word.join(f"({ast.unparse(value)})" for value in values) + ")")
        case ast.UnaryOp(op=ast.Not() | ast.Invert(), operand=operand):
            yield _Edit(node, f"({ast.unparse(operand)})")
        case ast.UnaryOp(op=ast.USub(), operand=operand) if not isinstance(operand, ast.Constant):
            yield _Edit(node, f"({ast.unparse(operand)})")
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            yield _Edit(node, f"(({ast.unparse(left)}) {OPERATORS[type(op)]} ({ast.unparse(right)}))")
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            if not isinstance(test, ast.Compare | ast.Constant):  # a comparison has its own opposite
                yield _Edit(test, f"(not ({ast.unparse(test)}))")
        case ast.Constant(value=bool() as value):
            yield _Edit(node, str(not value))
        case ast.Constant(value=int() as value):
            yield _Edit(node, f"({value + 1})")
            yield _Edit(node, f"({value - 1})")
        case ast.Constant(value=str() as value) if value in SIDES:
            yield _Edit(node, repr(SIDES[value]))
        case ast.Call(func=ast.Name(id=name) as called) if name in TWINS:
            yield _Edit(called, TWINS[name])
        case ast.Attribute(value=owner, attr=name) if name in TWINS:
            yield _Edit(node, f"{ast.unparse(owner)}.{TWINS[name]}")
        case ast.stmt():
            yield from _statement(node)
        case _:
            pass


def _comparison(node: ast.Compare) -> Iterator[_Edit]:
    for at, op in enumerate(node.ops):
        for other in COMPARISONS[type(op)]:
            words = [ast.unparse(node.left)]
            for number, (each, right) in enumerate(zip(node.ops, node.comparators, strict=True)):
                words += [other if number == at else _SYMBOLS[type(each)], ast.unparse(right)]
            yield _Edit(node, "(" + " ".join(words) + ")")


_SYMBOLS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "not in",
}


def _statement(node: ast.stmt) -> Iterator[_Edit]:
    match node:
        case ast.Expr(value=ast.Call(func=ast.Name(id="assert_never"))):
            pass
        case ast.Expr(value=ast.Call() | ast.Yield()) | ast.AugAssign() | ast.Delete():
            yield _Edit(node, "pass")
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield _Edit(node, "pass")
        case ast.Return(value=None):
            yield _Edit(node, "pass")
        case ast.Return(value=ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()) as value):
            yield _Edit(node, f"return not ({ast.unparse(value)})")
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield _Edit(node, "return None")
        case ast.Break():
            yield _Edit(node, "continue")
        case ast.Continue():
            yield _Edit(node, "break")
        case _:
            pass
