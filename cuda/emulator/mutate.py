#!/usr/bin/env python3
"""A test of the tests: breaks the kernels in one place at a time and sees whether the op tests notice.

    cuda/emulator/mutate.py [FAMILY ...] [--list] [--only KIND] [--record FILE]

FAMILY is a kernel file without its suffix (`gemm`, `attention`; all by default). Every barrier, wait, warp_sync and commit
is dropped; every bound is moved by one or removed; every clamp is removed; every index is moved by one. A mutant is caught
when the kernels no longer compile or an op test of a touched family fails. Python's standard library only; run by hand, from a
clean checkout; mutants.md has the last result.
"""
import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KERNELS = ROOT / "cuda/kernels"
# The words of the hardware have tests of their own; probe.cu only runs on a real GPU.
NOT_MUTATED = {"ptx.cuh", "probe.cu"}


def code_of(line):
    """The line without its comment."""
    return line.split("//")[0]


def closing(text, start):
    """Index of the bracket that closes the one at `start`, or -1."""
    pairs = {"(": ")", "[": "]"}
    depth, opening = 0, text[start]
    for i in range(start, len(text)):
        depth += (text[i] == opening) - (text[i] == pairs[opening])
        if depth == 0:
            return i
    return -1


def calls(code, name):
    """Start and end of every `name(...)` in a line, with what stands in the brackets."""
    for m in re.finditer(r"\b" + name + r"\s*(?:<\w+>)?\s*\(", code):
        end = closing(code, m.end() - 1)
        if end > 0:
            yield m.start(), end + 1, code[m.end():end]


def arguments(inside):
    """Splits at the commas that are not in brackets."""
    parts, depth, part = [], 0, ""
    for c in inside:
        depth += (c in "([{") - (c in ")]}")
        if c == "," and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += c
    return parts + [part]


def mutations(code):
    """(kind, mutated code) for every change of one line."""
    def replaced(start, end, text):
        return code[:start] + text + code[end:]

    if code.lstrip().startswith("#") or "static_assert" in code or re.match(r"\s*DEVICE .*\{\s*$", code):
        return
    for kind, name in [("barrier", "block_sync"), ("warp_sync", "warp_sync"), ("wait", "cp_async_wait"),
                       ("commit", "cp_async_commit"), ("depend", "depend_wait")]:
        for start, end, _ in calls(code, name):
            if kind != "depend":  # the emulator runs one kernel after the other
                yield kind, replaced(start, end, "(void)0")
            if name == "cp_async_wait" and "<0>" in code:
                yield kind, code.replace("<0>", "<1>")
    for start, end, inside in calls(code, "last_block"):
        yield "ticket", replaced(start, end, "1")
    for start, end, inside in calls(code, "live"):
        yield "bound", replaced(start, end, "1")
    for name in ("min", "max"):  # clamps of integers; those of values are fminf and fmaxf
        for start, end, inside in calls(code, name):
            for part in arguments(inside)[:2]:
                if not re.fullmatch(r"\s*[\w.]*\d[\w.]*\s*", part):
                    yield "clamp", replaced(start, end, f"({part.strip()})")
    bounded = [(m.start(), m.end()) for m in re.finditer(r"(?<![<>\-=!])(<=|>=|<|>)(?![<>=])", code)
               if code[m.start() - 1:m.start()] == " " and code[m.end():m.end() + 1] == " "]
    for start, end in bounded:
        yield "bound", replaced(start, end, {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}[code[start:end]])
    for m in re.finditer(r"\bif \(", code):
        end = closing(code, m.end() - 1)
        if end > 0 and "constexpr" not in code:
            yield "guard", replaced(m.end() - 1, end + 1, "(true)")
    for m in re.finditer(r" && ", code):
        left = re.search(r"[^=(&|?:,]*$", code[:m.start()])
        right = re.match(r"[^)&|?:;,]*(?:\([^)]*\))?[^)&|?:;,]*", code[m.end():])
        if left and left.group().strip():
            yield "guard", code[:left.start()] + " " + code[m.end():].lstrip()
        if right and right.group().strip():
            yield "guard", code[:m.start()] + code[m.end() + right.end():]
    for m in re.finditer(r"(?<=[\w\])])\[", code):
        end = closing(code, m.start())
        inside = code[m.start() + 1:end]
        declared = re.match(r"\s*(const |static |constexpr |unsigned |DEVICE )*[\w:<>]+\s+\*?[\w\[\] +*]*$", code[:m.start()])
        if end < 0 or declared or not inside or re.fullmatch(r"\s*\d+\s*", inside) or "SHARED(" in code:
            continue
        yield "index", replaced(m.start() + 1, end, f"{inside} + 1")
    for m in re.finditer(r"\bblockIdx\.[xyz]|\bwarp\(\)|\blane\(\)", code):
        yield "index", replaced(m.start(), m.end(), f"({m.group()} ^ 1)")


class Mutant:
    def __init__(self, file, number, kind, old, new):
        self.file, self.number, self.kind, self.old, self.new = file, number, kind, old, new

    def __str__(self):
        return f"{self.file}:{self.number} {self.kind}: `{self.old.strip()}` → `{self.new.strip()}`"

    def source(self):
        lines = (KERNELS / self.file).read_text().split("\n")
        lines[self.number - 1] = self.new
        return "\n".join(lines)


def mutants_of(path):
    seen = set()
    for number, line in enumerate(path.read_text().split("\n"), 1):
        for kind, new in mutations(code_of(line)):
            if new != code_of(line) and (number, new) not in seen:
                seen.add((number, new))
                yield Mutant(str(path.relative_to(KERNELS)), number, kind, line, new)


if __name__ == "__main__":
    all_ = [m for n in sys.argv[1:] for m in mutants_of(KERNELS / n)]
    for m in all_: print(m)
    print(len(all_))
