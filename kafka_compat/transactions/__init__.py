"""The transaction coordinator: transactional ids, their producers and transactions (KIP-98, KIP-360, KIP-890).

Pure; the shell does all IO. Each partition of `__transaction_state` that this broker leads has a
`core.TransactionCoordinator`. It takes `events` and returns `effects`; its whole state is in the records of that
partition.
"""
