"""Makes one node's directory the whole of its group: the way back from a copy, or when most voters are lost for good.

The directory gets a configuration with this node as its only voter, in a term behind all that it knows, as a leader of
that term would have appended and committed it. So everything in its log is committed from now on, and what other members
had besides is gone. The others join again as new nodes, with empty directories.
"""

import attrs

from log.config import LogConfig
from log.disk import Disk, RealDisk
from raft.directory import read_owner
from raft.effects import Persist
from raft.membership import Configuration, ConfigurationEntry, Membership
from raft.model import NO_POSITION, Entry, HardState, LogIndex, NodeId, Offset, Term, WriteId
from raft.settings import NodeSettings
from raft.storage import RaftStorage, log_id_of


@attrs.frozen
class SoleVoter:
    """The result: the cluster and the node, the end of its log, and how far an earlier, damaged log had reached."""

    cluster_id: str
    node_id: int
    end_offset: int
    lost_entries: int


def make_sole_voter(directory: str, address: str, node_id: int, disk: Disk | None = None) -> SoleVoter:
    """Change the directory of a node that does not run. `address` is where others will dial it.

    Raises `WrongDirectory` unless it is that node's, and what `RaftStorage.open` and `restore` raise; nothing is changed
    then.
    """
    used = disk or RealDisk()
    owner = read_owner(used, directory, node_id)
    config = LogConfig(segment_bytes_max=NodeSettings().segment_bytes_max)
    log_id = log_id_of(owner.cluster_id, NodeId(owner.node_id))
    storage = RaftStorage.open(used, directory, config, log_id=log_id, repair=False)
    try:
        state, view = storage.restore()
        own = NodeId(node_id)
        directory_ids = {own: state.directory_id} if state.directory_id else {}
        configuration = Configuration({own}, directory_ids=directory_ids, addresses={own: address})
        term, index = Term(max(state.term, view.last_term) + 1), LogIndex(view.last_index + 1)
        membership = Membership([ConfigurationEntry(index, term, configuration)], index)
        batch = configuration.to_batch()
        entry = Entry(index, term, Offset(view.end_offset), batch)
        storage.reserve(len(batch.data))
        storage.persist(
            Persist(
                WriteId(storage.written + 1),
                hard_state=HardState(term, own, NO_POSITION, state.directory_id, membership.encode()),
                entries=(entry,),
            )
        )
        storage.flush()
        lost = max(0, state.floor.index - view.last_index)
        return SoleVoter(owner.cluster_id, node_id, int(view.end_offset), lost)
    finally:
        storage.close()
