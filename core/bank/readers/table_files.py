"""Rows of CSV, TSV, Parquet and JSON-lines files, whatever they mean, in bounded memory.

Takes a `Source`; gives records: where each stands, the names of its columns, its values. Knows nothing of scores.
"""

import csv
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from core.bank.readers.sources import Source
from core.errors import BankError
from core.files import MAX_LINE_BYTES

PARQUET = b"PAR1"
MAX_COLUMNS = 100_000
MAX_GROUP_BYTES = 1_000_000_000
"""Largest row group of a Parquet file, unpacked, in the columns that are read."""
DELIMITERS = "\t,;"


class Record(NamedTuple):
    """One row of a table."""

    where: str
    names: Sequence[str]
    """The columns; the same list for every row, except in JSON."""
    values: Sequence[Any]


def is_parquet(source: Source) -> bool:
    """True for a file with Parquet's magic bytes."""
    return source.head[:4] == PARQUET


def is_delimited(source: Source) -> bool:
    """True for text whose first line has several cells."""
    return source.is_text and not source.is_json and delimiter_of(source) is not None


def delimiter_of(source: Source) -> str | None:
    """What separates the cells of the first line: a tab, a comma or a semicolon; None where nothing does."""
    first = source.head.split(b"\n", 1)[0].decode(errors="replace")
    counts = {one: first.count(one) for one in DELIMITERS}
    most = max(counts, key=lambda one: counts[one])
    return most if counts[most] else None


def records(source: Source, columns: Sequence[str] | None = None) -> Iterator[Record]:
    """Every row; of a Parquet file only `columns`, where given. Raises BankError naming file and line."""
    if is_parquet(source):
        yield from _parquet(source, columns)
    elif not source.is_json:
        yield from _delimited(source)
    elif isinstance(source.json, list):
        for at, one in enumerate(source.json, start=1):
            if not isinstance(one, dict):
                raise BankError(f"{source.path}: entry {at}: expected an object, found {type(one).__name__}.")
            yield Record(f"{source.path}: entry {at}", list(one), list(one.values()))
    else:
        for where, row in source.rows():
            yield Record(where, list(row), list(row.values()))


def _lines(source: Source) -> Iterator[str]:
    """Lines of a UTF-8 text, each within 4 MB."""
    with source.path.open("rb") as file:
        for at, line in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES + 1), b""), start=1):
            if len(line) > MAX_LINE_BYTES:
                raise BankError(f"{source.path}:{at}: a line of more than {MAX_LINE_BYTES:,} bytes. Is it a table?")
            try:
                yield line.decode("utf-8-sig" if at == 1 else "utf-8")
            except UnicodeDecodeError:
                raise BankError(f"{source.path}:{at}: is not UTF-8 text. Save the table as CSV in UTF-8.") from None


def _delimited(source: Source) -> Iterator[Record]:
    reader = csv.reader(_lines(source), delimiter=delimiter_of(source) or ",", strict=True)
    decimal_comma = reader.dialect.delimiter == ";"
    names: list[str] | None = None
    try:
        for row in reader:
            where = f"{source.path}:{reader.line_num}"
            if not any(cell.strip() for cell in row):
                continue
            if names is None:
                names = [cell.strip() for cell in row]
                if len(names) > MAX_COLUMNS:
                    raise BankError(f"{where}: more than {MAX_COLUMNS:,} columns, the most that are read.")
                continue
            if len(row) != len(names):
                raise BankError(f"{where}: expected {len(names)} cells, as in the first line, found {len(row)}.")
            yield Record(where, names, [_with_point(cell) for cell in row] if decimal_comma else row)
    except csv.Error as problem:
        raise BankError(f"{source.path}:{reader.line_num}: is not a table as CSV has it ({problem}).") from None
    if names is None:
        raise BankError(f"{source.path}: is empty. Expected a table with a line of column names.")


def _with_point(cell: str) -> str:
    """`0,5`, as spreadsheets write it where cells are separated by semicolons, as `0.5`."""
    whole, comma, part = cell.partition(",")
    return f"{whole}.{part}" if comma and whole.strip("-").isdigit() and part.isdigit() else cell


def parquet_columns(source: Source) -> list[str]:
    """Names of the columns; BankError where the file is damaged."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(source.path) as file:
            return list(file.schema_arrow.names)
    except (pa.ArrowException, OSError, ValueError) as problem:
        raise BankError(f"{source.path}: is no whole Parquet file ({_short(problem)}).") from None


def _parquet(source: Source, columns: Sequence[str] | None) -> Iterator[Record]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(source.path) as file:
            names = list(columns) if columns is not None else list(file.schema_arrow.names)
            if len(names) > MAX_COLUMNS:
                raise BankError(f"{source.path}: more than {MAX_COLUMNS:,} columns, the most that are read.")
            _check_groups(source, file.metadata, set(names))
            at = 0
            for batch in file.iter_batches(batch_size=max(1, 2_000_000 // max(1, len(names))), columns=names):
                for values in zip(*(one.to_pylist() for one in batch.columns), strict=True):
                    at += 1
                    yield Record(f"{source.path}: row {at}", batch.schema.names, values)
    except (pa.ArrowException, OSError, ValueError) as problem:
        raise BankError(f"{source.path}: is no whole Parquet file ({_short(problem)}).") from None


def _check_groups(source: Source, metadata: Any, names: set[str]) -> None:
    for at in range(metadata.num_row_groups):
        group = metadata.row_group(at)
        parts = (group.column(index) for index in range(group.num_columns))
        size = sum(one.total_uncompressed_size for one in parts if one.path_in_schema.split(".")[0] in names)
        if size > MAX_GROUP_BYTES:
            raise BankError(
                f"{source.path}: row group {at} unpacks to {size:,} bytes, more than the {MAX_GROUP_BYTES:,} that are "
                "read at once. Write it with smaller row groups."
            )


def _short(problem: Exception) -> str:
    return " ".join(str(problem).split())[:200]
