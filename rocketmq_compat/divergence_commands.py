"""Commands by which an operator decides which of two diverged logs counts, for a broker with a fixed role.

    python -m rocketmq_compat.process accept-loss --broker 127.0.0.1:10911 --yes
    python -m rocketmq_compat.process discard --broker 127.0.0.1:10921 --yes

Without `--yes` they print the records that would be given up, and change nothing. With it they decide about exactly the
divergences that the broker reported: it refuses if they have changed meanwhile. Exit status: 0 done, or shown; 2 wrong
usage; 4 the broker does not answer, or refuses.
"""

from collections.abc import Sequence
from typing import Final

import click
import trio

from raft.addresses import Address
from raft.process import EXIT_ENVIRONMENT, AddressType, first_cause
from raft.secret_file import UnusableSecret, credentials_of, read_secret
from raft.trust import ADMIN, ANY
from rocketmq_compat.membership import REMOTING, Proof
from rocketmq_compat.remoting.bodies import KVTable
from rocketmq_compat.remoting.client import RemotingFailed, connected_client
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.remoting.errors import BadBody
from rocketmq_compat.remoting.frame import Command
from rocketmq_compat.remoting.headers.divergence import (
    ACCEPT_LOSS,
    DISCARD,
    DecideDivergenceRequestHeader,
    LogDivergence,
    divergences_text,
)
from rocketmq_compat.replication.model import MASTER_ID

TIMEOUT_S: Final = 10.0
DISCARDED: Final = "discarded/"
BROKER: Final = click.option(
    "--broker", type=AddressType(), required=True, help="Where clients connect to the broker that is asked."
)
CLUSTER: Final = click.option(
    "--cluster", default="DefaultCluster", show_default=True, help="The brokerClusterName of a broker with a secret."
)
SECRET_FILE: Final = click.option(
    "--secret-file", type=click.Path(dir_okay=False), help="The secret of the cluster, where it has one."
)
YES: Final = click.option("--yes", is_flag=True, help="Do it; otherwise it is shown what would be given up.")


@click.command(ACCEPT_LOSS)
@BROKER
@CLUSTER
@SECRET_FILE
@YES
def accept_loss(broker: Address, cluster: str, secret_file: str | None, yes: bool) -> None:
    """Let a master take messages again, without what it has lost, or what its slaves hold beyond its log.

    Asked of a master that waits for slaves which will not come back, or whose log differs from a slave's. Slaves keep
    their bytes, and are refused until these are discarded. It holds until the master is restarted, whatever other
    slaves turn out to hold. A master that is copying back what a slave has refuses it.
    """
    found = _ask(broker, ACCEPT_LOSS, operators_proof(cluster, secret_file), yes=yes)
    for divergence in found:
        click.echo(_lacking(divergence))
    if yes:
        click.echo("The master takes messages again. What was acknowledged among these bytes is lost to consumers.")
    else:
        click.echo(
            "Nothing was changed. With --yes the master takes messages again, and what was acknowledged among these bytes is lost."
        )
        click.echo(
            "To keep them, start the slave that holds them: its master copies back what it lacks, if nothing was appended since."
        )
        click.echo("Else start that slave as the master, and this broker as its slave: each keeps what it has.")


@click.command(DISCARD)
@BROKER
@CLUSTER
@SECRET_FILE
@YES
def discard(broker: Address, cluster: str, secret_file: str | None, yes: bool) -> None:
    """Let a slave give up what its master does not have, and follow it again.

    The bytes leave the slave's log, and consumers do not see them any more. A file in its directory keeps them.
    """
    (each,) = _ask(broker, DISCARD, operators_proof(cluster, secret_file), yes=yes)
    what = f"{each.end - each.start:,} bytes, from {each.start:,} to {each.end:,}"
    if yes:
        click.echo(
            f"The slave gave up {what}, and follows its master again. They are kept in {DISCARDED} of its directory."
        )
    else:
        click.echo(
            f"Nothing was changed. With --yes the slave gives up {what}, which its master does not have; consumers lose them, and "
            f"they are kept in {DISCARDED} of the slave's directory."
        )


def _lacking(each: LogDivergence) -> str:
    if each.slave_id != MASTER_ID:
        size = f"{each.end - each.start:,} bytes, from {each.start:,} to {each.end:,}"
        return f"slave {each.slave_id} holds {size}, that this master does not have"
    if each.end > each.start:
        return f"this master's log ends at {each.start:,}, and had come to {each.end:,}: its slaves may hold the rest"
    return (
        f"this master's log ends at {each.start:,}, and it is not known how far it had come: its slaves may hold more"
    )


def operators_proof(cluster: str, secret_file: str | None) -> Proof | None:
    """Returns how an operator's tool proves itself. Raises `click.UsageError` for a file that cannot be used."""
    if secret_file is None:
        return None
    try:
        credentials = credentials_of(read_secret(secret_file), cluster, ADMIN)
    except UnusableSecret as error:
        raise click.UsageError(f"--secret-file: {error}") from None
    return lambda: credentials.dial(REMOTING, ANY)


def _ask(broker: Address, decision: str, proof: Proof | None, *, yes: bool) -> Sequence[LogDivergence]:
    """Returns the divergences that the broker knows, after the decision with `yes`.

    A refusal ends the process with one line.
    """
    try:
        return trio.run(_decide, broker, decision, proof, yes)
    except BaseExceptionGroup as group:  # the client has a nursery
        cause = first_cause(group)
        if not isinstance(cause, (RemotingFailed, BadBody, ValueError, _Refused)):
            raise
        click.echo(f"{decision}: {cause}", err=True)
        raise click.exceptions.Exit(EXIT_ENVIRONMENT) from None


class _Refused(Exception):
    """The broker does not do it."""


async def _decide(broker: Address, decision: str, proof: Proof | None, yes: bool) -> Sequence[LogDivergence]:
    async with connected_client(broker, proof=proof) as client:
        table = KVTable.decode(
            _require_success(await client.ask(Command(RequestCode.GET_BROKER_RUNTIME_INFO), timeout_s=TIMEOUT_S)).body
        ).table
        is_slave, text = table.get("brokerRole") == "SLAVE", table.get("divergences")
        if text is None:
            raise _Refused("the brokers of a raft group agree by themselves: there is nothing to decide")
        if is_slave != (decision == DISCARD):
            raise _Refused(
                f"{'{}:{}'.format(*broker)} is a {'slave' if is_slave else 'master'}: ask a {'master' if is_slave else 'slave'}"
            )
        if not text:
            raise _Refused(f"{'{}:{}'.format(*broker)} knows of no divergence: there is nothing to decide")
        found = [LogDivergence.parse(each) for each in text.split(",")]
        if yes:
            header = DecideDivergenceRequestHeader(decision=decision, divergences=divergences_text(found))
            _require_success(
                await client.ask(Command(RequestCode.DECIDE_DIVERGENCE, ext=header.ext()), timeout_s=TIMEOUT_S)
            )
        return found


def _require_success(answer: Command) -> Command:
    if answer.code != ResponseCode.SUCCESS:
        raise _Refused(f"refused: {answer.remark or answer.code}")
    return answer
