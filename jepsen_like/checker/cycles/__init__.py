"""The judge of transactions of several operations: what each depends on, and cycles of that. The search is of the kind of Elle's."""
