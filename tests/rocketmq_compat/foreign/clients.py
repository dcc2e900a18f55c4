"""The clients, in a directory of the user's cache."""

from pathlib import Path
from typing import Final

from tests.brought import bring_jars, bring_modules

ROCKETMQ_VERSION: Final = "5.5.0"
"""Of the client and of the console tool for Java; the same is in `pom.xml`."""
ALI_ONS: Final = "ali-ons@3.12.0"
POM: Final = Path(__file__).with_name("pom.xml")


def java_classpath() -> str:
    """Returns the jars of Apache RocketMQ's client and tools, as Java's `-cp` takes them. Raises `ClientMissing`."""
    return bring_jars(f"rocketmq-clients-{ROCKETMQ_VERSION}", POM)


def javascript_modules() -> str:
    """Returns the directory for NODE_PATH. Raises `ClientMissing`."""
    return bring_modules(ALI_ONS)
