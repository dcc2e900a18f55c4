"""A bank as a model of histories: money moves between accounts, none is made, none is lost, and no account is overdrawn.

    cd examples && quorumlog check bank.edn --model-class bank_model:Bank

`transfer {from, to, amount}` is ok if the money has moved, `read` returns the balances of all accounts in their order.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

Balances = tuple[int, ...]


class Bank:
    """The balances of three accounts."""

    initial: Balances = (10, 10, 10)
    reads: ClassVar[set[str]] = {"read"}

    def step(self, balances: Balances, op: Any) -> Balances | None:
        """Returns the balances after an operation, None if it cannot have been answered as it was."""
        if op.f == "read":
            return balances if op.answered in (None, balances) else None
        return self.transfer(balances, op.asked)

    def transfer(self, balances: Balances, asked: Mapping[str, int]) -> Balances | None:
        """Returns the balances after a transfer, None if the account has less."""
        after = list(balances)
        after[asked["from"]] -= asked["amount"]
        after[asked["to"]] += asked["amount"]
        return tuple(after) if min(after) >= 0 else None
