"""One line for one node, the same in logs, golden scripts, replays and dumps."""

from typing import assert_never

from raft.core import RaftCore
from raft.model import NO_POSITION, NodeId
from raft.progress import Progress
from raft.roles import Candidate, Follower, Leader, PreCandidate


def render(core: RaftCore) -> str:
    """Returns, for example, `n1@4 leader last=9@4 durable=9 commit=9 {2:9→10 3:7→8 probe}`."""
    log = core.log
    return (
        f"n{core.node_id}@{core.term} {_render_role(core)} "
        f"{_render_recall(core)}{_render_start(core)}last={log.last_index}@{log.last_term}{_render_floor(core)} durable={log.durable_index}"
        f" commit={core.commit_index}{_render_peers(core)}{_render_members(core)}"
    )


def _render_recall(core: RaftCore) -> str:
    if core.recall is None:
        return ""
    return f"blank, waits for {_render_nodes(set(core.recall.missing))} "


def _render_start(core: RaftCore) -> str:
    start = core.log.start.position
    return "" if start == NO_POSITION else f"start={start.index}@{start.term} "


def _render_floor(core: RaftCore) -> str:
    return "" if core.floor == NO_POSITION else f" floor={core.floor.index}@{core.floor.term}"


def _render_role(core: RaftCore) -> str:
    match core.role:
        case Follower(leader=leader):
            return f"follower({f'n{leader}' if leader is not None else ''})"
        case PreCandidate(granted=granted):
            return f"pre_candidate({_render_nodes(granted)})"
        case Candidate(granted=granted):
            return f"candidate({_render_nodes(granted)})"
        case Leader():
            return "leader"
        case _:
            assert_never(core.role)


def _render_members(core: RaftCore) -> str:
    """The configuration, once it is not the first one any more: `[1 2 3 | 4]` has a learner, `[1 2→3 4]` is joint."""
    if not core.membership.has_changed:
        return ""
    configuration = core.configuration
    voters = " ".join(map(str, sorted(configuration.voters)))
    if configuration.outgoing:
        voters = f"{' '.join(map(str, sorted(configuration.outgoing)))}→{voters}"
    learners = " ".join(map(str, sorted(configuration.learners)))
    own = f" as {core.directory_id}" if core.directory_id else ""
    return f" [{voters}{f' | {learners}' if learners else ''}]{'' if core.membership.is_settled else '?'}{own}"


def _render_nodes(nodes: set[NodeId]) -> str:
    return " ".join(f"n{node}" for node in sorted(nodes))


def _render_peers(core: RaftCore) -> str:
    if not isinstance(core.role, Leader):
        return ""
    return " {" + " ".join(_render_progress(peer, progress) for peer, progress in core.role.progress.items()) + "}"


def _render_progress(peer: NodeId, progress: Progress) -> str:
    state = " probe" if progress.probing else ""
    return f"{peer}:{progress.match_index}→{progress.next_index}{state}"
