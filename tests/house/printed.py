"""The parts of documents that are printed from the source, between `<!-- printed: NAME -->` and `<!-- end -->`.

`python -m tests.house.printed` renews them; a test fails when the committed text differs.
"""

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from jepsen_like.bench import answers, figures
from jepsen_like.bench.kafka import answers as kafka_answers
from jepsen_like.bench.rocketmq import answers as rocketmq_answers
from jepsen_like.bench.security import answers as security_answers
from jepsen_like.cli import COMMANDS
from jepsen_like.port.scenario import NamedScenario
from jepsen_like.report import claims, matrix_words
from jepsen_like.systems.kafka import scenarios as kafka
from jepsen_like.systems.raft.promises import HARMS, Replication, promise_of
from jepsen_like.systems.rocketmq import scenarios as rocketmq
from kafka_compat.protocol import registry, required
from log.policy import FlushPolicy
from rocketmq_compat.remoting.headers.fields import camel_case
from rocketmq_compat.remoting.without_effect import WITHOUT_EFFECT
from tests.kafka_compat.foreign import known

ROOT = Path(__file__).resolve().parents[2]
SECTION = re.compile(r"(<!-- printed: (\w+) -->\n)(.*?)(<!-- end -->\n)", re.DOTALL)
BENCHMARK = ROOT / "benchmarks" / "results" / "raft.json"
KAFKA_BENCHMARK = BENCHMARK.with_name("kafka.json")
CHECK_SCALE = BENCHMARK.with_name("check_scale.json")
CHECK_READING = BENCHMARK.with_name("check_reading.json")
MATRIX = BENCHMARK.with_name("matrix.json")
CLAIMS = BENCHMARK.with_name(claims.CLAIMS)
ROCKETMQ_BENCHMARK = BENCHMARK.with_name("rocketmq.json")
SECURITY_BENCHMARK = BENCHMARK.with_name("security.json")


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


OPERATORS = "jepsen_like.operate."
LOST_PLACES = ("jepsen_like.capacity.", "jepsen_like.two_clusters.", "jepsen_like.mirror.", "jepsen_like.rehearse.")
KEYS = ("jepsen_like.run.ca:", "raft.secret_command:")


def commands() -> str:
    """Returns the commands that `quorumlog --help` lists; those that a page explains together share a line."""
    shared: dict[str | tuple[str, ...], str] = {
        OPERATORS: "See and change a cluster: docs/operations.md.",
        LOST_PLACES: "Survive a lost zone or cluster.",
        KEYS: "Make certificates and secrets: docs/security.md.",
    }
    of = {prefix: [name for name, lazy in COMMANDS.items() if lazy.target.startswith(prefix)] for prefix in shared}
    alone = [name for name in COMMANDS if not any(name in names for names in of.values())]
    rows = [[f"`quorumlog {name}`", COMMANDS[name].summary] for name in alone]
    rows += [[f"`quorumlog` {', '.join(f'`{name}`' for name in of[prefix])}", text] for prefix, text in shared.items()]
    return table(["command", ""], rows)


def promises() -> str:
    """Returns the losses that each flush policy allows, and the time at which service is back."""
    rows = []
    for harm in HARMS:
        of_policies = [promise_of(Replication.RAFT, policy, harm) for policy in FlushPolicy]
        rows.append([harm, *(promise.may_lose.value for promise in of_policies), of_policies[0].serves])
    return table(["fault", *(f"lost with `{policy.value}`" for policy in FlushPolicy), "serves again"], rows)


def benchmark() -> str:
    """The answers of the committed figures, then the figures themselves."""
    document = figures.load(BENCHMARK)
    parts = [
        table(answers.HEAD, [answer.cells() for answer in answers.answers(document)]),
        f"{answers.FULL_TITLE}:\n\n" + table(answers.FULL_HEAD, answers.full_load(document)),
        f"{answers.LOADS_TITLE}:\n\n" + table(answers.loads_head(document), answers.all_loads(document)),
        " ".join(answers.remarks(document)) + "\n",
    ]
    return "\n".join(parts)


def kafka_benchmark() -> str:
    """The committed figures of Kafka's clients."""
    document = figures.load(KAFKA_BENCHMARK)
    tables = [f"{title}:\n\n" + table(head, rows) for title, head, rows in kafka_answers.TABLES.tables(document)]
    return "\n".join([*tables, " ".join(kafka_answers.TABLES.remarks(document)) + "\n"])


def rocketmq_without_effect() -> str:
    """The fields of RocketMQ's requests that change nothing."""
    rows = [
        [f"`{name}`", f"`{camel_case(field)}`", reason]
        for name, fields in WITHOUT_EFFECT.items()
        for field, reason in fields.items()
    ]
    return table(["request or body", "field", "reason"], rows)


def rocketmq_benchmark() -> str:
    """The committed figures of RocketMQ's brokers."""
    document = figures.load(ROCKETMQ_BENCHMARK)
    tables = [
        f"{title}:\n\n" + table(head, rows) for title, head, rows in rocketmq_answers.TABLES.tables(document) if rows
    ]
    return "\n".join([*tables, " ".join(rocketmq_answers.TABLES.remarks(document)) + "\n"])


def security_benchmark() -> str:
    """The committed figures of the price of a secret and of TLS."""
    document = figures.load(SECURITY_BENCHMARK)
    tables = [f"{title}:\n\n" + table(head, rows) for title, head, rows in security_answers.tables(document)]
    return "\n".join([*tables, " ".join(security_answers.remarks(document)) + "\n"])


def scenarios(of: Sequence[NamedScenario]) -> str:
    """Returns the scenarios of a system, each with its trials and with what they are to show."""
    rows = [[f"`{each.name}`", f"`{trial.name}`", trial.shows.value] for each in of for trial in each.trials]
    return table(["scenario", "trial", "what is seen"], rows)


def matrix() -> str:
    """The committed cells of `quorumlog matrix`, what they answer, and on what machine they were measured."""
    told = json.loads(MATRIX.read_text())
    present = dict.fromkeys(row["column"] for row in told["cells"])
    head = ["mode", *("no fault" if name == matrix_words.CALM else name for name in present)]
    rows = [
        [way, *(matrix_words.cell_words(row) for row in told["cells"] if row["way"] == way)]
        for way in matrix_words.ways_of(told)
    ]
    where = f"Machine: {figures.describe(told['machine'])}. Command: `{told['command']}`."
    missing = "".join(f"- {line}\n" for line in matrix_words.reasons(told))
    return f"{table(head, rows)}\n{' '.join(told['answers'])} {where}\n\n{missing}"


def matrix_answer() -> str:
    """Which mode the committed cells of `quorumlog matrix` show ahead, in a sentence and a table of three rows."""
    *answers, summary = json.loads(MATRIX.read_text())["answers"]
    rows = [answer.removesuffix(".").split(": ", 1) for answer in answers]
    return f"{summary}\n\n{table(['ahead in', 'mode'], rows)}"


def claims_table() -> str:
    """The committed verdict of each claim, what was measured for it, and where that was."""
    told = json.loads(CLAIMS.read_text())
    rows = [[*claims.words_of(row)] for row in told["claims"] if row["verdict"] != claims.NO_VERDICT]
    where = (
        f"Machine: {figures.describe(told['machine'])}. Command: `{told['command']}`, {told['seconds'] / 60:.0f} min."
    )
    return f"{claims.headline(told['claims'])}. {' '.join(claims.answers(told['claims']))}\n\n{table(claims.HEAD, rows)}\n{where}\n"


def claims_answer() -> str:
    """Returns the committed verdicts on all claims in one sentence."""
    rows = json.loads(CLAIMS.read_text())["claims"]
    return f"Of {len(rows)} claims and questions, {claims.headline(rows)}.\n"


def check_scale() -> str:
    """The committed figures of checks by size: seconds on Spark and in one process."""
    lines = json.loads(CHECK_SCALE.read_text())
    shapes = dict.fromkeys((line["model"], line["objects"]) for line in lines)
    rows = []
    for size in sorted({line["operations"] for line in lines}):
        for model, objects in shapes:
            of = {
                (line["engine"], line["planted"]): line
                for line in lines
                if (line["operations"], line["model"], line["objects"]) == (size, model, objects)
            }
            if (told := of.get(("spark", False))) is not None:
                here, planted = of.get(("local", False)), of.get(("spark", True))
                noun = "partition" if model == "queue" else model
                rows.append(
                    [
                        f"{size:,}",
                        f"{objects:,} {noun}s" if objects > 1 else f"one {noun}",
                        f"{told['check_s']:.1f} s",
                        f"{told['rows_per_s'] / 1e6:.1f} million/s",
                        f"{told['read_alone_s']:.1f} s",
                        f"{max(told['peak_mib'].values())} MiB",
                        f"found in {planted['check_s']:.1f} s" if planted is not None else "",
                        f"{here['check_s']:.1f} s" if here is not None else "",
                    ]
                )
    head = [
        "operations",
        "of",
        "check on Spark",
        "rows",
        "reading alone",
        "largest process",
        "one violation",
        "in one process",
    ]
    started = max(line["start_s"] + line["first_job_s"] for line in lines)
    return f"{table(head, rows)}\nMachine: {lines[0]['machine']}. Starting Spark and its first job took at most {started:.0f} s more.\n"


def check_reading() -> str:
    """Returns the cost of reading by Spark, compared with tasks over paths."""
    told = json.loads(CHECK_READING.read_text())
    rows = [
        [name, f"{seconds:.1f} s", f"{told['times_the_tasks'][name]:.1f}"] for name, seconds in told["seconds"].items()
    ]
    return table(
        [f"{told['operations']:,} operations on {told['objects']:,} registers", "took", "times the tasks"], rows
    )


PRINTED: Mapping[str, Callable[[], str]] = {
    "commands": commands,
    "matrix_answer": matrix_answer,
    "matrix": matrix,
    "claims": claims_table,
    "claims_answer": claims_answer,
    "promises": promises,
    "benchmark": benchmark,
    "kafka_apis": registry.table,
    "kafka_required": required.table,
    "kafka_differences": known.table,
    "kafka_scenarios": partial(scenarios, kafka.SCENARIOS),
    "rocketmq_scenarios": partial(scenarios, rocketmq.SCENARIOS),
    "kafka_benchmark": kafka_benchmark,
    "rocketmq_benchmark": rocketmq_benchmark,
    "security_benchmark": security_benchmark,
    "rocketmq_without_effect": rocketmq_without_effect,
    "check_scale": check_scale,
    "check_reading": check_reading,
}
PLACES: Mapping[str, str] = {
    "commands": "README.md",
    "matrix_answer": "README.md",
    "matrix": "docs/matrix.md",
    "claims": "docs/claims.md",
    "claims_answer": "README.md",
    "promises": "docs/promises.md",
    "benchmark": "docs/benchmark.md",
    "security_benchmark": "docs/benchmark.md",
    "kafka_apis": "docs/kafka.md",
    "kafka_required": "docs/kafka.md",
    "kafka_differences": "docs/kafka.md",
    "kafka_scenarios": "docs/kafka.md",
    "rocketmq_scenarios": "docs/rocketmq.md",
    "kafka_benchmark": "docs/kafka.md",
    "rocketmq_benchmark": "docs/rocketmq.md",
    "rocketmq_without_effect": "docs/rocketmq.md",
    "check_scale": "docs/cluster.md",
    "check_reading": "docs/cluster.md",
}
"""Which document holds each part."""


def renew_parts(text: str) -> str:
    """Returns the document with every printed part as the source has it now; raises `KeyError` for an unknown part."""
    return SECTION.sub(lambda match: f"{match[1]}{PRINTED[match[2]]()}{match[4]}", text)


def main() -> None:
    """Renew all documents that have printed parts."""
    for name in dict.fromkeys(PLACES.values()):
        path = ROOT / name
        path.write_text(renew_parts(path.read_text()))
        sys.stdout.write(f"{name} is current\n")


if __name__ == "__main__":
    main()
