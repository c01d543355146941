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

from reference import OWN

BLOCKS = 24
# Where each type keeps its f16 fields (byte offsets in the block).
F16_AT = {
    T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0], T.Q2_K: [80, 82], T.Q3_K: [108],
    T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208], T.IQ4_NL: [0], T.IQ4_XS: [0],
    T.TQ1_0: [52], T.TQ2_0: [64], T.NVFP4: [], T.IQ1_S: [0], T.IQ1_M: [],
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


def scale(i, j, rng):
    """The bits of f16 number j of block i."""
    if i < 2 * len(SCALES):
        return SCALES[(i // 2 + j * (3 + i % 2)) % len(SCALES)]
    return int(np.float16(rng.normal() * 0.02).view(np.uint16))


def quantized(ty, size, f16_at, rng):
    raw = rng.integers(0, 256, (BLOCKS, size), dtype=np.uint8)
    raw[1], raw[2] = 0x00, 0xFF  # smallest and largest of every field
    for i in range(BLOCKS):
        for j, at in enumerate(f16_at):
            raw[i, at : at + 2] = np.frombuffer(struct.pack("<H", scale(i, j, rng)), np.uint8)
        if ty == T.IQ1_M:
            # An f16 in the top four bits of four words, its lowest bits first.
            top = [scale(i, 0, rng) >> shift & 15 for shift in (0, 4, 8, 12)]
            raw[i, 49::2] = raw[i, 49::2] & 15 | np.array(top, np.uint8) << 4
    if ty == T.MXFP4:
        # Exponents: subnormal scales, 1, the largest of which no weight overflows.
        raw[:, 0] = [0, 1, 2, 3, 127, 252, *rng.integers(0, 253, BLOCKS - 6)]
    if ty == T.NVFP4:
        # Scales: zeros, the smallest and largest, what is not a number with and without the bit above.
        raw[3:7, :4] = [[0x00, 0x80, 0x01, 0x81], [0x07, 0x08, 0x38, 0xB8], [0x7E, 0xFE, 0x7F, 0xFF], [0x7D, 0x40, 0xC0, 0x3C]]
    return raw


def plain(ty, size, rng):
    raw = rng.integers(0, 256, (BLOCKS, 64 * size), dtype=np.uint8)
    words = raw.view("<u4" if size == 4 else "<u2")
    exponent = {T.F32: 0x7F800000, T.F16: 0x7C00, T.BF16: 0x7F80}[ty]
    # No infinities and NaNs: their bits are not comparable everywhere.
    words[(words & exponent) == exponent] = 1
    if ty == T.F16:
        words[0, : len(SCALES)] = SCALES
    return raw


def main():
    directory = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent)
    for ty, size in PLAIN.items():
        raw = plain(ty, size, np.random.default_rng(int(ty) + 1))
        bf16 = ty == T.BF16
        values = (raw.view("<u2").astype(np.uint32) << 16).view(np.float32) if bf16 else dequantize(raw, ty)
        write(directory, ty.name, raw, values, 64)
    for ty, f16_at in F16_AT.items():
        block, size = GGML_QUANT_SIZES[ty]
        raw = quantized(ty, size, f16_at, np.random.default_rng(int(ty) + 1))
        with np.errstate(over="ignore"):
            write(directory, ty.name, raw, dequantize(raw, ty), block)
    # What the package does not read, by the plain decoders of reference.py.
    for name, own in OWN.items():
        raw = quantized(None, own.size, [0], np.random.default_rng(own.number + 1))
        write(directory, name, raw, np.array([own.dequantize(block) for block in raw]), own.block)


def write(directory, name, raw, values, block):
    values = np.ascontiguousarray(values, "<f4").reshape(BLOCKS, block)
    assert np.isfinite(values).all(), name
    with open(directory / f"{name}.bin", "wb") as f:
        f.write(struct.pack("<3I", BLOCKS, raw.shape[1], block) + raw.tobytes())
        f.write(b"".join(struct.pack("<Q", fnv1a(v.tobytes())) for v in values))
        f.write(np.ascontiguousarray(values[:, :16]).tobytes())


if __name__ == "__main__":
    main()
