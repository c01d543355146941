"""Mutants of the kernels: what is changed in a line, and how all of them stand in the sources at once, behind switches."""
import collections
import re
from pathlib import Path

KERNELS = Path(__file__).resolve().parents[2] / "cuda/kernels"
# The words of the hardware have tests of their own; probe.cu only runs on a real GPU.
NOT_MUTATED = {"ptx.cuh", "probe.cu"}

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
    asm volatile("movb $1, mutants_reached+%c1(%%rip)\\n\\txorl %0, %0\\n\\tcmpl %1, mutants_chosen(%%rip)\\n\\tsete %b0"
                 : "=&q"(is) : "i"(N) : "cc");
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
COMPARISONS = {"<": "LESS", "<=": "LESS_EQUAL", ">": "GREATER", ">=": "GREATER_EQUAL"}
DECLARES_ARRAY = re.compile(r"\s*(?:const )?(?:unsigned|float\w?|int\w?|double|short|signed char|Quad|DEVICE \w+)\s+"
                            r"\*?\w+\[[^=]*\]\s*(?:=\s*\{|[;,])")
# What no result can tell: registers that the compiler is given, and what L2 is asked for ahead.
NO_RESULT = re.compile(r"\b(?:RESIDENT|WIDE_BLOCKS) =|p\.ahead\)")
# What another architecture does as well.
ARCHITECTURE = re.compile(r"!?HAS_\w+")
# What is before the bracket of an array's size.
DECLARED = re.compile(r"\s*(const |static |constexpr |unsigned |DEVICE )*(?!return)[\w:<>]+\s+\*?[\w\[\] +*/,:&]*$")
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
        assigns = re.fullmatch(r"[^=<>!]=", two) and code[i + 1:i + 2] != "="
        colon = c == ":" and "::" not in code[i - 1:i + 2]
        if depth == 0 and (c in shut or c in ",;?{}" or two in ("&&", "||") or assigns or colon):
            break
        depth += (c in opening) - (c in shut)
        i += step
    return i if step > 0 else i + 1


class Mutation:
    """Text to insert before `start` and behind `end`, or to put in place of what is there; `#` is the mutant's number."""

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
    if DECLARES_ARRAY.match(code) or NO_RESULT.search(code):
        return
    for kind, name in [("barrier", "block_sync"), ("warp_sync", "warp_sync"), ("wait", "cp_async_wait"),
                       ("commit", "cp_async_commit"), ("depend", "depend_wait")]:
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
        if end > 0 and "constexpr" not in code and not ARCHITECTURE.fullmatch(code[m.end():end]):
            yield Mutation("guard", m.end(), end, "MUTANT(#) || (", ")")
    operands = set()
    for m in re.finditer(r" && ", code):
        left, right = operand(code, m.start(), -1), operand(code, m.end(), 1)
        left += re.match(r"\s*(?:return\b|if\b|while\b)?\s*", code[left:m.start()]).end()
        for start, end in ((left, m.start()), (m.end(), right)):
            end = start + len(code[start:end].rstrip())
            # In a && b && c, b is met twice.
            if start < end and (start, end) not in operands and not ARCHITECTURE.fullmatch(code[start:end]):
                operands.add((start, end))
                yield Mutation("guard", start, end, "(MUTANT(#) || ", ")")
    for m in re.finditer(r"(?<=[\w\])])\[", code):
        end = closing(code, m.start())
        inside = code[m.start() + 1:end]
        declared = DECLARED.match(code[:m.start()]) or re.search(r"\([&*]\w+\)(\[[^]]*\])*$", code[:m.start()])
        if end < 0 or declared or not inside or re.fullmatch(r"\s*\d+\s*", inside) or "SHARED(" in code:
            continue
        yield Mutation("index", m.start() + 1, end, "(", ") + MUTANT(#)")
        break
    # Not where it is compared: a guard without it is the sharper test of who does something.
    for m in re.finditer(r"\bblockIdx\.[xyz]|\b(?:warp|lane)\(\)(?! (?:== |% 4\) return|< \d+\)))", code):
        # Of lanes all bits, so that every part of a number is another one.
        yield Mutation("index", m.start(), m.end(), "(", f" ^ (MUTANT(#) ? {31 if 'lane' in m.group() else 1} : 0))")
        break


def edited(line, edits):
    """A line with text inserted and replaced: (start, end, text) in their order."""
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
    # Each edit with its order among those at its place: ends before beginnings, inner ends and outer beginnings first.
    edits = []
    for n, mutant in enumerate(placed):
        change = mutant.change.edits(mutant.id)
        edits.append(((change[0][0], 1, n), change[0]))
        if len(change) == 2:
            edits.append(((change[1][0], 0, -n), change[1]))
    return edited(line, [edit for _, edit in sorted(edits, key=lambda e: e[0])]), left_out


class Mutant:
    """One change of one line of one file."""

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
            text = f"({old} ^ {31 if 'lane' in old else 1})"
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


def mutants():
    """Those of all kernels, numbered."""
    files = sorted(path for path in KERNELS.rglob("*.cu*") if path.name not in NOT_MUTATED)
    found = [mutant for path in files for mutant in mutants_of(path)]
    for number, mutant in enumerate(found):
        mutant.id = number
    return found
