#!/usr/bin/env python3
"""Writes grids.rs from the grids of the public `gguf` package (pip install gguf numpy).

A grid entry is the magnitudes of eight weights (IQ1, where they are -1, 0 and 1, and IQ2) or four (IQ3). It is stored as the
indices of its magnitudes in the format's table, the first weight lowest, in 16 bits: two bits each of three magnitudes, or
four bits each of eight. IQ1_M has the grid of IQ1_S.
"""
from importlib.metadata import version
from pathlib import Path

import numpy as np
from gguf import quants

FORMATS = ["IQ1_S", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S"]
PER_LINE = 14


def entries(name):
    """The grid of a format as 16-bit numbers."""
    format = getattr(quants, name)
    format.init_grid()
    grid = format.grid.reshape(format.grid_shape)
    bits = 16 // grid.shape[1]
    index = np.searchsorted(format.grid_map, grid).astype(np.uint32)
    assert (np.array(format.grid_map)[index] == grid).all() and len(format.grid_map) < 1 << bits
    return (index << (bits * np.arange(grid.shape[1], dtype=np.uint32))).sum(axis=1)


def lines(numbers):
    words = [f"{n:#06x}," for n in numbers]
    return "".join("    " + " ".join(words[i : i + PER_LINE]) + "\n" for i in range(0, len(words), PER_LINE))


def main():
    made = f"Made by formats/grids.py from the grids of gguf {version('gguf')} (MIT): the magnitudes of eight weights, two bits each"
    out = f"//! {made}\n//! (IQ1 and IQ2), or of four, four bits each (IQ3), as indices of the format's table.\n"
    for name in FORMATS:
        grid = entries(name)
        shape = "four" if name.startswith("IQ3") else "eight"
        out += f"\n/// Magnitudes of {shape} weights of {name}.\n"
        out += f"pub(crate) static {name}: [u16; {len(grid)}] = [\n{lines(grid)}];\n"
    (Path(__file__).parent / "grids.rs").write_text(out)


if __name__ == "__main__":
    main()
