#!/usr/bin/env python3
"""A test of the tests: breaks the kernels in one place at a time and sees whether the tests of operations and of the
sampler notice.

    cuda/emulator/mutate.py [FILE ...] [--list] [--kinds KIND,KIND] [--again | --survivors] [--report]

FILE is a file of cuda/kernels (`gemm.cuh`, `formats/q4_k.cuh`); all of them by default. Barriers, waits, warp_sync and
commits are dropped; bounds are moved by one, or removed; clamps are removed; indices are moved. A mutant is caught when
a test fails, crashes or hangs; what does not compile is not a mutant. mutants.md has the last result.

All mutants are compiled once, each behind a switch that is read when the library is loaded; those that do not compile
so (in constant expressions) are compiled one by one. First every test runs by itself and notes which mutants it
reaches; then each mutant meets those tests, the quickest and most successful first. Results are kept in
target/mutants/results.json, by the text of the line: a stopped run goes on where it was, `--again` forgets them,
`--survivors` those of what no test caught, `--report` only prints them.

Before: `cargo test --workspace --no-run`. Nothing of the checkout changes. Python's standard library only.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import random
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

from mutants import HEADER, KERNELS, arguments, closing, mutants, with_mutants

ROOT = Path(__file__).resolve().parents[2]
EMULATOR = ROOT / "cuda/emulator"
WORK = ROOT / "target/mutants"
# As in build.rs.
FLAGS = ["-std=c++17", "-fPIC", "-fvisibility=hidden", "-fno-gnu-unique", "-fno-strict-aliasing", "-ffp-contract=off",
         "-w", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics", "-fstack-clash-protection", "-g1", "-O1",
         "-fsanitize=thread", "-fsanitize=bounds-strict,alignment,shift-exponent",
         "--param=tsan-instrument-func-entry-exit=0"]
ARCHITECTURES = ("75", "80")
# The test binaries, and what their tests' names begin with.
SUITES = {"ops": "", "tests": "device_sampling::"}

# What the switch is read from, and what was reached is written to.
SWITCH = """#include <cstdio>
#include <cstdlib>
extern "C" {
__attribute__((visibility("hidden"))) int mutants_chosen;
__attribute__((visibility("hidden"))) char mutants_reached[%d];
__attribute__((constructor)) static void choose() {
    const char* text = getenv("QRUN_MUTANT");
    mutants_chosen = text ? atoi(text) : -1;
}
__attribute__((destructor)) static void note() {
    const char* folder = getenv("QRUN_MUTANTS_REACHED");
    if (!folder) return;
    char path[4096];
    snprintf(path, sizeof path, "%%s/%s", folder);
    if (FILE* f = fopen(path, "wb")) {
        fwrite(mutants_reached, 1, sizeof mutants_reached, f);
        fclose(f);
    }
}
}
"""


def includes(name, seen=None):
    """The file and all that it includes, as names in the kernels' folder."""
    seen = set() if seen is None else seen
    if name not in seen and (KERNELS / name).exists():
        seen.add(name)
        for line in (KERNELS / name).read_text().split("\n"):
            if m := re.match(r'#include "(.*)"', line):
                includes(m.group(1), seen)
    return seen


def kernels(text):
    """Name and threads of each kernel of a preprocessed text."""
    for part in text.split("__global__")[1:]:
        rest, threads = re.sub(r"^\s*void\s*", "", part), 1024
        if rest.startswith("__launch_bounds__"):
            end = closing(rest, rest.index("("))
            threads, rest = arguments(rest[rest.index("(") + 1:end])[0], rest[end + 1:]
        yield rest.split("(")[0].strip(), threads


class Library:
    """The kernels with switched mutants, as libraries that the test binary loads in place of its own."""

    def __init__(self, folder, mutants, count):
        self.folder, self.mutants, self.count = folder, mutants, count
        self.sources, self.objects, self.libraries = folder / "kernels", folder / "objects", folder / "libraries"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(KERNELS, self.sources)
        self.objects.mkdir()
        self.libraries.mkdir()
        (self.sources / "mutants.h").write_text(HEADER)
        built = {self.copy(suite) for suite in SUITES}
        if len(built) != 1:
            sys.exit("the test binaries were built with different emulators; first: cargo test --workspace --no-run")
        # The same file as the binaries' own: loaded first, it is the one that is found, and looks beside itself.
        os.link(ROOT / "target/debug/build" / built.pop() / "libcuda.so", self.libraries / "libcuda.so")

    def copy(self, suite):
        """Copies a test binary; the folder of the emulator that it was built with."""
        found = (p for p in (ROOT / "target/debug/deps").glob(f"{suite}-*") if os.access(p, os.X_OK) and not p.suffix)
        binary = max(found, key=lambda p: p.stat().st_mtime, default=None)
        if binary is None:
            sys.exit("first: cargo test --workspace --no-run")
        shutil.copy2(binary, self.folder / suite)
        return re.search(rb"qrun-emulator-[0-9a-f]+/out", binary.read_bytes()).group().decode()

    def write(self, only=None):
        """Puts the mutants into the sources; returns those that found no place."""
        left_out = []
        for file in sorted({m.file for m in self.mutants}) if only is None else only:
            lines = (KERNELS / file).read_text().split("\n")
            by_line = collections.defaultdict(list)
            for mutant in self.mutants:
                if mutant.file == file:
                    by_line[mutant.number].append(mutant)
            for number, mutants in by_line.items():
                lines[number - 1], out = with_mutants(lines[number - 1], mutants)
                left_out += out
            (self.sources / file).write_text("\n".join(lines))
        return left_out

    def call(self, *arguments):
        done = subprocess.run(["g++", *FLAGS, f"-I{EMULATOR}/kernel", f"-I{self.sources}", *arguments], cwd=EMULATOR,
                              capture_output=True, text=True)
        return done.stdout if done.returncode == 0 else None, done.stderr

    def compile(self, stem, arch):
        """Errors, or nothing."""
        define, out = f"-D__CUDA_ARCH__={arch}0", str(self.objects / f"{stem}-{arch}.o")
        if stem == "table":
            return self.call(define, "-fno-sanitize=all", "-c", "-o", out, "kernel/table.cpp")[1]
        if stem == "switch":
            (self.objects / f"switch-{arch}.cpp").write_text(SWITCH % (self.count, arch))
            return self.call("-fno-sanitize=all", "-c", "-o", out, str(self.objects / f"switch-{arch}.cpp"))[1]
        source = self.sources / f"{stem}.cu"
        listing = ["-E", "-P", "-x", "c++", "-DLIST_KERNELS", "-include", "kernel/entry.h", str(source)]
        text, errors = self.call(define, *listing)
        if text is None:
            return errors
        entry = self.objects / f"{stem}-{arch}.cpp"
        entry.write_text(f'#include "mutants.h"\n#include "{source}"\n#include "entry.h"\n'
                         + "".join(f"KERNEL({name}, ({threads}))\n" for name, threads in kernels(text)))
        code, errors = self.call(define, "-fmax-errors=500", "-x", "c++", "-c", "-o", out, str(entry))
        return "" if code is not None else errors

    def compile_all(self, stems):
        """Errors of all units together."""
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            return "".join(pool.map(lambda unit: self.compile(*unit), [(s, a) for s in stems for a in ARCHITECTURES]))

    def link(self):
        for arch in ARCHITECTURES:
            library = self.libraries / f"kernels-checked-{arch}.so"
            library.unlink(missing_ok=True)
            objects = [str(o) for o in sorted(self.objects.glob(f"*-{arch}.o"))]
            flags = ["-shared", f"-Wl,-soname,{library.name}", "-Wl,-z,defs", "-o", str(library)]
            # Without the flag that would bring the compiler's own runtime; the emulator is that.
            code, errors = self.call("-fno-sanitize=all", *flags, *objects, str(self.libraries / "libcuda.so"), "-lm")
            if code is None:
                sys.exit(errors)
            # What is compiled for checks runs without them, too.
            fast = self.libraries / f"kernels-fast-{arch}.so"
            fast.unlink(missing_ok=True)
            os.link(library, fast)

    def run(self, test, limit, **variables):
        """Exit status of one test; None: it was stopped after `limit` seconds."""
        suite, name = test.split()
        return self.start(suite, ["--exact", name], limit, **variables)[0]

    def start(self, suite, arguments, limit, **variables):
        """Exit status and output of a test binary; None: it was stopped after `limit` seconds."""
        own = {"LD_PRELOAD": str(self.libraries / "libcuda.so"), "RUST_BACKTRACE": "0"}
        environment = {**os.environ, **own, **variables}
        run = subprocess.Popen([str(self.folder / suite), *arguments], cwd=ROOT, env=environment, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True, start_new_session=True)
        try:
            out = run.communicate(timeout=limit)[0]
            return run.returncode, out
        except subprocess.TimeoutExpired:
            os.killpg(run.pid, 9)
            run.communicate()
            return None, ""


def build(mutants):
    """The library of all mutants that compile behind switches, and the others."""
    library, alone = Library(WORK / "all", list(mutants), len(mutants)), []
    stems = [p.stem for p in sorted(KERNELS.glob("*.cu"), key=lambda p: -p.stat().st_size)]
    left_out = [m for m in mutants if re.search(r"\bconstexpr\b|^\s*template\b", m.line)]
    library.mutants = [m for m in mutants if m not in left_out]
    left_out += library.write()
    library.mutants = [m for m in library.mutants if m not in left_out]
    wanted = stems + ["table", "switch"]
    while True:
        alone += left_out
        errors = library.compile_all(wanted)
        if not errors:
            break
        # The lines whose mutants an error is about; where it names none, all that it names.
        at = re.escape(str(library.sources)) + r"/([\w./]+):(\d+):"
        found = set(re.findall(at + r"\d+: note: in expansion of macro ‘(?:MUTANT|LESS|GREATER)", errors))
        found = found or set(re.findall(at, errors))
        left_out = [m for m in library.mutants if (m.file, str(m.number)) in found]
        if not left_out:
            sys.exit(errors)
        library.mutants = [m for m in library.mutants if m not in left_out]
        changed = {m.file for m in left_out}
        library.write(changed)
        wanted = [s for s in stems if changed & includes(f"{s}.cu")]
    library.link()
    return library, alone


class Tests:
    """What each test reaches, how long it takes, and how often it caught something."""

    def __init__(self, library):
        self.library, self.reached, self.seconds, self.caught = library, {}, {}, collections.Counter()
        names = []
        for suite, beginning in SUITES.items():
            _, out = library.start(suite, ["--list", "--format=terse"], 60)
            listed = [line[: -len(": test")] for line in out.split("\n") if line.endswith(": test")]
            names += [f"{suite} {name}" for name in listed if name.startswith(beginning)]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(self.measure, names))

    def measure(self, name):
        folder = self.library.folder / "reached" / name.replace("::", "-").replace(" ", "-")
        folder.mkdir(parents=True)
        begun = time.monotonic()
        status = self.library.run(name, 600, QRUN_MUTANTS_REACHED=str(folder))
        if status != 0:
            sys.exit(f"{name} fails with the kernels as they are (exit status {status})")
        self.seconds[name] = time.monotonic() - begun
        noted = [path.read_bytes() for path in folder.iterdir()]
        self.reached[name] = {n for bytes in noted for n, byte in enumerate(bytes) if byte}

    def of(self, numbers):
        """The tests that reach one of these mutants, the most promising first."""
        names = [name for name, reached in self.reached.items() if reached & numbers]
        return sorted(names, key=lambda name: self.seconds[name] / (1 + self.caught[name]))


def judge(mutant, tests, library, numbers):
    """The test that catches a mutant, of those that reach one of `numbers`, or None; and how many do."""
    names = tests.of(numbers)
    for name in names:
        status = library.run(name, 20 + 10 * tests.seconds[name], QRUN_MUTANT=str(mutant.id))
        if status != 0:
            tests.caught[name] += 1
            return (name if status is not None else f"{name}, which hangs"), len(names)
    return None, len(names)


def judge_alone(mutant, tests, all_of_them, mutants):
    """As `judge`, of a mutant that is compiled by itself; it may be that it does not compile."""
    one = Library(WORK / "one", [mutant], len(mutants))
    # In constant expressions the switch is a constant.
    constant = "template <int N> constexpr int chosen() { return 1; }"
    header = re.sub(r"(?s)template <int N> inline int chosen.*?\n}", constant, HEADER).replace("inline", "constexpr")
    (one.sources / "mutants.h").write_text(header)
    one.write()
    if one.compile_all([path.stem for path in KERNELS.glob("*.cu") if mutant.file in includes(path.name)]):
        return "the compiler", 0
    for made in all_of_them.objects.glob("*.o"):
        if not (one.objects / made.name).exists():
            os.link(made, one.objects / made.name)
    one.link()
    return judge(mutant, tests, one, {m.id for m in mutants if m.file == mutant.file})


def report(results):
    """Markdown: how many of each file were caught, and what survives without an explanation in mutants.md."""
    of = {key: found for key, found in results.items() if found["by"] != "the compiler"}
    caught = sum(found["by"] is not None for found in of.values())
    share = 100 * caught / max(1, len(of))
    lines = [f"{caught} of {len(of)} caught ({share:.1f} %).", "", "| file | caught | of |", "|---|---|---|"]
    by_file = collections.defaultdict(list)
    for key, found in of.items():
        by_file[key.split()[0]].append(found["by"] is not None)
    lines += [f"| {file} | {sum(each)} | {len(each)} |" for file, each in sorted(by_file.items())]
    survivors = {f"* {key}": found["reached"] for key, found in of.items() if found["by"] is None}
    listed = (EMULATOR / "mutants.md").read_text().split("\n")
    explained = {line for line in listed if line.startswith("* ") and " → " in line}
    lines += ["", "Survivors that mutants.md does not explain:", ""]
    unexplained = sorted(survivors.keys() - explained)
    lines += [f"{line}{'' if survivors[line] else ' (no test reaches it)'}" for line in unexplained]
    lines += ["", "Explained there, and no survivors:", "", *sorted(explained - survivors.keys())]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description="breaks the kernels and sees whether their tests notice")
    parser.add_argument("file", nargs="*")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--kinds")
    again = parser.add_mutually_exclusive_group()
    again.add_argument("--again", action="store_true")
    again.add_argument("--survivors", action="store_true")
    parser.add_argument("--report", action="store_true")
    args = parser.parse_args()

    every = mutants()
    asked = [m for m in every if not args.file or m.file in args.file]
    if args.kinds:
        asked = [m for m in asked if m.change.kind in args.kinds.split(",")]
    if args.list:
        print(*asked, f"{len(asked)} mutants", sep="\n")
        return
    WORK.mkdir(parents=True, exist_ok=True)
    kept, keys = WORK / "results.json", {m.key for m in every}
    results = json.loads(kept.read_text()) if kept.exists() and not args.again else {}
    results = {key: found for key, found in results.items() if key in keys}
    if args.report:
        print(report(results))
        return
    begun, lock, done = time.monotonic(), threading.Lock(), 0

    def say(text):
        print(f"{text} ({time.monotonic() - begun:.0f} s)", flush=True)

    library, alone = build(every)
    say(f"{len(every) - len(alone)} mutants behind switches, {len(alone)} by themselves")
    tests = Tests(library)
    say(f"{len(tests.seconds)} tests pass, {sum(tests.seconds.values()):.0f} s together")
    if args.survivors:
        results = {key: found for key, found in results.items() if found["by"] or key not in {m.key for m in asked}}
    todo = [m for m in asked if m.key not in results]
    # What a stopped run has seen is a sample of all.
    random.Random(1).shuffle(todo)

    def note(mutant, by, reached):
        nonlocal done
        with lock:
            done += 1
            results[mutant.key] = {"by": by, "reached": reached}
            kept.with_suffix(".new").write_text(json.dumps(results, indent=0, ensure_ascii=False))
            kept.with_suffix(".new").rename(kept)
            say(f"{done}/{len(todo)} {'caught by ' + by if by else 'SURVIVES'}: {mutant}")

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        switched = [m for m in todo if m not in alone]
        list(pool.map(lambda m: note(m, *judge(m, tests, library, {m.id})), switched))
    for mutant in todo:
        if mutant in alone:
            note(mutant, *judge_alone(mutant, tests, library, every))
    print(report(results))


if __name__ == "__main__":
    main()
