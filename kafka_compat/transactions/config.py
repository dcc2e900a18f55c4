"""The settings of transactions, under Kafka's names and with its defaults."""

from log.values import frozen


@frozen
class TransactionConfig:
    """The settings of a transaction coordinator. Each is Kafka's broker setting of the same name; times are ms."""

    transaction_max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 604_800_000
    """For so long a transactional id without a transaction is kept."""
    abort_check_interval_ms: int = 10_000
    """`transaction.abort.timed.out.transaction.cleanup.interval.ms`"""
    expiry_check_interval_ms: int = 3_600_000
    """`transaction.remove.expired.transaction.cleanup.interval.ms`"""
