"""The disk of the simulator is as bad as a real one may be, and no worse."""

import contextlib
import random
import threading
from collections.abc import Callable

import pytest

from log.disk import replace_file
from log.errors import NoSpace, StorageFailed
from log.memory_disk import SECTOR_BYTES, MemoryDisk, PowerLoss
from tests.log.frames import memory_disk


def write_durable(disk: MemoryDisk, path: str = "d/f", content: bytes = b"durable") -> None:
    """Writes a file whose content and name are durable."""
    disk.make_directory("d")
    file = disk.open(path, create=True)
    file.write_at(0, [content])
    file.sync()
    disk.sync_directory("d")


def crash(disk: MemoryDisk, seed: int, loss: PowerLoss | None = None) -> MemoryDisk:
    return disk.after_crash(random.Random(seed), loss=loss)


def fates(disk: MemoryDisk, loss: PowerLoss | None = None) -> set[bytes | None]:
    """Returns the contents that many power cuts leave in `d/f`, None where its name is gone."""
    survivors = [crash(disk, seed, loss) for seed in range(1_000)]
    return {each.content("d/f") if "d/f" in each.paths() else None for each in survivors}


def test_what_was_synced_survives_every_power_cut() -> None:
    disk = memory_disk()
    write_durable(disk)
    assert fates(disk) == {b"durable"}
    assert disk.durable_copy().content("d/f") == b"durable"


def test_an_unsynced_write_may_survive_or_not_or_be_torn() -> None:
    disk = memory_disk()
    write_durable(disk)
    disk.open("d/f", create=False).write_at(7, [b"+more"])
    seen = fates(disk)
    assert {b"durable", b"durable+more", b"durable+m"} <= seen
    assert fates(disk, PowerLoss.LOSE_ALL) == {b"durable"} == {disk.durable_copy().content("d/f")}
    assert fates(disk, PowerLoss.KEEP_ALL) == {b"durable+more"}


def test_any_subset_of_unsynced_writes_may_survive() -> None:
    disk = memory_disk()
    write_durable(disk, content=b"...")
    file = disk.open("d/f", create=False)
    for at in range(3):
        file.write_at(at, [b"x"])
    assert fates(disk, PowerLoss.KEEP_SUBSET) == {b"...", b"x..", b".x.", b"..x", b"xx.", b"x.x", b".xx", b"xxx"}
    assert fates(disk, PowerLoss.KEEP_PREFIX) == {b"...", b"x..", b"xx.", b"xxx"}


def test_a_torn_write_may_lose_any_of_its_sectors() -> None:
    disk = memory_disk()
    write_durable(disk, content=bytes(3 * SECTOR_BYTES))
    disk.open("d/f", create=False).write_at(0, [b"x" * (3 * SECTOR_BYTES)])
    kept = {tuple(seen[at] for at in range(0, len(seen), SECTOR_BYTES)) for seen in fates(disk) if seen is not None}
    x = ord("x")
    assert {(x, x, x), (0, x, 0), (x, 0, x), (0, 0, 0)} <= kept


def test_a_file_may_have_grown_without_its_data() -> None:
    disk = memory_disk()
    write_durable(disk)
    disk.open("d/f", create=False).write_at(7, [b"+more"])
    assert b"durable" + bytes(5) in fates(disk, PowerLoss.KEEP_SUBSET)


def test_a_file_that_gets_another_name_takes_its_content_along_whatever_survives_of_it() -> None:
    """A later write may be lost while the name is kept: then the old content stands under the new name."""
    disk = memory_disk()
    write_durable(disk)
    disk.rename("d/f", "d/g")
    disk.open("d/g", create=False).write_at(0, [b"renewed"])
    survivors = [crash(disk, seed) for seed in range(300)]
    seen = {(path, each.content(path)) for each in survivors for path in each.paths()}
    assert {("d/f", b"durable"), ("d/f", b"renewed"), ("d/g", b"durable"), ("d/g", b"renewed")} <= seen
    assert {len(each.paths()) for each in survivors} == {1}


def test_a_flush_covers_what_it_writes_itself_but_not_what_is_written_beside_it() -> None:
    disk = memory_disk()
    write_durable(disk)
    file = disk.open("d/f", create=False)
    mark = disk.mark()
    file.write_at(7, [b"+beside"])
    with disk.issued_before(mark):
        other = disk.open("d/g", create=True)
        other.write_at(0, [b"own"])
        other.sync()
        file.sync()
        disk.sync_directory("d")
    assert (disk.durable_content("d/f"), disk.durable_content("d/g")) == (b"durable", b"own")


def test_an_unsynced_cut_may_survive_or_not() -> None:
    disk = memory_disk()
    write_durable(disk)
    disk.open("d/f", create=False).cut(3)
    assert fates(disk) == {b"durable", b"dur"}


def test_a_name_that_was_not_synced_may_be_gone_though_its_bytes_were() -> None:
    disk = memory_disk()
    disk.make_directory("d")
    file = disk.open("d/f", create=True)
    file.write_at(0, [b"bytes"])
    file.sync()
    assert fates(disk) == {None, b"bytes"}
    assert disk.durable_content("d/f") == b""
    disk.sync_directory("d")
    assert fates(disk) == {b"bytes"}


def test_an_unsynced_removal_may_come_back() -> None:
    disk = memory_disk()
    write_durable(disk)
    disk.remove("d/f")
    assert fates(disk) == {None, b"durable"}


def test_a_replaced_small_file_is_the_old_or_the_new_one_at_every_moment() -> None:
    for n in range(1, 20):
        disk = memory_disk(n)
        write_durable(disk, content=b"old")
        disk.fail_call(n)
        try:
            replace_file(disk, "d", "f", b"new")
        except StorageFailed:
            assert fates(disk) <= {b"old", b"new"}
        else:
            assert fates(disk) == {b"new"}
            return
    pytest.fail("the loop ends when no call fails")


def test_a_failed_sync_forgets_what_it_leaves_visible() -> None:
    disk = memory_disk(3)
    write_durable(disk, content=b"")
    file = disk.open("d/f", create=False)
    for at in range(20):
        file.write_at(at, [b"x"])
    disk.fail_call(1)
    with pytest.raises(StorageFailed):
        file.sync()
    file.sync()
    assert file.read_at(0, 99) == b"x" * 20
    assert disk.durable_content("d/f").count(b"x") < 20


def test_a_lying_sync_saves_nothing() -> None:
    disk = memory_disk()
    write_durable(disk)
    disk.lying_sync = True
    file = disk.open("d/f", create=False)
    file.write_at(7, [b"+"])
    file.sync()
    assert disk.durable_content("d/f") == b"durable"
    disk.lying_sync = False
    file.sync()
    assert disk.durable_content("d/f") == b"durable+"


def test_a_sync_that_takes_time_covers_what_was_issued_before_it() -> None:
    disk = memory_disk()
    write_durable(disk)
    file = disk.open("d/f", create=False)
    file.write_at(7, [b"1"])
    mark = disk.mark()
    file.write_at(8, [b"2"])
    disk.open("d/g", create=True)
    with disk.issued_before(mark):
        file.sync()
        disk.sync_directory("d")
    assert disk.durable_content("d/f") == b"durable1"
    assert "d/g" not in disk.durable_copy().paths()
    file.sync()
    assert disk.durable_content("d/f") == b"durable12"


def meanwhile(disk: MemoryDisk, awaited: str, act: Callable[[], object]) -> None:
    """Let another thread do `act` inside the next call of this kind, once."""

    def hook(operation: str, path: str) -> None:
        if operation == awaited:
            disk.before_call = None
            other = threading.Thread(target=act)
            other.start()
            other.join()

    disk.before_call = hook


def test_what_is_written_beside_a_sync_is_left_to_the_next_one() -> None:
    disk = memory_disk()
    write_durable(disk)
    file = disk.open("d/f", create=False)
    file.write_at(7, [b"+before"])
    meanwhile(disk, "sync", lambda: file.write_at(14, [b"+beside"]))
    file.sync()
    assert disk.durable_content("d/f") == b"durable+before"
    assert fates(disk, PowerLoss.KEEP_ALL) == {b"durable+before+beside"}
    file.sync()
    assert disk.durable_content("d/f") == file.read_at(0, 99) == b"durable+before+beside"


def test_what_is_written_beside_a_sync_that_fails_is_not_forgotten() -> None:
    disk = memory_disk()
    write_durable(disk)
    file = disk.open("d/f", create=False)
    meanwhile(disk, "sync", lambda: file.write_at(7, [b"+beside"]))
    disk.fail_call(1)
    with pytest.raises(StorageFailed, match="sync of d/f failed"):
        file.sync()
    assert disk.durable_content("d/f") == b"durable"
    file.sync()
    assert disk.durable_content("d/f") == b"durable+beside"


def test_what_is_written_beside_a_sync_that_lies_is_saved_by_one_that_does_not() -> None:
    disk = memory_disk()
    write_durable(disk)
    file = disk.open("d/f", create=False)
    disk.lying_sync = True
    meanwhile(disk, "sync", lambda: file.write_at(7, [b"+beside"]))
    file.sync()
    disk.lying_sync = False
    file.sync()
    assert disk.durable_content("d/f") == b"durable+beside"


def test_a_flush_does_not_cover_what_it_writes_itself_beside_its_own_sync() -> None:
    disk = memory_disk()
    write_durable(disk)
    file = disk.open("d/f", create=False)
    with disk.issued_before(disk.mark()):
        file.write_at(7, [b"+own"])
        meanwhile(disk, "sync", lambda: file.write_at(11, [b"+late"]))
        file.sync()
        assert disk.durable_content("d/f") == b"durable+own"
        file.sync()
    assert disk.durable_content("d/f") == b"durable+own+late"


@pytest.mark.parametrize("fails", [False, True])
def test_a_name_given_beside_a_sync_of_names_is_left_to_the_next_one(fails: bool) -> None:
    disk = memory_disk()
    write_durable(disk)
    meanwhile(disk, "sync directory", lambda: disk.rename("d/f", "d/g"))
    if fails:
        disk.fail_call(1)
    with pytest.raises(StorageFailed) if fails else contextlib.nullcontext():
        disk.sync_directory("d")
    assert disk.durable_copy().paths() == ["d/f"]
    disk.sync_directory("d")
    assert disk.durable_copy().paths() == ["d/g"]


@pytest.mark.parametrize("seed", range(40))
def test_a_sync_of_names_after_one_that_failed_saves_what_the_names_mean_by_then(seed: int) -> None:
    """The failed one saves any of the changes, also the newer alone: the older do not come back."""
    disk = memory_disk(seed)
    write_durable(disk)
    disk.remove("d/f")
    disk.open("d/new", create=True).close()
    disk.rename("d/new", "d/f")
    disk.open("d/new", create=True).close()
    disk.remove("d/new")
    disk.fail_call(1)
    with pytest.raises(StorageFailed):
        disk.sync_directory("d")
    survivor = disk.after_kill(random.Random(seed))
    survivor.sync_directory("d")
    assert survivor.paths() == ["d/f"]
    for after in (survivor.durable_copy(), crash(survivor, seed)):
        assert (after.paths(), after.content("d/f")) == (["d/f"], b"")


def test_syncs_that_overlap_save_everything_once() -> None:
    """The later one ends first; what it covered, and what came after, is none of the earlier one's business any more."""
    disk = memory_disk()
    write_durable(disk)
    file = disk.open("d/f", create=False)
    file.write_at(7, [b"+1"])
    disk.open("d/g", create=True)

    def overlap() -> None:
        file.write_at(9, [b"+2"])
        file.sync()
        file.write_at(7, [b"-"])
        disk.open("d/h", create=True)
        disk.sync_directory("d")
        disk.remove("d/h")

    meanwhile(disk, "sync", overlap)
    file.sync()
    assert disk.durable_content("d/f") == b"durable+1+2"
    disk.open("d/i", create=True)
    meanwhile(disk, "sync directory", overlap)
    disk.sync_directory("d")
    assert disk.durable_copy().paths() == ["d/f", "d/g", "d/h", "d/i"]
    file.sync()
    disk.sync_directory("d")
    assert disk.durable_content("d/f") == file.read_at(0, 99) == b"durable-1+2"
    assert disk.durable_copy().paths() == ["d/f", "d/g", "d/i"]


def test_a_kill_loses_nothing_but_locks() -> None:
    disk = memory_disk()
    write_durable(disk)
    disk.lock("d/lock")
    disk.open("d/f", create=False).write_at(7, [b"+more"])
    after = disk.after_kill(random.Random(0))
    assert after.content("d/f") == b"durable+more"
    assert after.durable_content("d/f") == b"durable"
    after.lock("d/lock")
    disk.open("d/f", create=False).write_at(0, [b"D"])
    assert after.content("d/f") == b"durable+more"


def test_a_full_disk_takes_what_was_reserved_and_no_more() -> None:
    disk = memory_disk(capacity_bytes=100)
    disk.make_directory("d")
    file = disk.open("d/f", create=True)
    file.reserve(60)
    other = disk.open("d/g", create=True)
    other.write_at(0, [bytes(40)])
    with pytest.raises(NoSpace):
        other.write_at(40, [b"x"])
    with pytest.raises(NoSpace):
        disk.open("d/h", create=True)
    with pytest.raises(NoSpace):
        file.reserve(61)
    file.write_at(0, [bytes(60)])
    assert disk.used_bytes() == 100
    assert file.size() == 60
    other.cut(0)
    file.write_at(60, [bytes(40)])


def test_a_write_that_meets_a_full_disk_leaves_some_prefix() -> None:
    kept = set()
    for seed in range(40):
        disk = memory_disk(seed, capacity_bytes=4)
        disk.make_directory("d")
        file = disk.open("d/f", create=True)
        with pytest.raises(NoSpace):
            file.write_at(0, [b"abc", b"def"])
        kept.add(file.read_at(0, 9))
    assert kept == {b"", b"a", b"ab", b"abc", b"abcd"}


def test_the_n_th_call_fails_and_only_it() -> None:
    disk = memory_disk()
    write_durable(disk)
    file = disk.open("d/f", create=False)
    disk.fail_call(2)
    file.read_at(0, 1)
    with pytest.raises(StorageFailed, match="read of d/f failed"):
        file.read_at(0, 1)
    file.read_at(0, 1)


def test_the_n_th_call_fails_though_another_is_made_while_it_waits() -> None:
    disk = memory_disk()
    write_durable(disk)
    file = disk.open("d/f", create=False)
    meanwhile(disk, "sync", lambda: file.read_at(0, 1))
    disk.fail_call(1)
    with pytest.raises(StorageFailed, match="sync of d/f failed"):
        file.sync()


def test_a_dead_disk_fails_every_call() -> None:
    disk = memory_disk()
    write_durable(disk)
    disk.failing = True
    for _ in range(2):
        with pytest.raises(StorageFailed):
            disk.exists("d/f")


def test_a_flipped_bit_stays_flipped() -> None:
    disk = memory_disk()
    write_durable(disk)
    disk.flip_bit("d/f", 8)
    assert disk.content("d/f") == b"dtrable" == crash(disk, 1).content("d/f")


def test_the_same_seed_gives_the_same_fate() -> None:
    disk = memory_disk()
    write_durable(disk)
    for at in range(30):
        disk.open("d/f", create=False).write_at(at * 700, [b"x" * 650])
        disk.open(f"d/{at}", create=True).write_at(0, [b"y" * 1300])

    def state(seed: int) -> dict[str, bytes]:
        survivor = crash(disk, seed)
        return {path: survivor.content(path) for path in survivor.paths()}

    assert [state(seed) for seed in range(20)] == [state(seed) for seed in range(20)]
    assert len({str(state(seed)) for seed in range(20)}) > 10


def test_a_hook_sees_every_call_before_it_happens() -> None:
    disk = memory_disk()
    seen: list[tuple[str, str]] = []
    disk.before_call = lambda operation, path: seen.append((operation, path))
    write_durable(disk)
    assert seen == [
        ("make directory", "d"),
        ("open", "d/f"),
        ("write", "d/f"),
        ("sync", "d/f"),
        ("sync directory", "d"),
    ]
