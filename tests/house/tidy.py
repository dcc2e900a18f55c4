"""House rules that no tool knows: what a reader of this source can rely on.

- Every module states first what it decides or promises.
- In `FEW_PARAMETERS`, no function takes more than `PARAMETERS_MAX` parameters: what belongs together is one value.
- A document has one title.
- A public class name occurs in one module of a package: packages are namespaces, so two of them may each have a `Broker`. (The
  asyncio and plain Python faces repeat the names that they offer.)
- Nothing is read with a format that can run code.
- No module shares its name with one of the standard library, and none of a broker with a package of ours (`raft/log.py`):
  tracebacks stay unambiguous.
- Tests and benchmarks are not imported by the product.
- The pure ring takes chance as an argument: of `random` it may name the type `Random` alone. (What else it may not
  import is a contract in pyproject.toml.)
- The text speaks of the project alone: no path of one machine, no author.
"""

import ast
import functools
import re
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs

PACKAGES = ("raft", "log", "rocketmq_compat", "kafka_compat", "jepsen_like")
BROKERS = ("raft", "kafka_compat", "rocketmq_compat")
FOLDERS = (*PACKAGES, "tests", "benchmarks", "examples")
PARAMETERS_MAX = 6
FEW_PARAMETERS = ("jepsen_like/check", "jepsen_like/checker")

FACES = frozenset(
    Path(*module.split(".")).with_suffix(".py")
    for module in (
        "raft.aio",
        "raft.sync",
        "jepsen_like.testing.aio",
        "jepsen_like.testing.sync",
        "jepsen_like.testing.kafka.sync",
        "jepsen_like.testing.rocketmq.sync",
    )
)
"""They repeat the names of what they stand for, in asyncio and in plain Python."""
PICKLES_ITS_OWN = (
    "jepsen_like/simulation/kafka/explorer.py",
    "jepsen_like/checker/engine/connect.py",
    "jepsen_like/check/frames.py",
)
"""States that are copies of deciders as bytes, and tasks and results of one job of Spark: nothing from outside is read."""
CODE_RUNNING_MODULES = frozenset({"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "yaml"})
CODE_RUNNING_CALLS = frozenset({"eval", "exec"})
MACHINE_PATH = re.compile(r"""(?<![\w./\]*])/(?:home|root|Users|work|mnt|opt)/[\w.-]""")
_PARSING = threading.Lock()
AUTHOR_TALK = re.compile(r"\b(?:sub-?)?agents?\b|\bissues? #?\d|\bco-authored-by\b", re.IGNORECASE)


@attrs.frozen
class Source:
    """One Python file, read and parsed once. `path` is relative to the root."""

    path: Path
    text: str
    tree: ast.Module
    nodes: Sequence[ast.AST]
    """Every node of the tree, as `ast.walk` finds them."""

    @property
    def product(self) -> bool:
        """True if it belongs to the product rather than to its tests, which may do more."""
        return self.path.parts[0] != "tests"

    def at(self, node: ast.AST, complaint: str) -> str:
        """A complaint about one place."""
        return f"{self.path}:{getattr(node, 'lineno', 1)}: {complaint}"


def complaints(root: Path, pure_modules: Sequence[str]) -> list[str]:
    """Everything that breaks a rule, as `path:line: what`; `pure_modules` are dotted names."""
    pure = {Path(*module.split(".")) for module in pure_modules}
    found: list[str] = []
    for source in sources(root):
        found += file_rules(source)
        found += [*dangerous_formats(source), *imports_of_tests(source), *many_parameters(source)]
        if source.path.with_suffix("") in pure or any(folder in pure for folder in source.path.parents):
            found += chance(source)
    found += repeated_names(root)
    for path, text in documents(root):
        found += one_title(path, text)
    for path, text in texts(root):
        found += alone(path, text)
    return found


def sources(root: Path) -> Iterator[Source]:
    """Every Python file of the project."""
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            text = path.read_text()
            yield Source(path.relative_to(root), text, *_parse_once(text))


def _parse_once(text: str) -> tuple[ast.Module, Sequence[ast.AST]]:
    """Returns the tree of a source and its nodes. The checks run side by side, and read the same sources."""
    with _PARSING:
        return _parse(text)


@functools.cache
def _parse(text: str) -> tuple[ast.Module, Sequence[ast.AST]]:
    tree = ast.parse(text)
    return tree, tuple(ast.walk(tree))


def documents(root: Path) -> Iterator[tuple[Path, str]]:
    """Every Markdown file of the project, with its text."""
    places = [root, *(root / folder for folder in (*FOLDERS, "docs"))]
    for place in places:
        for path in sorted(place.glob("*.md") if place == root else place.rglob("*.md")):
            yield path.relative_to(root), path.read_text()


def texts(root: Path) -> Iterator[tuple[Path, str]]:
    """Every text that is read by people: sources, documents, and the files of the build and of the forge."""
    for source in sources(root):
        if source.path != Path("tests/house/tidy.py"):  # it has to name what it forbids
            yield source.path, source.text
    yield from documents(root)
    for name in ("pyproject.toml", "Makefile", ".ci/run", ".gitignore"):
        yield Path(name), (root / name).read_text()
    for path in sorted(each for each in (root / ".github").rglob("*") if each.is_file()):
        yield path.relative_to(root), path.read_text()


def file_rules(source: Source) -> Iterator[str]:
    """Docstring and name of one module."""
    if not ast.get_docstring(source.tree):
        yield f"{source.path}:1: a module states first what it decides or promises"
    name = source.path.stem
    if name in sys.stdlib_module_names and not name.startswith("__"):
        yield f"{source.path}:1: {name} is a module of the standard library"
    if source.path.parts[0] in BROKERS and name in PACKAGES:
        yield f"{source.path}:1: {name} is a package of this project"


def many_parameters(source: Source) -> Iterator[str]:
    """Yields the functions of the checker that take too many parameters; `self` and `cls` do not count."""
    if not any(source.path.is_relative_to(folder) for folder in FEW_PARAMETERS):
        return
    for node in source.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            of = node.args
            named = [parameter.arg for parameter in (*of.posonlyargs, *of.args, *of.kwonlyargs)]
            count = len([name for name in named if name not in ("self", "cls")])
            count += (of.vararg is not None) + (of.kwarg is not None)
            if count > PARAMETERS_MAX:
                yield source.at(node, f"{node.name} takes {count} parameters; at most {PARAMETERS_MAX}")


def modules_of_names(root: Path) -> dict[tuple[str, str], list[Source]]:
    """Returns the modules in which each public class is defined, by package and name; faces are left out."""
    found: dict[tuple[str, str], list[Source]] = {}
    for source in sources(root):
        package = source.path.parts[0]
        if package in PACKAGES and source.path not in FACES:
            for node in source.tree.body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    found.setdefault((package, node.name), []).append(source)
    return found


def repeated_names(root: Path) -> Iterator[str]:
    """Public classes of one package that have the same name: a reader cannot tell which one is meant."""
    for (_, name), modules in modules_of_names(root).items():
        if len(modules) > 1:
            yield f"{modules[-1].path}:1: class {name} is also in {', '.join(str(each.path) for each in modules[:-1])}"


def find_imports(source: Source) -> Iterator[tuple[ast.AST, str]]:
    """Yields the modules that one file imports, by their full names."""
    for node in source.nodes:
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node, node.module


def dangerous_formats(source: Source) -> Iterator[str]:
    """Formats that run code when read. Tests may pickle: they show that errors survive it."""
    for node, module in find_imports(source):
        is_its_own = module == "pickle" and str(source.path).endswith(PICKLES_ITS_OWN)
        if source.product and module.partition(".")[0] in CODE_RUNNING_MODULES and not is_its_own:
            yield source.at(node, f"{module} can run code while it reads")
    for node in source.nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CODE_RUNNING_CALLS:
            yield source.at(node, f"{node.func.id}() runs what it is given")


def imports_of_tests(source: Source) -> Iterator[str]:
    """The product must not lean on its tests, and only benchmarks may on other benchmarks."""
    for node, module in find_imports(source):
        folder = module.partition(".")[0]
        if source.product and folder in ("tests", "benchmarks", "examples") and folder != source.path.parts[0]:
            yield source.at(node, f"{module} must not be imported here")


def chance(source: Source) -> Iterator[str]:
    """In the pure ring, `random.Random` is a type that arrives as an argument; everything else in `random` is global."""
    for node in source.nodes:
        if isinstance(node, ast.ImportFrom) and node.module == "random":
            for alias in node.names:
                if alias.name != "Random":
                    yield source.at(node, f"random.{alias.name} draws from a global source")
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "random":
            if node.attr != "Random":
                yield source.at(node, f"random.{node.attr} draws from a global source")
        elif (
            isinstance(node, ast.Call)
            and ast.unparse(node.func) in ("random.Random", "Random")
            and not node.args
            and not node.keywords
        ):
            yield source.at(node, "Random() without a seed draws from the machine")


def one_title(path: Path, text: str) -> Iterator[str]:
    """A document has exactly one `# ` line outside its code blocks."""
    fenced = False
    titles = 0
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and line.startswith("# "):
            titles += 1
    if titles != 1:
        yield f"{path}:1: {titles} titles; a document has one"


def alone(path: Path, text: str) -> Iterator[str]:
    """Nothing about the machine or the author in what we publish."""
    for number, line in enumerate(text.splitlines(), start=1):
        if MACHINE_PATH.search(line):
            yield f"{path}:{number}: a path of one machine"
        if AUTHOR_TALK.search(line):
            yield f"{path}:{number}: speaks of something outside of the project"
