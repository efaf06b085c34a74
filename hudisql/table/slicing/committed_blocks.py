"""The blocks of a slice's log files that readers merge.

Follows the scan of `AbstractHoodieLogRecordScanner` of Hudi 0.15: blocks of instants that count, without
those that a later block rolls back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

from hudisql.format.log_file.log_block import (
    BlockType,
    CorruptBlock,
    HeaderKey,
    LogBlock,
    LogBlockHead,
    parse_log_blocks,
    scan_log_blocks,
)
from hudisql.storage import Storage
from hudisql.table.file_slice import LogFile

KEPT_BYTES = 32 * 1024 * 1024
"""Bytes of log files that are kept from the scan for rollback blocks; other blocks are read again."""


def committed_blocks(
    storage: Storage, log_files: Sequence[LogFile], counts: Callable[[str], bool]
) -> Iterator[tuple[LogFile, LogBlock]]:
    """The blocks with their contents, one at a time, in the order of the files.

    `counts` tells of an instant time whether its blocks are read. Damaged blocks and those that a rollback
    block rolls back are left out. Raises UnsupportedTableError, StorageError.
    """
    return _read_blocks(storage, _kept_blocks(storage, log_files, counts))


def _kept_blocks(
    storage: Storage, log_files: Sequence[LogFile], counts: Callable[[str], bool]
) -> deque[tuple[LogFile, LogBlock | LogBlockHead]]:
    """The blocks that count; those of small files have their contents.

    A rollback block can refer to a block of an earlier file, so contents are read after all files were
    scanned; up to `KEPT_BYTES` are kept from the scan.
    """
    blocks: deque[tuple[LogFile, LogBlock | LogBlockHead]] = deque()
    kept = 0
    for log_file in log_files:
        is_kept = kept + log_file.length <= KEPT_BYTES
        kept += log_file.length if is_kept else 0
        for block in _blocks_of(storage, log_file, with_contents=is_kept):
            if isinstance(block, CorruptBlock) or block.block_type is BlockType.CORRUPT:
                continue
            if block.is_rollback:
                target = block.header.get(HeaderKey.TARGET_INSTANT_TIME)
                blocks = deque(earlier for earlier in blocks if earlier[1].instant_time != target)
            elif block.block_type is not BlockType.COMMAND and counts(block.instant_time):
                blocks.append((log_file, block))
    return blocks


def _blocks_of(
    storage: Storage, log_file: LogFile, *, with_contents: bool
) -> Iterator[LogBlock | LogBlockHead | CorruptBlock]:
    if with_contents:
        yield from parse_log_blocks(storage.read(log_file.path), log_file.path)
        return
    with storage.open_input(log_file.path) as source:
        yield from scan_log_blocks(source, log_file.path)


def _read_blocks(
    storage: Storage, blocks: deque[tuple[LogFile, LogBlock | LogBlockHead]]
) -> Iterator[tuple[LogFile, LogBlock]]:
    """The blocks with their contents, one at a time; `blocks` is emptied to free the contents."""
    with ExitStack() as opened:
        path, source = "", None
        while blocks:
            log_file, block = blocks.popleft()
            if isinstance(block, LogBlock):
                yield log_file, block
                continue
            if log_file.path != path:
                opened.close()
                path, source = log_file.path, opened.enter_context(storage.open_input(log_file.path))
            assert source is not None
            content = source.read_at(block.stop - block.start, block.start)
            yield log_file, LogBlock(block.block_type, block.header, content, block.footer)
            del content
