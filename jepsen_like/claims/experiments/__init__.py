"""The experiments by family: which clusters are run, which figures are taken of them, and what each claim expects of these."""
