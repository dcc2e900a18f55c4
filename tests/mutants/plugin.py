"""A pytest plugin: `QUORUMLOG_MUTANT=NAME pytest -p tests.mutants.plugin ...` runs tests with that bug in place."""

import os

from tests.mutants.catalogue import by_name
from tests.mutants.mutant import install
from tests.mutants.plugin_name import VARIABLE

install(by_name(os.environ[VARIABLE]))
