#!/usr/bin/env python3
"""A test of the tests: breaks the kernels in one place at a time and sees whether the op tests notice.

    cuda/emulator/mutate.py [FAMILY ...] [--list] [--kinds KIND,KIND] [--sample N] [--record FILE]

FAMILY is a kernel file without its suffix (`gemm`, `attention`), with the headers of the same name; all by default. Barriers,
waits, warp_sync and commits are dropped; bounds are moved by one, or removed; clamps are removed; indices are moved. A mutant is
caught when an op test of a family that contains it fails or hangs; what does not compile is not a mutant. mutants.md has the last
result.

Before: `cargo test -p qrun-cuda --test ops --no-run`. Nothing of the checkout changes: mutants live in target/mutants, where
the kernels' libraries are linked beside a hard link of the emulated libcuda.so. Loaded first, it is the one that the test binary
finds (the same file), and it looks for kernels beside itself. Python's standard library only.
"""
import argparse
import collections
import concurrent.futures
import os
import random
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KERNELS = ROOT / "cuda/kernels"
WORK = ROOT / "target/mutants"
# The words of the hardware have tests of their own; probe.cu only runs on a real GPU.
NOT_MUTATED = {"ptx.cuh", "probe.cu"}
# Formats that stand for all in a mutant, as compiling fifteen of each kernel would be most of the time: one scale per block, a
# minimum, two scales, floats. The formats' own files are compiled and tested in full.
FORMATS = ["Q8_0", "Q4_K", "Q6_K", "F32", "BF16"]
FLAGS = ["-std=c++17", "-fPIC", "-fvisibility=hidden", "-fno-gnu-unique", "-fno-strict-aliasing", "-ffp-contract=off", "-w",
         "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics", "-fstack-clash-protection", "-g1", "-O1", "-fsanitize=thread",
         "-fsanitize=bounds-strict,alignment,shift-exponent", "--param=tsan-instrument-func-entry-exit=0"]  # as in build.rs
ARCHITECTURES = ("75", "80")
# A test that takes longer than this many seconds hangs.
PATIENCE = 240


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

    if code.lstrip().startswith(("#", "extern")) or "static_assert" in code:
        return
    # Declarations of arrays: larger ones do no harm.
    if re.match(r"\s*(?:const )?(?:unsigned|float\w?|int\w?|double|short|signed char|DEVICE \w+)\s+\*?\w+\[[^=]*\]\s*(?:=\s*\{|[;,])", code):
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
        left = re.search(r"(?:::|[^=(&|?:,;])*$", code[:m.start()])
        right = re.match(r"(?:\([^)]*\)|::|[^()&|?:;,])*(?:\([^)]*\))?", code[m.end():])
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
        break
    for m in re.finditer(r"\bblockIdx\.[xyz]|\bwarp\(\)|\blane\(\)", code):
        # 5 = 4 + 1: another lane / 4 and another lane % 4.
        yield "index", replaced(m.start(), m.end(), f"({m.group()} ^ {5 if 'lane' in m.group() else 1})")
        break


class Mutant:
    def __init__(self, file, number, kind, old, new):
        self.file, self.number, self.kind, self.old, self.new = file, number, kind, old, new

    def __str__(self):
        return f"{self.file}:{self.number} {self.kind}: `{self.old.strip()}` → `{self.new.strip()}`"


def mutants_of(path):
    seen = set()
    for number, line in enumerate(path.read_text().split("\n"), 1):
        for kind, new in mutations(code_of(line)):
            if new != code_of(line) and (number, new) not in seen:
                seen.add((number, new))
                yield Mutant(str(path.relative_to(KERNELS)), number, kind, line, new)


def includes(name, seen=None):
    """The file and all that it includes, as names in the kernels' folder."""
    seen = set() if seen is None else seen
    if name not in seen and (KERNELS / name).exists():
        seen.add(name)
        for line in (KERNELS / name).read_text().split("\n"):
            if m := re.match(r'#include "(.*)"', line):
                includes(m.group(1), seen)
    return seen


def reduced(text):
    """gemm.cu without the formats that FORMATS stand for."""
    rows = re.findall(r"X\((\d+, \w+, (\w+))\)", (KERNELS / "formats.cuh").read_text())
    kept = [row for row, name in rows if name in FORMATS]
    few = lambda macro: " ".join(f"{macro[1]}({row})" for row in kept)
    return re.sub(r"^FORMATS\((GEMM\w*)\)", few, text, flags=re.MULTILINE)


class Builder:
    """Compiles kernels and links them into libraries that the test binary loads."""

    def __init__(self, mutated):
        tests = [p for p in (ROOT / "target/debug/deps").glob("ops-*") if os.access(p, os.X_OK) and not p.suffix]
        if not tests:
            sys.exit("first: cargo test -p qrun-cuda --test ops --no-run")
        tests = max(tests, key=lambda p: p.stat().st_mtime)
        # The folder of the emulator that this binary was built with.
        built = re.search(rb"qrun-emulator-[0-9a-f]+/out", tests.read_bytes()).group().decode()
        self.sources, self.objects, self.libraries = WORK / "kernels", WORK / "objects", WORK / "libraries"
        for folder in (self.sources, self.objects, self.libraries):
            shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(KERNELS, self.sources)
        self.objects.mkdir()
        self.libraries.mkdir()
        os.link(ROOT / "target/debug/build" / built / "libcuda.so", self.libraries / "libcuda.so")
        self.tests = shutil.copy2(tests, WORK / "ops")
        # Families that no mutant touches are not there: their tests do not run.
        self.files = sorted(p.stem for p in KERNELS.glob("*.cu") if includes(p.name) & mutated)
        for stem in self.files:
            path = self.sources / f"{stem}.cu"
            path.write_text(reduced(path.read_text()))
        self.dirty = []
        self.pool = concurrent.futures.ThreadPoolExecutor(os.cpu_count())
        if errors := self.compile(self.files + ["table"]):
            sys.exit(errors)
        self.link()

    def call(self, *arguments):
        emulator = ROOT / "cuda/emulator"
        done = subprocess.run(["g++", *FLAGS, f"-I{emulator}/kernel", f"-I{self.sources}", *arguments], cwd=emulator,
                              capture_output=True, text=True)
        return done.stdout if done.returncode == 0 else None, done.stderr

    def one(self, stem, arch):
        define, out = f"-D__CUDA_ARCH__={arch}0", str(self.objects / f"{stem}-{arch}.o")
        if stem == "table":
            return self.call(define, "-fno-sanitize=all", "-c", "-o", out, "kernel/table.cpp")[1]
        source = self.sources / f"{stem}.cu"
        text, errors = self.call(define, "-E", "-P", "-x", "c++", "-DLIST_KERNELS", "-include", "kernel/entry.h", str(source))
        if text is None:
            return errors
        kernels = re.findall(r"__global__\s+void\s+(?:__launch_bounds__\s*\(([^,)]*)[^)]*\)\s*)?(\w+)\s*\(", text)
        entry = self.objects / f"{stem}-{arch}.cpp"
        entry.write_text(f'#include "{source}"\n#include "entry.h"\n'
                         + "".join(f"KERNEL({name}, ({threads or 1024}))\n" for threads, name in kernels))
        code, errors = self.call(define, "-x", "c++", "-c", "-o", out, str(entry))
        return "" if code is not None else errors

    def compile(self, stems):
        """Errors, or nothing."""
        jobs = [self.pool.submit(self.one, stem, arch) for stem in stems for arch in ARCHITECTURES]
        return "".join(j.result() for j in jobs)

    def link(self):
        for arch in ARCHITECTURES:
            library = self.libraries / f"kernels-checked-{arch}.so"
            library.unlink(missing_ok=True)
            objects = [str(self.objects / f"{stem}-{arch}.o") for stem in self.files + ["table"]]
            # Without the flag that would bring the compiler's own runtime; the emulator is that.
            code, errors = self.call("-fno-sanitize=all", "-shared", "-Wl,-z,defs", "-o", str(library), *objects, str(self.libraries / "libcuda.so"), "-lm")
            if code is None:
                sys.exit(errors)

    def test(self, families):
        """The first test that fails, or None."""
        environment = {**os.environ, "LD_PRELOAD": str(self.libraries / "libcuda.so"), "QRUN_FORMATS": ",".join(FORMATS),
                       "RUST_BACKTRACE": "0"}
        heard, started = WORK / "heard", time.monotonic()
        with heard.open("w") as out:
            run = subprocess.Popen([str(self.tests), *[f"{f}::" for f in families]], cwd=ROOT, env=environment,
                                   stdout=out, stderr=subprocess.DEVNULL)
        try:
            while True:
                done = run.poll() is not None
                if m := re.search(r"test (\S+) \.\.\. FAILED", heard.read_text()):
                    return m.group(1)
                if done:
                    return None if run.returncode == 0 else f"exit status {run.returncode}"
                if time.monotonic() - started > PATIENCE:
                    return "a test that hangs"
                time.sleep(0.05)
        finally:
            run.kill()
            run.wait()

    def caught_by(self, mutant, families):
        path = self.sources / mutant.file
        original = path.read_text()
        lines = original.split("\n")
        number = mutant.number - 1
        if lines[number] != mutant.old:  # a reduced kernel file
            number = lines.index(mutant.old)
        lines[number] = mutant.new
        stems = [s for s in self.files if mutant.file in includes(f"{s}.cu")]
        self.dirty = stems
        try:
            path.write_text("\n".join(lines))
            if self.compile(stems):
                return "the compiler"
            self.link()
            return self.test(families)
        finally:
            path.write_text(original)

    def clean(self):
        """Undoes the last mutant."""
        self.compile(self.dirty)
        self.link()


def families_of(file):
    """The kernel files that contain a file: the names of test modules too."""
    return [p.stem for p in KERNELS.glob("*.cu") if p.name not in NOT_MUTATED and file in includes(p.name)]


# Test modules whose name is not that of the kernel file.
MODULES = {"fragments": "mma", "quantize_act": "image"}


def main():
    parser = argparse.ArgumentParser(description="breaks the kernels and sees whether the op tests notice")
    parser.add_argument("family", nargs="*")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--kinds")
    parser.add_argument("--sample", type=int)
    parser.add_argument("--record", type=Path)
    args = parser.parse_args()

    files = sorted(p for p in KERNELS.iterdir() if p.suffix in (".cu", ".cuh") and p.name not in NOT_MUTATED)
    if args.family:
        files = [p for p in files if any(p.stem == f or p.stem.startswith(f + "_") for f in args.family)]
    mutants = [m for p in files for m in mutants_of(p)]
    if args.kinds:
        mutants = [m for m in mutants if m.kind in args.kinds.split(",")]
    if args.sample and args.sample < len(mutants):
        mutants = sorted(random.Random(1).sample(mutants, args.sample), key=lambda m: (m.file, m.number))
    if args.list:
        print(*mutants, f"{len(mutants)} mutants", sep="\n")
        return
    builder = Builder({m.file for m in mutants})

    def modules(file):
        return sorted({MODULES.get(f, f) for f in families_of(file)})

    if broken := builder.test(sorted({m for p in files for m in modules(p.name)})):
        sys.exit(f"{broken} fails with the kernels as they are")
    survivors, caught, compiled = [], collections.Counter(), 0
    for i, mutant in enumerate(mutants, 1):
        by = builder.caught_by(mutant, modules(mutant.file))
        print(f"{i}/{len(mutants)} {'caught by ' + by if by else 'SURVIVES'}: {mutant}", flush=True)
        if by != "the compiler":
            compiled += 1
            caught[mutant.file, bool(by)] += 1
            survivors += [] if by else [mutant]
        if set(builder.dirty) != set(s for s in builder.files if i < len(mutants) and mutants[i].file in includes(f"{s}.cu")):
            builder.clean()
    builder.clean()
    if broken := builder.test(modules(files[0].name)):
        sys.exit(f"{broken} fails with the kernels as they are: was the emulator built again in the meantime?")
    total = compiled - len(survivors)
    report = [f"{total} of {compiled} caught ({100 * total / max(1, compiled):.1f} %).", "", "| file | caught | of |",
              "|---|---|---|"]
    for file in sorted({f for f, _ in caught}):
        report.append(f"| {file} | {caught[file, True]} | {caught[file, True] + caught[file, False]} |")
    report += ["", "Survivors:", ""] + [f"* {m}" for m in survivors]
    print("\n".join(report))
    if args.record:
        args.record.write_text("\n".join(report) + "\n")


if __name__ == "__main__":
    main()
