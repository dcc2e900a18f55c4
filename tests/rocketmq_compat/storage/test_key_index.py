"""The key index: newest first, within times, bounded, and what is left of it behind a restart."""

import pytest

from log.errors import CorruptLog
from log.file_pool import FilePool
from log.memory_disk import MemoryDisk
from rocketmq_compat.storage.key_index import KeyIndex, KeyIndexConfig, KeyTable
from tests.rocketmq_compat.storage.records import memory_disk

CONFIG = KeyIndexConfig(entries_max=10, span_bytes_max=1000, tables_max=4)
ALL = (0, 1 << 63)


def index_of(disk: MemoryDisk, config: KeyIndexConfig = CONFIG) -> KeyIndex:
    return KeyIndex(disk, FilePool(disk, 4), "index", config)


def fill(index: KeyIndex, begin: int, end: int) -> None:
    """One entry at each physical offset: its hash is the offset modulo 7, its time the offset."""
    for at in range(begin, end):
        index.add([(at % 7, at, at)], at + 1)


def save(index: KeyIndex) -> None:
    tables = index.to_save(index.end)
    for table in tables:
        index.write_table(table)
    index.note_saved(tables)


def test_entries_are_found_newest_first_in_memory_and_in_files() -> None:
    index = index_of(memory_disk())
    fill(index, 0, 20)
    save(index)
    fill(index, 20, 38)
    assert (len(index.files), index.end) == (2, 38)
    for key in range(7):
        assert list(index.find(key, *ALL)) == [at for at in reversed(range(38)) if at % 7 == key]
    assert list(index.find(3, 10, 24)) == [24, 17, 10]
    assert list(index.find(7, *ALL)) == []


def test_hashes_with_one_slot_are_told_apart() -> None:
    index = index_of(memory_disk())
    for at in range(30):
        index.add([(5 + (at % 3 << 16), at, at)], at + 1)
    save(index)
    assert list(index.find(5 + (2 << 16), *ALL)) == [at for at in reversed(range(30)) if at % 3 == 2]


def test_a_table_is_full_by_its_entries_or_by_what_it_covers() -> None:
    index = index_of(memory_disk())
    index.add([], 5000)
    assert index.to_save(5000) == []
    index.add([(1, 5000, 1)], 5100)
    index.add([(1, 5100, 1)], 6000)
    assert [(each.start, each.end, each.count) for each in index.to_save(6000)] == [(0, 5100, 1)]
    assert index.saved_end([], 6000) == 0
    assert index.saved_end(index.to_save(6000), 6000) == 5100
    assert index.saved_end(index.to_save(6000), 5050) == 5050
    assert index.to_save(5099) == []


def test_the_oldest_files_go_and_no_more_are_kept_than_allowed() -> None:
    disk = memory_disk()
    index = index_of(disk)
    for begin in range(0, 100, 10):
        fill(index, begin, begin + 10)
        save(index)
        for path in index.take_gone():
            disk.remove(path)
    assert [each.start for each in index.files] == [60, 70, 80, 90]
    assert [path.rpartition("/")[2] for path in disk.paths()] == [f"{start:020}" for start in (60, 70, 80, 90)]
    assert list(index.find(4, *ALL)) == [95, 88, 81, 74, 67, 60]


def test_files_go_with_the_messages_that_they_are_about() -> None:
    index = index_of(memory_disk())
    fill(index, 0, 40)
    save(index)
    index.trim(20)
    assert [each.start for each in index.files] == [20, 30]
    assert index.take_gone() == [f"index/{0:020}", f"index/{10:020}"]
    assert index.take_gone() == []


@pytest.mark.parametrize("cut", [0, 5, 10, 25, 31, 34, 40])
def test_a_cut_removes_what_lies_behind_it_and_states_from_where_to_add_again(cut: int) -> None:
    index = index_of(memory_disk(), KeyIndexConfig(entries_max=10, span_bytes_max=1000))
    fill(index, 0, 20)
    save(index)
    fill(index, 20, 35)
    resume = index.cut(cut)
    assert resume == index.end <= cut
    fill(index, resume, 50)
    for key in range(7):
        assert list(index.find(key, *ALL)) == [at for at in reversed(range(50)) if at % 7 == key]
    save(index)
    assert list(index.find(3, *ALL)) == [at for at in reversed(range(50)) if at % 7 == 3]


def test_the_last_table_is_gone_on_with_after_a_restart() -> None:
    disk = memory_disk()
    index = index_of(disk)
    fill(index, 0, 13)
    index.end_table()
    index.end_table()
    tables = index.to_save(13)
    end, files = index.saved_end(tables, 13), index.files_with(tables)
    save(index)
    assert (end, [each.count for each in files]) == (13, [10, 3])
    again = index_of(disk)
    again.load(files, end)
    again.go_on()
    fill(again, 13, 25)
    for key in range(7):
        assert list(again.find(key, *ALL)) == [at for at in reversed(range(25)) if at % 7 == key]
    save(again)
    assert [(each.start, each.count) for each in again.files] == [(0, 10), (10, 10)]
    assert again.take_gone() == []
    assert list(again.find(3, *ALL)) == [at for at in reversed(range(25)) if at % 7 == 3]


def test_a_file_that_is_about_to_be_written_again_does_not_go() -> None:
    """The last table was read from it, what is in it has left the log, and the table has become full since."""
    disk = memory_disk()
    index = index_of(disk)
    fill(index, 0, 3)
    index.end_table()
    files = index.files_with(index.to_save(3))
    save(index)
    again = index_of(disk)
    again.load(files, 3)
    again.go_on()
    again.trim(3)
    fill(again, 3, 12)
    (table,) = again.to_save(12)
    assert again.take_gone() == []
    again.write_table(table)
    again.note_saved([table])
    assert list(again.find(4, 3, 99)) == [11, 4]


def test_a_file_that_is_too_short_is_reported() -> None:
    disk = memory_disk()
    index = index_of(disk)
    fill(index, 0, 10)
    save(index)
    path = disk.paths()[0]
    disk.open(path, create=False).cut(len(disk.content(path)) - 1)
    with pytest.raises(CorruptLog, match="ends early"):
        list(index.find(2, *ALL))


def test_damage_leads_to_no_endless_search() -> None:
    disk = memory_disk()
    index = index_of(disk)
    fill(index, 0, 10)
    save(index)
    path = disk.paths()[0]
    entries = 4 << 16
    for at in range(10):
        for bit in range(32):
            disk.flip_bit(path, 8 * (entries + 24 * at + 4) + bit)
            with_damage = [each for key in range(7) for each in _all(index, key)]
            assert len(with_damage) <= 30
            disk.flip_bit(path, 8 * (entries + 24 * at + 4) + bit)


def _all(index: KeyIndex, key: int) -> list[int]:
    try:
        return list(index.find(key, *ALL))
    except CorruptLog:
        return []


def test_a_table_that_is_not_whole_in_its_file_is_not_gone_on_with() -> None:
    table = KeyTable(5)
    table.add([(1, 6, 7)], 9)
    index = index_of(memory_disk())
    index.load([], 0)
    (file,) = index.files_with([table])
    content = b"".join(table.content())
    again = KeyTable.read(file, content)
    assert again is not None
    assert (again.start, again.end, again.count, list(again.find(1))) == (5, 9, 1, [(6, 7)])
    assert KeyTable.read(file, content[:-1]) is None


@pytest.mark.parametrize("name", ["entries_max", "span_bytes_max", "tables_max"])
def test_bounds_are_positive(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        KeyIndexConfig(**{name: 0})
