#!/usr/bin/env python3
"""Weights to quantize, and the errors that the reference quantizer makes on them.

Writes weights.bin (rows of 2048 f16 values; see ROWS) and reference.txt (case, type, relative RMS error of
ggml's own quantizer). Cases are rows times a power of two, so that the f32 weights are exact on both sides.
The reference is `ggml_quantize_chunk` of the libggml that comes with llama-cpp-python; for MXFP4 it is gguf's `quantize`,
which chooses as ggml does.

Usage: reference.py [DIRECTORY]     (pip install numpy gguf llama-cpp-python)
"""
import ctypes
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as T
from gguf.quants import dequantize, quantize

N = 2048
TYPES = [T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q8_0, T.Q4_K, T.Q5_K, T.Q6_K, T.MXFP4]
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


def main():
    directory = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent)
    lib = Path(find_spec("llama_cpp").origin).parent / "lib"
    ctypes.CDLL(str(lib / "libggml-base.so"), mode=ctypes.RTLD_GLOBAL)
    ggml = ctypes.CDLL(str(lib / "libggml-base.so"))
    ggml.ggml_quantize_chunk.restype = ctypes.c_size_t
    ggml.ggml_quantize_chunk.argtypes = [
        ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p,
    ]  # fmt: skip

    base = np.array(rows()).astype("<f2")
    base.tofile(directory / "weights.bin")
    lines = []
    for name, row, exponent in CASES:
        x = np.ascontiguousarray(base[row].astype(np.float32) * np.float32(2.0**exponent))
        for ty in TYPES:
            block, size = GGML_QUANT_SIZES[ty]
            out = np.zeros(N // block * size, np.uint8)
            if ty == T.MXFP4:
                out = quantize(x, ty)
            else:
                ggml.ggml_quantize_init(int(ty))
                ggml.ggml_quantize_chunk(int(ty), x.ctypes.data, out.ctypes.data, 0, 1, N, None)
            error = dequantize(out, ty).astype(np.float64) - x
            norm = np.sqrt((x.astype(np.float64) ** 2).sum())
            relative = np.sqrt((error**2).sum()) / norm if norm else np.sqrt((error**2).sum())
            lines.append(f"{name} {row} {exponent} {ty.name} {relative:.6e}\n")
    (directory / "reference.txt").write_text("".join(lines))


if __name__ == "__main__":
    main()
