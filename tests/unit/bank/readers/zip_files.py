"""Zip files as Inspect writes them, and such as it never would."""

import struct
import zlib
from collections.abc import Mapping

import zstandard


def zip_bytes(members: Mapping[str, bytes], *, method: int = 93, sizes: Mapping[str, int] | None = None) -> bytes:
    """A zip file with Zstandard members, as Inspect writes it; `sizes` lies about how large a member is."""
    body, directory = b"", b""
    for name, data in members.items():
        packed = zstandard.ZstdCompressor().compress(data)
        size = (sizes or {}).get(name, len(data))
        raw = name.encode()
        common = struct.pack(
            "<HHHHHIIIHH", 63, 0x800, method, 0, 0x5A21, zlib.crc32(data), len(packed), size, len(raw), 0
        )
        directory += b"PK\x01\x02" + struct.pack("<H", 63) + common + struct.pack("<HHHII", 0, 0, 0, 0, len(body)) + raw
        body += b"PK\x03\x04" + common + raw + packed
    end = struct.pack("<HHHHIIH", 0, 0, len(members), len(members), len(directory), len(body), 0)
    return body + directory + b"PK\x05\x06" + end
