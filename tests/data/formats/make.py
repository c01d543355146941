#!/usr/bin/env python3
"""Golden vectors for the dequantizers, made with the public `gguf` package (pip install gguf numpy).

For every format: 24 blocks, of which the first ones are edge cases and the rest random bytes with sane
scales. One file NAME.bin per format holds

    u32 blocks, u32 bytes per block, u32 weights per block     (little endian)
    the blocks
    u64 FNV-1a hash of the f32 bits of each block              (as little-endian bytes)
    the first 16 f32 of each block                             (so that a failure shows numbers)

Usage: make.py [DIRECTORY]
"""
import struct
import sys
from pathlib import Path

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as T
from gguf.quants import dequantize

BLOCKS = 24
# Where each type keeps its f16 fields (byte offsets in the block).
F16_AT = {
    T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0], T.Q2_K: [80, 82], T.Q3_K: [108],
    T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208], T.IQ4_NL: [0], T.IQ4_XS: [0],
    T.MXFP4: [], T.IQ2_XXS: [0], T.IQ2_XS: [0], T.IQ2_S: [0], T.IQ3_XXS: [0], T.IQ3_S: [0],
}
PLAIN = {T.F32: 4, T.F16: 2, T.BF16: 2}
# f16 bits: 0, -0, smallest and largest subnormal, smallest normal, -1, 1, a third, largest, -largest.
SCALES = [0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0xBC00, 0x3C00, 0x3555, 0x7BFF, 0xFBFF]


def fnv1a(data: bytes) -> int:
    h = 0xCBF29CE484222325
    for b in data:
        h = (h ^ b) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return h


def quantized(ty, rng):
    block, size = GGML_QUANT_SIZES[ty]
    raw = rng.integers(0, 256, (BLOCKS, size), dtype=np.uint8)
    raw[1], raw[2] = 0x00, 0xFF  # smallest and largest of every field
    for i in range(BLOCKS):
        for j, at in enumerate(F16_AT[ty]):
            if i < 2 * len(SCALES):
                bits = SCALES[(i // 2 + j * (3 + i % 2)) % len(SCALES)]
            else:
                bits = np.float16(rng.normal() * 0.02).view(np.uint16)
            raw[i, at : at + 2] = np.frombuffer(struct.pack("<H", bits), np.uint8)
    if ty == T.MXFP4:
        # Exponents: subnormal scales, 1, the largest of which no weight overflows.
        raw[:, 0] = [0, 1, 2, 3, 127, 252, *rng.integers(0, 253, BLOCKS - 6)]
    return raw, size, block


def plain(ty, rng):
    size = PLAIN[ty]
    raw = rng.integers(0, 256, (BLOCKS, 64 * size), dtype=np.uint8)
    words = raw.view("<u4" if size == 4 else "<u2")
    exponent = {T.F32: 0x7F800000, T.F16: 0x7C00, T.BF16: 0x7F80}[ty]
    # No infinities and NaNs: their bits are not comparable everywhere.
    words[(words & exponent) == exponent] = 1
    if ty == T.F16:
        words[0, : len(SCALES)] = SCALES
    return raw, 64 * size, 64


def main():
    directory = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent)
    for ty in [*PLAIN, *F16_AT]:
        rng = np.random.default_rng(int(ty) + 1)
        raw, size, block = (plain if ty in PLAIN else quantized)(ty, rng)
        if ty == T.BF16:
            values = (raw.view("<u2").astype(np.uint32) << 16).view(np.float32)
        else:
            with np.errstate(over="ignore"):
                values = dequantize(raw, ty)
        values = np.ascontiguousarray(values, "<f4").reshape(BLOCKS, block)
        assert np.isfinite(values).all(), ty
        with open(directory / f"{ty.name}.bin", "wb") as f:
            f.write(struct.pack("<3I", BLOCKS, size, block) + raw.tobytes())
            f.write(b"".join(struct.pack("<Q", fnv1a(v.tobytes())) for v in values))
            f.write(np.ascontiguousarray(values[:, :16]).tobytes())


if __name__ == "__main__":
    main()
