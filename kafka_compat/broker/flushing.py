"""Flushes the logs of a broker, one round at a time, and closes them at its end."""

from kafka_compat.broker.context import DiskWork
from kafka_compat.broker.replicas import LocalReplica, Replicas
from kafka_compat.storage.broker_store import BrokerStore
from log.store_flush import FlushRound


class Flushing:
    """The flushes of one broker. `begin` is to be called at the end of each round."""

    def __init__(self, store: BrokerStore, replicas: Replicas, disk: DiskWork) -> None:
        self._store = store
        self._replicas = replicas
        self._disk = disk
        self._round: tuple[FlushRound, list[tuple[LocalReplica, int, int]]] | None = None

    def begin(self) -> None:
        """Let the disk begin a round of flushes, unless one is under way or nothing waits for it."""
        if self._replicas.has_unflushed and self._round is None:
            waiting = self._replicas.take_unflushed()
            round_ = self._store.begin_round()
            self._round = round_, waiting
            self._disk.submit(round_.run, self._on_flushed)

    def _on_flushed(self, error: BaseException | None) -> None:
        assert self._round is not None, "a flush that has ended had begun"
        (round_, waiting), self._round = self._round, None
        self._store.end_round(round_)
        if error is not None:
            raise error
        self._replicas.on_flushed(waiting)

    def stop(self) -> None:
        """Complete the round under way, after the disk has ended all work."""
        if self._round is not None:
            self._store.end_round(self._round[0])

    def close(self, *, failed: bool) -> None:
        """Close the logs with the state that spares a restart work; after a failure only with what they contain."""
        if failed or self._replicas.broken:
            # What deciders know may be more than what the logs hold: a restart reads it from these.
            self._store.abandon()
        else:
            self._store.close(producers=self._replicas.producers(), high_watermarks=self._replicas.high_watermarks())
