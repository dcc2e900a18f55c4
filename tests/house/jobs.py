"""A class has one job: at most `ATTRIBUTES_MAX` attributes, as a reader can hold in mind.

Attributes are those that methods assign to their object, and the fields of attrs classes and named tuples. Constants of
the class are none, nor are attributes that it inherits. `WIDE_CLASSES` lists the classes that have more. It may only
shrink. `python -m tests.house.jobs` prints the list as it would be now.
"""

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tests.house import tidy

ATTRIBUTES_MAX = 15
WIDE_CLASSES: dict[str, int] = {
    "jepsen_like.Allowance": 16,
    "jepsen_like.DledgerBroker": 18,
    "jepsen_like.DledgerKnobs": 16,
    "jepsen_like.Facts": 18,
    "jepsen_like.FaultRecord": 19,
    "jepsen_like.Findings": 22,
    "jepsen_like.KafkaClient": 19,
    "jepsen_like.KafkaKnobs": 25,
    "jepsen_like.NodeProcess": 19,
    "jepsen_like.Op": 16,
    "jepsen_like.RaftExplorer": 23,
    "jepsen_like.RaftKnobs": 22,
    "jepsen_like.RocketmqKnobs": 36,
    "jepsen_like.RunResults": 42,
    "jepsen_like.SimulatedBroker": 25,
    "jepsen_like.SimulatedMachine": 26,
    "jepsen_like.SimulatedMember": 17,
    "kafka_compat.ClassicGroup": 23,
    "kafka_compat.Context": 16,
    "kafka_compat.Registration": 16,
    "kafka_compat.ReplicaFetcher": 18,
    "kafka_compat.Replicas": 19,
    "log.Header": 16,
    "log.LogFlush": 18,
    "log.MemoryDisk": 18,
    "log.SegmentedLog": 29,
    "log.StoreLog": 23,
    "raft.NodeSettings": 16,
    "raft.RaftCore": 22,
    "raft.SocketConnection": 17,
    "rocketmq_compat.Broker": 19,
    "rocketmq_compat.Context": 22,
    "rocketmq_compat.RaftCopy": 20,
    "rocketmq_compat.RecordHead": 17,
    "rocketmq_compat.ReplicationConfig": 19,
}
"""`package.Class` -> attributes."""


def complaints(root: Path, allowed: Mapping[str, int] = WIDE_CLASSES) -> list[str]:
    """Returns each class with more attributes than it may have, and each entry of the list that is too high."""
    found = wide_classes(tidy.sources(root))
    return [
        *(
            f"{name} has {count} attributes, and may have {allowed.get(name, ATTRIBUTES_MAX)}; find the second job in it"
            for name, count in found.items()
            if count > allowed.get(name, ATTRIBUTES_MAX)
        ),
        *(
            f"tests/house/jobs.py: {name} has {found.get(name, 'few')} attributes now; lower or remove its entry"
            for name, count in allowed.items()
            if found.get(name, 0) < count
        ),
    ]


def wide_classes(sources: Iterable[tidy.Source]) -> dict[str, int]:
    """Returns the classes of the product with more than `ATTRIBUTES_MAX` attributes, by package and name."""
    counts: dict[str, int] = {}
    for source in sources:
        if source.path.parts[0] in tidy.PACKAGES:
            for node in source.nodes:
                if isinstance(node, ast.ClassDef):
                    name = f"{source.path.parts[0]}.{node.name}"
                    counts[name] = max(counts.get(name, 0), len(set(attributes(node))))
    return {name: count for name, count in sorted(counts.items()) if count > ATTRIBUTES_MAX}


def attributes(node: ast.ClassDef) -> Iterator[str]:
    """Yields the names of the attributes of a class; a name may come more than once."""
    for part in node.body:
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
            if "ClassVar" not in ast.unparse(part.annotation):
                yield part.target.id
        elif isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from find_assignments(part)


def find_assignments(method: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """Yields the attributes that a method assigns to its object."""
    decorators = {ast.unparse(decorator) for decorator in method.decorator_list}
    arguments = [*method.args.posonlyargs, *method.args.args]
    if arguments and not decorators & {"classmethod", "staticmethod"}:
        for node in ast.walk(method):
            match node:
                case ast.Attribute(ctx=ast.Store(), value=ast.Name(id=owner), attr=name) if owner == arguments[0].arg:
                    yield name


if __name__ == "__main__":
    root = Path(__file__).resolve().parents[2]
    for name, count in wide_classes(tidy.sources(root)).items():
        sys.stdout.write(f'    "{name}": {count},\n')
