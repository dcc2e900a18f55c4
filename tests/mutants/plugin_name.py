"""A mutant reaches a pytest process by the plugin's module and the variable that names the bug."""

PLUGIN = "tests.mutants.plugin"
VARIABLE = "QUORUMLOG_MUTANT"
