#!/usr/bin/env python3
"""Weights to quantize, and the errors that the reference quantizer makes on them.

Writes weights.bin (rows of 2048 f16 values; see ROWS) and reference.txt (case, type, relative RMS error of
ggml's own quantizer). Cases are rows times a power of two, so that the f32 weights are exact on both sides.
The reference is `ggml_quantize_chunk` of the libggml that comes with llama-cpp-python; for MXFP4, TQ1_0 and TQ2_0 it is
gguf's `quantize`, which chooses as ggml does; for Q1_0 and Q2_0, which gguf does not have, what is written out below.

Usage: reference.py [DIRECTORY [TYPE …]]     (pip install numpy gguf llama-cpp-python)

With types only their lines are made, and the others stay; those that are not ggml's need no llama-cpp-python.
"""
import ctypes
import sys
from collections import namedtuple
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as T
from gguf.quants import dequantize, quantize

N = 2048
GGML = [T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q8_0, T.Q4_K, T.Q5_K, T.Q6_K]
GGUF = [T.MXFP4, T.TQ1_0, T.TQ2_0]
# name, index of the row, exponent of the power of two it is multiplied with
CASES = [
    ("gaussian", 0, 0), ("weights", 0, -5), ("outliers", 1, 0), ("student", 2, 0), ("channels", 3, -3),
    ("uniform", 4, 0), ("laplace", 5, -4), ("positive", 6, -2), ("negative", 7, -2), ("offset", 8, 0),
    ("sparse", 9, 0), ("constant", 10, 0), ("zero", 11, 0), ("steps", 12, 0),
    ("tiny", 0, -18), ("large", 0, 12), ("tiny-outliers", 1, -20), ("large-outliers", 1, 8),
]


def rows():
    rng = np.random.default_rng(20260101)
    normal = lambda: rng.normal(size=N)
    outliers = normal() * np.where(rng.random(N) < 0.01, 50, 1)
    channels = normal() * np.repeat(np.exp(rng.normal(size=N // 32)), 32)
    steps = np.repeat(rng.integers(-3, 4, N // 16), 16)
    return [
        normal(), outliers, rng.standard_t(2, N), channels, rng.uniform(-1, 1, N), rng.laplace(size=N),
        abs(normal()), -abs(normal()), 8 + normal() / 4, normal() * (rng.random(N) < 0.05),
        np.full(N, -0.7), np.zeros(N), steps,
    ]  # fmt: skip


def scale(block):
    return block[:2].view("<f2")[0].astype(np.float32)


def q1_0_weights(block):
    """An f16, then a bit for each weight, the lowest first: the number or its negative."""
    bits = [block[2 + i // 8] >> (i % 8) & 1 for i in range(128)]
    return [scale(block) if bit else -scale(block) for bit in bits]


def q2_0_weights(block):
    """An f16, then two bits for each weight, the lowest first: -1, 0, 1 or 2 times the number."""
    codes = [int(block[2 + i // 4] >> (2 * (i % 4)) & 3) for i in range(64)]
    return [scale(block) * np.float32(code - 1) for code in codes]


def q1_0_block(x):
    """The mean of the magnitudes, and the signs."""
    bits = np.packbits((x >= 0).astype(np.uint8), bitorder="little")
    return np.concatenate([np.abs(x).mean(keepdims=True).astype("<f2").view(np.uint8), bits])


def q2_0_block(x):
    """The largest magnitude; weights are the nearest multiples of it."""
    d = np.abs(x).max(keepdims=True)
    codes = np.clip(np.floor(x / d + 0.5) + 1 if d > 0 else np.ones(64), 0, 3).astype(np.uint8).reshape(16, 4)
    return np.concatenate([d.astype("<f2").view(np.uint8), (codes << np.array([0, 2, 4, 6], np.uint8)).sum(1, np.uint8)])


Own = namedtuple("Own", ["number", "block", "size", "dequantize", "quantize"])
# Formats that the gguf package does not read.
OWN = {
    "Q1_0": Own(41, 128, 18, q1_0_weights, q1_0_block),
    "Q2_0": Own(42, 64, 18, q2_0_weights, q2_0_block),
}


def through_ggml(ty):
    lib = Path(find_spec("llama_cpp").origin).parent / "lib"
    ctypes.CDLL(str(lib / "libggml-base.so"), mode=ctypes.RTLD_GLOBAL)
    ggml = ctypes.CDLL(str(lib / "libggml-base.so"))
    ggml.ggml_quantize_chunk.restype = ctypes.c_size_t
    ggml.ggml_quantize_chunk.argtypes = [
        ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p,
    ]  # fmt: skip
    block, size = GGML_QUANT_SIZES[ty]

    def there_and_back(x):
        out = np.zeros(N // block * size, np.uint8)
        ggml.ggml_quantize_init(int(ty))
        ggml.ggml_quantize_chunk(int(ty), x.ctypes.data, out.ctypes.data, 0, 1, N, None)
        return dequantize(out, ty)

    return there_and_back


def through_own(own):
    return lambda x: np.concatenate([own.dequantize(own.quantize(block)) for block in x.reshape(-1, own.block)])


def main():
    directory = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent)
    types = {ty.name: lambda ty=ty: through_ggml(ty) for ty in GGML}
    types |= {ty.name: lambda ty=ty: lambda x: dequantize(quantize(x, ty), ty) for ty in GGUF}
    types |= {name: lambda own=own: through_own(own) for name, own in OWN.items()}
    wanted = {name: types[name]() for name in sys.argv[2:] or types}
    lines = {}
    if len(wanted) < len(types):
        for line in (directory / "reference.txt").read_text().splitlines(keepends=True):
            lines[line.split()[0], line.split()[3]] = line

    base = np.array(rows()).astype("<f2")
    base.tofile(directory / "weights.bin")
    for name, row, exponent in CASES:
        x = np.ascontiguousarray(base[row].astype(np.float32) * np.float32(2.0**exponent))
        for ty, there_and_back in wanted.items():
            error = there_and_back(x).astype(np.float64) - x
            norm = np.sqrt((x.astype(np.float64) ** 2).sum())
            relative = np.sqrt((error**2).sum()) / norm if norm else np.sqrt((error**2).sum())
            lines[name, ty] = f"{name} {row} {exponent} {ty} {relative:.6e}\n"
    (directory / "reference.txt").write_text("".join(lines[name, ty] for name, *_ in CASES for ty in types))


if __name__ == "__main__":
    main()
