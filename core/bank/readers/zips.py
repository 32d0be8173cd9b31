"""Members of a zip file, one at a time, also those compressed with Zstandard, and no bomb among them.

Takes a path; gives bytes of members that were asked for, or one BankError. Writes nothing to disk, so a member's
name leads nowhere.
"""

import io
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from core.errors import BankError

ZSTD = 93
"""The zip format's number for Zstandard; Python's own `zipfile` reads it from 3.14."""
MAX_MEMBER_BYTES = 64_000_000
MAX_TOTAL_BYTES = 4_000_000_000
MAX_RATIO = 2_000
"""Most bytes out of one byte in, for members over 1 MB; transcripts reach a few hundred."""
MAX_DIRECTORY_BYTES = 64_000_000
MAX_WINDOW_BYTES = 128 * 1024 * 1024
END, END_64, LOCATOR_64 = b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x07"


class Members:
    """An open zip file whose members were checked against the limits by what its directory says of them."""

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self._path, self._file = path, file
        self._taken = 0
        _check_directory(path, file)
        try:
            self._zip = zipfile.ZipFile(file)
        except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError) as problem:
            raise BankError(f"{path}: is not a whole zip file ({problem}). Copy it again.") from None
        self.names = [one.filename for one in self._zip.infolist()]
        """Names of the members, in the order of the directory."""
        total = sum(one.file_size for one in self._zip.infolist())
        if total > MAX_TOTAL_BYTES:
            raise self._too_large(f"its members come to {total:,} bytes, more than {MAX_TOTAL_BYTES:,}")

    def read(self, name: str) -> bytes:
        """One member, unpacked; BankError where it is too large, damaged, encrypted or oddly compressed."""
        info = self._zip.getinfo(name)
        self._check(info)
        try:
            data = b"".join(self._chunks(info))
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError, struct.error) as problem:
            raise BankError(
                f"{self._path}: member {name!r:.200} is damaged ({problem}). Copy the file again."
            ) from None
        if len(data) != info.file_size or zlib.crc32(data) != info.CRC:
            raise BankError(
                f"{self._path}: member {name!r:.200} does not hold the {info.file_size:,} bytes that the zip's "
                "directory says. The file is damaged, or made to overwhelm its reader; copy it again."
            )
        self._taken += len(data)
        if self._taken > MAX_TOTAL_BYTES:
            raise self._too_large(f"its members come to more than {MAX_TOTAL_BYTES:,} bytes")
        return data

    def _check(self, info: zipfile.ZipInfo) -> None:
        name = f"{info.filename!r:.200}"
        if info.file_size > MAX_MEMBER_BYTES:
            raise self._too_large(f"member {name} is {info.file_size:,} bytes, more than {MAX_MEMBER_BYTES:,}")
        if info.file_size > 1_000_000 and info.file_size > MAX_RATIO * max(info.compress_size, 1):
            raise self._too_large(f"member {name} unpacks to more than {MAX_RATIO:,} times its size")
        if info.flag_bits & 1:
            raise BankError(f"{self._path}: member {name} is encrypted. Decrypt the file first.")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, ZSTD):
            raise BankError(
                f"{self._path}: member {name} is compressed by method {info.compress_type}. "
                "Expected stored, deflated or Zstandard."
            )

    def _chunks(self, info: zipfile.ZipInfo) -> Iterator[bytes]:
        """The member's bytes; one more than promised at most, which is then refused."""
        left = info.file_size + 1
        with self._zstd(info) if info.compress_type == ZSTD else self._zip.open(info) as member:
            while left > 0 and (chunk := member.read(min(left, 1 << 20))):
                left -= len(chunk)
                yield chunk

    def _zstd(self, info: zipfile.ZipInfo) -> Any:
        import zstandard

        self._file.seek(info.header_offset)
        header = self._file.read(30)
        if len(header) < 30 or header[:4] != b"PK\x03\x04":
            raise zipfile.BadZipFile("no header where the directory says")
        name, extra = struct.unpack("<HH", header[26:30])
        self._file.seek(name + extra, io.SEEK_CUR)
        packed = self._file.read(info.compress_size)
        reader = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES).stream_reader(packed)
        return _Unpacked(reader, zstandard.ZstdError)

    def _too_large(self, what: str) -> BankError:
        return BankError(f"{self._path}: refused, because {what}. An evaluation log is not like that.")


class _Unpacked:
    """A Zstandard reader whose errors are those of a damaged zip."""

    def __init__(self, reader: Any, error: type[Exception]) -> None:
        self._reader, self._error = reader, error

    def __enter__(self) -> "_Unpacked":
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()

    def read(self, size: int) -> bytes:
        try:
            return bytes(self._reader.read(size))
        except self._error as problem:
            raise zipfile.BadZipFile(str(problem)) from None


def _check_directory(path: Path, file: IO[bytes]) -> None:
    """Refuse a zip whose directory alone would fill the memory; `zipfile` reads it whole."""
    size = file.seek(0, io.SEEK_END)
    start = max(0, size - 65_536 - 22 - 76)
    file.seek(start)
    tail = file.read()
    at = tail.rfind(END)
    if at < 0 or len(tail) < at + 22:
        raise BankError(f"{path}: is not a whole zip file (its end is missing). Copy it again.")
    directory = struct.unpack("<I", tail[at + 12 : at + 16])[0]
    if at >= 20 and tail[at - 20 : at - 16] == LOCATOR_64:
        file.seek(struct.unpack("<Q", tail[at - 12 : at - 4])[0] if at >= 20 else 0)
        record = file.read(56)
        directory = struct.unpack("<Q", record[40:48])[0] if record[:4] == END_64 and len(record) == 56 else size
    if directory > min(size, MAX_DIRECTORY_BYTES):
        raise BankError(
            f"{path}: refused, its directory of members says {directory:,} bytes of {size:,}; "
            f"at most {MAX_DIRECTORY_BYTES:,} are read."
        )
    file.seek(0)
