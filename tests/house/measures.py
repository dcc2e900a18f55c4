"""`python -m tests.house.measures`: print the size of the product and the voice of its text, as one table of figures.

Lines of each package, the class with the most attributes, functions of the checker with many parameters, docstrings by their
first word, functions named by a participle, long lines of text, and the sentences of each document.
"""

import ast
import io
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator

from tests.house import sentences, tidy, voice

LINE_MAX = 120
"""Characters a line of a docstring or comment."""
PARAMETERS_MAX = 6
CHECKER = "jepsen_like/checker"


def main() -> None:
    """Print all figures."""
    sources = list(tidy.sources(voice.ROOT))
    product = [source for source in sources if source.path.parts[0] in tidy.PACKAGES]
    for line in (*sizes(product), *shapes(product), *voices(sources), *documents()):
        sys.stdout.write(f"{line}\n")


def sizes(product: Iterable[tidy.Source]) -> Iterator[str]:
    """Yields the lines of the product and of each package."""
    lines = Counter[str]()
    for source in product:
        lines[source.path.parts[0]] += source.text.count("\n")
    yield f"product: {lines.total()} lines"
    for package, count in lines.most_common():
        yield f"  {package}: {count}"


def shapes(product: Iterable[tidy.Source]) -> Iterator[str]:
    """Yields the class with the most attributes, and the functions of the checker with too many parameters."""
    widest = (0, "")
    many: list[str] = []
    for source in product:
        for node in source.nodes:
            if isinstance(node, ast.ClassDef):
                widest = max(widest, (len(attributes(node)), f"{source.path}:{node.name}"))
            elif (
                isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
                and source.path.is_relative_to(CHECKER)
                and count_parameters(node) > PARAMETERS_MAX
            ):
                many.append(f"{source.path}:{node.name} {count_parameters(node)}")
    yield f"most attributes: {widest[0]}, {widest[1]}"
    yield f"functions of {CHECKER} with more than {PARAMETERS_MAX} parameters: {len(many)}"


def attributes(node: ast.ClassDef) -> set[str]:
    """Returns the attributes that a class declares, or that its methods assign to `self`."""
    declared = {
        each.target.id for each in node.body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    }
    assigned = {
        each.attr
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store) and ast.unparse(each.value) == "self"
    }
    return declared | assigned


def count_parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Returns the number of parameters, without `self` and `cls`."""
    parameters = [each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    return len([name for name in parameters if name not in ("self", "cls")])


def voices(sources: Iterable[tidy.Source]) -> Iterator[str]:
    """Yields docstrings by their first word, functions named by a participle and long lines of text, of each package."""
    total = 0
    words = Counter[str]()
    clauses = Counter[str]()
    participles = Counter[str]()
    long = Counter[str]()
    for source in sources:
        package = source.path.parts[0]
        found = [voice.first_word(text) for _, text in voice.docstrings(source)]
        total += len(found)
        words.update(word for word in found if word in voice.CLAUSE_WORDS)
        clauses[package] += len([word for word in found if word in voice.CLAUSE_WORDS])
        participles[package] += len(list(voice.participles(source)))
        long[package] += count_long_lines(source)
    yield f"docstrings: {total}, of them clauses: {words.total()} ({percent(words.total(), total)})"
    yield "  by first word: " + in_order(words)
    yield "  by package: " + in_order(clauses)
    yield f"functions named by a participle: {participles.total()}"
    yield "  by package: " + in_order(participles)
    yield f"lines of text over {LINE_MAX} characters: {long.total()}"
    yield "  by package: " + in_order(long)


def count_long_lines(source: tidy.Source) -> int:
    """Returns how many lines of docstrings and comments are too long."""
    numbers: set[int] = set()
    for node, _ in voice.docstrings(source):
        numbers.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type == tokenize.COMMENT:
            numbers.add(token.start[0])
    lines = source.text.splitlines()
    return len([number for number in numbers if len(lines[number - 1]) > LINE_MAX])


def documents() -> Iterator[str]:
    """Yields words a sentence, the share of sentences with a negation, and the longest sentence of each document."""
    yield "documents: words a sentence, sentences with a negation, sentences, longest"
    for path, text in tidy.documents(voice.ROOT):
        found = sentences.split_sentences(text)
        if found:
            lengths = [sentences.count_words(sentence) for sentence in found]
            negative = len([sentence for sentence in found if sentences.is_negative(sentence)])
            mean = sum(lengths) / len(lengths)
            yield f"  {path}: {mean:.1f}, {percent(negative, len(found))}, {len(found)}, {max(lengths)}"


def percent(part: int, whole: int) -> str:
    """Returns a share as text."""
    return f"{100 * part / max(whole, 1):.0f} %"


def in_order(counts: Counter[str]) -> str:
    """Returns counts as text, the greatest first, without zeros."""
    return ", ".join(f"{name} {count}" for name, count in counts.most_common() if count)


if __name__ == "__main__":
    main()
