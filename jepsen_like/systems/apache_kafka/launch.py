"""`python -m jepsen_like.systems.apache_kafka.launch PLAN`: becomes one broker of Apache Kafka.

It writes the broker's files, formats its disks if they are new, and then replaces itself by Java: so the process id
that the harness knows is the broker's.

A broker learns one address for each other broker from metadata. Here that is a name, which stands for another address in
each broker: the way that leads from there to the other one through the fault network.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Final

import attrs

from jepsen_like.cluster.process import die_with_parent
from jepsen_like.systems.archives.catalogue import APACHE_KAFKA

LOGS, METADATA, FILES = "logs", "metadata", "files"
"""Below the data directory: the partitions, the metadata log of the controllers, and what the launcher writes."""
JVM: Final = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Djava.awt.headless=true")
"""Small and quick to start: three brokers share two cores with their clients."""
FORMAT_WITHIN_S: Final = 60.0
CANNOT_FORMAT: Final = 70


@attrs.frozen(kw_only=True)
class LaunchPlan:
    """All that one broker needs."""

    cluster_id: str
    data: str
    settings: Mapping[str, str]
    """The lines of its configuration but for the places of its files."""
    hosts: Mapping[str, str]
    """The addresses of the names by which brokers know each other, as this one sees them."""
    features: Sequence[str]
    """`name=level`, for new disks."""

    def text(self) -> str:
        """The plan as one word of a command line."""
        return json.dumps(attrs.asdict(self), sort_keys=True)


def write_files(plan: LaunchPlan) -> Path:
    """Write a broker's files; returns their directory."""
    data = Path(plan.data)
    files = data / FILES
    files.mkdir(parents=True, exist_ok=True)
    settings = {**plan.settings, "log.dirs": str(data / LOGS), "metadata.log.dir": str(data / METADATA)}
    lines = "".join(f"{name}={value}\n" for name, value in sorted(settings.items()))
    (files / "server.properties").write_text(lines)
    (files / "hosts").write_text("".join(f"{address} {name}\n" for name, address in sorted(plan.hosts.items())))
    (files / "log4j2.xml").write_bytes(resources.files(__package__).joinpath("log4j2.xml").read_bytes())
    return files


def flush(directory: Path) -> None:
    """Flush all that lies below a directory, as time has flushed what an operator formatted long ago.

    The tool leaves that to the operating system. After a power cut soon after it `bootstrap.checkpoint` is empty, and
    the broker does not start any more.
    """
    for path in (directory, *directory.rglob("*")):
        opened = os.open(path, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def main() -> None:
    """Format what is new, and become the broker."""
    plan = LaunchPlan(**json.loads(sys.argv[1]))
    files = write_files(plan)
    path = APACHE_KAFKA.classpath()
    config = str(files / "server.properties")
    if not all((Path(plan.data) / each / "meta.properties").is_file() for each in (LOGS, METADATA)):
        tool = ["java", *JVM, "-cp", path, "kafka.tools.StorageTool", "format", "--ignore-formatted"]
        tool += ["-t", plan.cluster_id, "-c", config]
        tool += [word for feature in plan.features for word in ("--feature", feature)]
        done = subprocess.run(
            tool, capture_output=True, text=True, timeout=FORMAT_WITHIN_S, check=False, preexec_fn=die_with_parent()
        )
        if done.returncode != 0:
            sys.exit(CANNOT_FORMAT)
        flush(Path(plan.data))
    os.chdir(files)
    options = [f"-Djdk.net.hosts.file={files / 'hosts'}", f"-Dlog4j2.configurationFile={files / 'log4j2.xml'}"]
    os.execvp("java", ["java", *JVM, *options, "-cp", path, "kafka.Kafka", config])


if __name__ == "__main__":
    main()
