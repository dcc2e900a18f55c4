"""A pytest plugin: `QUORUMLOG_MUTANT=NAME pytest -p tests.mutants.plugin ...` runs tests with that bug in place."""

import os

from tests.mutants.catalogue import by_name
from tests.mutants.mutant import install

VARIABLE = "QUORUMLOG_MUTANT"

install(by_name(os.environ[VARIABLE]))
