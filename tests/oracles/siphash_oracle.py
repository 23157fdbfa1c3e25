"""SipHash-2-4 in plain Python, for messages of any length: the slow twin of engine.sticky_prf."""

from __future__ import annotations

import struct

MASK = (1 << 64) - 1


def rotated(x: int, bits: int) -> int:
    return ((x << bits) | (x >> (64 - bits))) & MASK


def sip_round(v0: int, v1: int, v2: int, v3: int) -> tuple[int, int, int, int]:
    v0 = (v0 + v1) & MASK
    v1 = rotated(v1, 13) ^ v0
    v0 = rotated(v0, 32)
    v2 = (v2 + v3) & MASK
    v3 = rotated(v3, 16) ^ v2
    v0 = (v0 + v3) & MASK
    v3 = rotated(v3, 21) ^ v0
    v2 = (v2 + v1) & MASK
    v1 = rotated(v1, 17) ^ v2
    v2 = rotated(v2, 32)
    return v0, v1, v2, v3


def siphash24(key: bytes, message: bytes, *, wide: bool = False) -> bytes:
    """8 bytes (16 if `wide`), as the authors' reference code writes them."""
    k0, k1 = struct.unpack("<QQ", key)
    v0, v1 = k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D
    v2, v3 = k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573
    if wide:
        v1 ^= 0xEE
    whole = len(message) // 8 * 8
    blocks = [message[i : i + 8] for i in range(0, whole, 8)]
    last = message[whole:] + bytes(7 - len(message) % 8) + bytes([len(message) & 0xFF])
    for block in [*blocks, last]:
        word = int.from_bytes(block, "little")
        v3 ^= word
        for _ in range(2):
            v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
        v0 ^= word
    v2 ^= 0xEE if wide else 0xFF
    for _ in range(4):
        v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
    out = struct.pack("<Q", v0 ^ v1 ^ v2 ^ v3)
    if not wide:
        return out
    v1 ^= 0xDD
    for _ in range(4):
        v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
    return out + struct.pack("<Q", v0 ^ v1 ^ v2 ^ v3)
