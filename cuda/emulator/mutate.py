#!/usr/bin/env python3
"""A test of the tests: breaks the kernels in one place at a time and sees whether the tests of operations notice.

    cuda/emulator/mutate.py [FILE ...] [--list] [--kinds KIND,KIND] [--again] [--report]

FILE is a file of cuda/kernels (`gemm.cuh`, `formats/q4_k.cuh`); all of them by default. Barriers, waits, warp_sync and
commits are dropped; bounds are moved by one, or removed; clamps are removed; indices are moved. A mutant is caught when a
test fails, crashes or hangs; what does not compile is not a mutant.

All mutants are compiled once, each behind a switch that is read when the library is loaded; those that do not compile so
(in constant expressions) are compiled one by one. First every test runs by itself and notes which mutants it reaches; then
each mutant meets those tests, the quickest and most successful first. Results are kept in target/mutants/results.json, by
the text of the line: a stopped run goes on where it was, `--again` forgets them, `--report` only prints them.

Before: `cargo test --test ops --no-run`. Nothing of the checkout changes. Python's standard library only.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EMULATOR = ROOT / "cuda/emulator"
KERNELS = ROOT / "cuda/kernels"
WORK = ROOT / "target/mutants"
# The words of the hardware have tests of their own; probe.cu only runs on a real GPU.
NOT_MUTATED = {"ptx.cuh", "probe.cu"}
# As in build.rs.
FLAGS = ["-std=c++17", "-fPIC", "-fvisibility=hidden", "-fno-gnu-unique", "-fno-strict-aliasing", "-ffp-contract=off", "-w",
         "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics", "-fstack-clash-protection", "-g1", "-O1",
         "-fsanitize=thread", "-fsanitize=bounds-strict,alignment,shift-exponent",
         "--param=tsan-instrument-func-entry-exit=0"]
ARCHITECTURES = ("75", "80")

# MUTANT(n) is whether n is the one; that it was asked is noted. In assembly, as the sanitizer would check a variable. A
# comparison stays where it is in the order of operators: a < LESS(n) > b.
HEADER = """#pragma once
#define MUTANT(n) (mutants::chosen<n>())
#define LESS(n) < mutants::Less<n>{} >
#define LESS_EQUAL(n) < mutants::LessEqual<n>{} >
#define GREATER(n) < mutants::Greater<n>{} >
#define GREATER_EQUAL(n) < mutants::GreaterEqual<n>{} >
namespace mutants {
template <int N> inline int chosen() {
    int is;
    asm volatile("movb $1, mutants_reached+%c1(%%rip)\\n\\txorl %0, %0\\n\\tcmpl %1, mutants_chosen(%%rip)\\n\\tsete %b0" : "=&q"(is) : "i"(N) : "cc");
    return is;
}
#define MUTANTS_COMPARE(Name, as_it_is, mutated) \\
    template <int N> struct Name {}; \\
    template <int N, class A> struct Name##Left { A a; }; \\
    template <int N, class A> inline Name##Left<N, A> operator<(A a, Name<N>) { return {a}; } \\
    template <int N, class A, class B> inline bool operator>(Name##Left<N, A> left, B b) { \\
        return MUTANT(N) ? left.a mutated b : left.a as_it_is b; \\
    }
MUTANTS_COMPARE(Less, <, <=)
MUTANTS_COMPARE(LessEqual, <=, <)
MUTANTS_COMPARE(Greater, >, >=)
MUTANTS_COMPARE(GreaterEqual, >=, >)
} // namespace mutants
"""
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
COMPARISONS = {"<": "LESS", "<=": "LESS_EQUAL", ">": "GREATER", ">=": "GREATER_EQUAL"}
OPPOSITE = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}


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
    for m in re.finditer(r"(?<![\w.])" + name + r"\s*(?:<[\w: ]+>)?\s*\(", code):
        end = closing(code, m.end() - 1)
        if end > 0 and not re.search(r"DEVICE [\w ]*$", code[:m.start()]):
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


def operand(code, start, step):
    """The other end of an operand of && that begins at `start` and goes to the left (-1) or to the right (1)."""
    opening, shut = ("([{", ")]}") if step > 0 else (")]}", "([{")
    depth, i = 0, start
    while 0 <= i < len(code):
        c, two = code[i], code[max(0, i - 1):i + 1] if step < 0 else code[i:i + 2]
        if depth == 0 and (c in shut or c in ",;?{}" or two in ("&&", "||") or re.fullmatch(r"[^=<>!]=", two) and code[i + 1:i + 2] != "="
                           or c == ":" and "::" not in code[i - 1:i + 2]):
            break
        depth += (c in opening) - (c in shut)
        i += step
    return i if step > 0 else i + 1


class Mutation:
    """Text to insert before `start` and behind `end`, with `#` for the mutant's number, or to put in place of what is there."""

    def __init__(self, kind, start, end, before, behind=None):
        self.kind, self.start, self.end, self.before, self.behind = kind, start, end, before, behind

    def edits(self, number):
        before = self.before.replace("#", str(number))
        if self.behind is None:
            return [(self.start, self.end, before)]
        return [(self.start, self.start, before), (self.end, self.end, self.behind.replace("#", str(number)))]


def mutations(code):
    """Every change of one line."""
    if code.lstrip().startswith(("#", "extern")) or "static_assert" in code:
        return
    # Declarations of arrays: larger ones do no harm.
    if re.match(r"\s*(?:const )?(?:unsigned|float\w?|int\w?|double|short|signed char|DEVICE \w+)\s+\*?\w+\[[^=]*\]\s*(?:=\s*\{|[;,])", code):
        return
    for kind, name in [("barrier", "block_sync"), ("warp_sync", "warp_sync"), ("wait", "cp_async_wait"),
                       ("commit", "cp_async_commit")]:
        for start, end, _ in calls(code, name):
            yield Mutation(kind, start, end, "(MUTANT(#) ? (void)0 : ", ")")
            if name == "cp_async_wait" and "<0>" in code[start:end]:
                yield Mutation(kind, start, end, "(MUTANT(#) ? cp_async_wait<1>() : ", ")")
    for start, end, _ in calls(code, "last_block"):
        yield Mutation("ticket", start, end, "(MUTANT(#) || ", ")")
    for start, end, _ in calls(code, "live"):
        yield Mutation("bound", start, end, "(MUTANT(#) || ", ")")
    for name in ("min", "max"):  # clamps of integers; those of values are fminf and fmaxf
        for start, end, inside in calls(code, name):
            for part in arguments(inside)[:2]:
                if not re.fullmatch(r"\s*[\w.]*\d[\w.]*\s*", part):
                    yield Mutation("clamp", start, end, f"(MUTANT(#) ? ({part.strip()}) : ", ")")
    for m in re.finditer(r"(?<= )(<=|>=|<|>)(?= )", code):
        yield Mutation("bound", m.start(), m.end(), f"{COMPARISONS[m.group()]}(#)")
    for m in re.finditer(r"\bif \(", code):
        end = closing(code, m.end() - 1)
        if end > 0 and "constexpr" not in code:
            yield Mutation("guard", m.end(), end, "MUTANT(#) || (", ")")
    operands = set()
    for m in re.finditer(r" && ", code):
        left, right = operand(code, m.start(), -1), operand(code, m.end(), 1)
        left += re.match(r"\s*(?:return\b|if\b|while\b)?\s*", code[left:m.start()]).end()
        for start, end in ((left, m.start()), (m.end(), right)):
            end = start + len(code[start:end].rstrip())
            # In a && b && c, b is met twice.
            if start < end and (start, end) not in operands:
                operands.add((start, end))
                yield Mutation("guard", start, end, "(MUTANT(#) || ", ")")
    for m in re.finditer(r"(?<=[\w\])])\[", code):
        end = closing(code, m.start())
        inside = code[m.start() + 1:end]
        declared = re.match(r"\s*(const |static |constexpr |unsigned |DEVICE )*(?!return)[\w:<>]+\s+\*?[\w\[\] +*/,:&]*$", code[:m.start()])
        if end < 0 or declared or re.search(r"\(&\w+\)(\[[^]]*\])*$", code[:m.start()]) or not inside or re.fullmatch(r"\s*\d+\s*", inside) or "SHARED(" in code:
            continue
        yield Mutation("index", m.start() + 1, end, "(", ") + MUTANT(#)")
        break
    for m in re.finditer(r"\bblockIdx\.[xyz]|\bwarp\(\)|\blane\(\)", code):
        # 5 = 4 + 1: another lane / 4 and another lane % 4.
        yield Mutation("index", m.start(), m.end(), "(", f" ^ (MUTANT(#) ? {5 if 'lane' in m.group() else 1} : 0))")
        break


def edited(line, edits):
    """A line with text inserted and replaced; of what begins at one place the longest comes first."""
    out, at = "", 0
    for start, end, text in edits:
        out, at = out + line[at:start] + text, end
    return out + line[at:]


def with_mutants(line, mutants):
    """A line with all of its mutants behind switches, and those that find no place beside the others."""
    placed, left_out = [], []
    for mutant in sorted(mutants, key=lambda m: (m.change.start, -m.change.end)):
        span = (mutant.change.start, mutant.change.end)
        crossing = [p for p in placed if p.change.start < span[0] < p.change.end < span[1]]
        (left_out if crossing else placed).append(mutant)
    # Each edit with what orders it among those at its place: ends before beginnings, inner ends first, outer beginnings first.
    edits = []
    for n, mutant in enumerate(placed):
        change = mutant.change.edits(mutant.id)
        edits.append(((change[0][0], 1, n), change[0]))
        if len(change) == 2:
            edits.append(((change[1][0], 0, -n), change[1]))
    return edited(line, [edit for _, edit in sorted(edits, key=lambda e: e[0])]), left_out


class Mutant:
    def __init__(self, file, number, line, change):
        self.file, self.number, self.line, self.change = file, number, line, change
        self.id, self.turn = None, 1

    @property
    def new(self):
        """As one would write it."""
        start, end, kind = self.change.start, self.change.end, self.change.kind
        old = self.line[start:end]
        if self.change.behind is None:
            text = OPPOSITE[old]
        elif kind == "guard":
            text = "true"
        elif kind == "index" and self.change.before == "(" and "^" in self.change.behind:
            text = f"({old} ^ {5 if 'lane' in old else 1})"
        elif kind == "index":
            text = f"({old}) + 1"
        else:
            text = re.sub(r"^\(MUTANT\(#\) (?:\? (.*) :|\|\|) $", lambda m: m.group(1) or "true", self.change.before)
        return (self.line[:start] + text + self.line[end:]).strip()

    @property
    def key(self):
        again = f" ({self.turn})" if self.turn > 1 else ""
        return f"{self.file} {self.change.kind}: `{self.line.strip()}` → `{self.new}`{again}"

    def __str__(self):
        return f"{self.file}:{self.number} {self.change.kind}: `{self.line.strip()}` → `{self.new}`"


def mutants_of(path):
    seen = collections.Counter()
    for number, line in enumerate(path.read_text().split("\n"), 1):
        for change in mutations(code_of(line)):
            mutant = Mutant(str(path.relative_to(KERNELS)), number, line, change)
            # A line that is there twice has its mutants twice.
            seen[mutant.key] += 1
            mutant.turn = seen[mutant.key]
            yield mutant


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
        binary = max((p for p in (ROOT / "target/debug/deps").glob("ops-*") if os.access(p, os.X_OK) and not p.suffix),
                     key=lambda p: p.stat().st_mtime, default=None)
        if binary is None:
            sys.exit("first: cargo test --test ops --no-run")
        # The folder of the emulator that this binary was built with.
        built = re.search(rb"qrun-emulator-[0-9a-f]+/out", binary.read_bytes()).group().decode()
        for library in (ROOT / "target/debug/build" / built).glob("*.so"):
            # The same file as the binary's own: loaded first, it is the one that is found, and looks for kernels beside itself.
            os.link(library, self.libraries / library.name)
        self.tests = shutil.copy2(binary, folder / "ops")

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
        text, errors = self.call(define, "-E", "-P", "-x", "c++", "-DLIST_KERNELS", "-include", "kernel/entry.h", str(source))
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
            # Without the flag that would bring the compiler's own runtime; the emulator is that.
            code, errors = self.call("-fno-sanitize=all", "-shared", f"-Wl,-soname,{library.name}", "-Wl,-z,defs", "-o", str(library), *objects,
                                     str(self.libraries / "libcuda.so"), "-lm")
            if code is None:
                sys.exit(errors)

    def run(self, arguments, limit, **variables):
        """Exit status of the test binary; None: it was stopped after so many seconds."""
        environment = {**os.environ, "LD_PRELOAD": str(self.libraries / "libcuda.so"), "RUST_BACKTRACE": "0", **variables}
        run = subprocess.Popen([str(self.tests), *arguments], cwd=ROOT, env=environment, stdout=subprocess.PIPE,
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
        status, out = library.run(["--list", "--format=terse"], 60)
        names = [line[: -len(": test")] for line in out.split("\n") if line.endswith(": test")]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(self.measure, names))

    def measure(self, name):
        folder = self.library.folder / "reached" / name.replace("::", "-")
        folder.mkdir(parents=True)
        begun = time.monotonic()
        status, out = self.library.run(["--exact", name], 600, QRUN_MUTANTS_REACHED=str(folder))
        if status != 0:
            sys.exit(f"{name} fails with the kernels as they are (exit status {status})")
        self.seconds[name] = time.monotonic() - begun
        noted = [path.read_bytes() for path in folder.iterdir()]
        self.reached[name] = {n for bytes in noted for n, byte in enumerate(bytes) if byte}

    def of(self, number):
        """The tests that reach a mutant, the most promising first; of one that has no switch: all."""
        names = [name for name, reached in self.reached.items() if number is None or number in reached]
        return sorted(names, key=lambda name: self.seconds[name] / (1 + self.caught[name]))


def judge(mutant, tests, library, number):
    """The test that catches it, or None; how many reach it."""
    names = tests.of(number)
    for name in names:
        status, _ = library.run(["--exact", name], 20 + 10 * tests.seconds[name], QRUN_MUTANT=str(mutant.id))
        if status != 0:
            tests.caught[name] += 1
            return name if status is not None else f"{name}, which hangs", len(names)
    return None, len(names)


def report(results):
    """Markdown: how many of each file were caught, and what survives."""
    mutants = {key: r for key, r in results.items() if r["by"] != "the compiler"}
    caught = sum(r["by"] is not None for r in mutants.values())
    lines = [f"{caught} of {len(mutants)} caught ({100 * caught / max(1, len(mutants)):.1f} %).", "", "| file | caught | of |", "|---|---|---|"]
    by_file = collections.defaultdict(list)
    for key, r in mutants.items():
        by_file[key.split()[0]].append(r["by"] is not None)
    lines += [f"| {file} | {sum(all)} | {len(all)} |" for file, all in sorted(by_file.items())]
    lines += ["", "Survivors:", ""] + [f"* {key}{'' if r['reached'] else ' (no test reaches it)'}" for key, r in sorted(mutants.items()) if r["by"] is None]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description="breaks the kernels and sees whether the tests of operations notice")
    parser.add_argument("file", nargs="*")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--kinds")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--report", action="store_true")
    args = parser.parse_args()

    files = sorted(p for p in KERNELS.rglob("*.cu*") if p.name not in NOT_MUTATED)
    mutants = [m for path in files for m in mutants_of(path)]
    for number, mutant in enumerate(mutants):
        mutant.id = number
    asked = [m for m in mutants if (not args.file or m.file in args.file) and (not args.kinds or m.change.kind in args.kinds.split(","))]
    if args.list:
        print(*asked, f"{len(asked)} mutants", sep="\n")
        return
    WORK.mkdir(parents=True, exist_ok=True)
    kept = WORK / "results.json"
    results = json.loads(kept.read_text()) if kept.exists() and not args.again else {}
    results = {key: r for key, r in results.items() if key in {m.key for m in mutants}}
    if args.report:
        print(report(results))
        return
    begun = time.monotonic()
    library, alone = build(mutants)
    print(f"{len(mutants) - len(alone)} mutants behind switches, {len(alone)} by themselves ({time.monotonic() - begun:.0f} s)", flush=True)
    tests = Tests(library)
    print(f"{len(tests.seconds)} tests pass, {sum(tests.seconds.values()):.0f} s together ({time.monotonic() - begun:.0f} s)", flush=True)
    lock, done = threading.Lock(), 0
    todo = [m for m in asked if m.key not in results]

    def note(mutant, by, reached):
        nonlocal done
        with lock:
            done += 1
            results[mutant.key] = {"by": by, "reached": reached}
            kept.with_suffix(".new").write_text(json.dumps(results, indent=0, ensure_ascii=False))
            kept.with_suffix(".new").rename(kept)
            print(f"{done}/{len(todo)} {'caught by ' + by if by else 'SURVIVES'}: {mutant}", flush=True)

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for _ in pool.map(lambda m: note(m, *judge(m, tests, library, m.id)), [m for m in todo if m not in alone]):
            pass
    for mutant in (m for m in todo if m in alone):
        one = Library(WORK / "one", [mutant], len(mutants))
        stems = [p.stem for p in KERNELS.glob("*.cu") if mutant.file in includes(p.name)]
        # In constant expressions the switch is a constant.
        (one.sources / "mutants.h").write_text(re.sub(r"(?s)template <int N> inline int chosen.*?\n}", "template <int N> constexpr int chosen() { return 1; }",
                                                      HEADER).replace("inline", "constexpr"))
        one.write()
        if one.compile_all(stems):
            note(mutant, "the compiler", 0)
            continue
        for made in library.objects.glob("*.o"):
            if not (one.objects / made.name).exists():
                os.link(made, one.objects / made.name)
        one.link()
        note(mutant, *judge(mutant, tests, one, None))
    print(report(results))


if __name__ == "__main__":
    main()
