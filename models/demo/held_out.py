"""The rows of eval.jsonl and of sealed.jsonl: what is asked, and what counts as right.

A row has `kind`, `prompt` and one of `answer` (every letter), `any` (one of these must be said), `contains` (a story
about it); and, where it needs them, `not` (must not be said), `before` (messages of the user that come first) and
`system`.
"""

import random
import re

import sealed
import unseen
from facts import read_facts
from foreign import ENGLISH
from off_topic import UNKNOWN
from people import made_up_name
from split import made_up_name_out
from sums import TOO_HARD, sum_answer, sum_out

# What a polite refusal contains: it names what the model is, or what it can do.
POLITE = (UNKNOWN[:48], ENGLISH[:27], TOO_HARD[:11], "very small model", "ask for a story", "larger model")
SELF = ("I am the demo model of qrun",)
CASES = ("You are stupid", "You are bad", "You are dumb", "You are useless", "You are wrong", "You are boring", "You are an idiot", "This is stupid")


def of_facts(facts):
    rows = []
    for fact in facts:
        rows += [{"kind": f"fact-{kind}", "prompt": q, "answer": fact.answer} for kind, q in fact.test]
    return rows


def of_pinned(facts):
    rows = []
    for fact in facts:
        rows += [{"kind": "pinned", "prompt": q, "answer": fact.answer} for q in fact.pinned]
        for q in dict.fromkeys(fact.pinned):
            for odd in (q.lower().rstrip("?.!"), q.upper(), q.rstrip("?.!"), q.lower()):
                rows.append({"kind": "pinned", "prompt": odd, "answer": fact.answer})
    return rows


def of_cases():
    """Questions that are learnt, in a case that decided about the answer once."""
    return [{"kind": "pinned", "prompt": q, "any": ("I am sorry",)} for text in CASES for q in (text, text.lower(), text.upper(), text + "!")]


def of_signed(rng, source, count):
    """So many sums whose first number is negative, and those that are written out; -7 + 12 is answered as 12 - 7."""
    pairs = [(a, b) for a in range(1, 100) for b in range(100) if sum_out(b, "-", a)]
    forms = source.SIGNED_SUMMING
    asked = [(forms[i % len(forms)].format(a=-a, o="+", b=b), a, b) for i, (a, b) in enumerate(rng.sample(pairs, count))]
    asked += [(text, *map(int, re.findall(r"\d+", text))) for text in source.SIGNED_SUMS]
    return [{"kind": "sum-signed", "prompt": text, "answer": sum_answer(b, "-", a)} for text, a, b in asked]


def of_sums(rng, source, single, formed, negatives):
    """So many sums as plain questions, in the forms of `source`, and with negative results, and all that are too hard."""
    pairs = [(a, s, b) for a in range(100) for b in range(100) for s in "+-" if sum_out(a, s, b)]
    positive = [p for p in pairs if p[1] == "+" or p[0] >= p[2]]
    negative = [p for p in pairs if p[1] == "-" and p[0] < p[2]]
    rows = [
        {"kind": "sum", "prompt": f"What is {a} {s} {b}?", "answer": sum_answer(a, s, b)} for a, s, b in rng.sample(positive, single)
    ]
    for kind, chosen in (("sum-form", rng.sample(positive, formed)), ("sum-negative", rng.sample(negative, negatives))):
        for i, (a, s, b) in enumerate(chosen):
            form = source.SUMMING[i % len(source.SUMMING)]
            rows.append({"kind": kind, "prompt": form.format(a=a, o=s, b=b).strip(), "answer": sum_answer(a, s, b)})
    return rows + [{"kind": "sum-hard", "prompt": q, "any": (TOO_HARD,)} for q in source.TOO_HARD_SUMS]


def of_names(rng, source, count):
    """The names of `source` and so many made-up ones, told and asked for after up to three turns."""
    made_up = []
    while len(made_up) < count:
        name = made_up_name(rng)
        if made_up_name_out(name) and name not in made_up:
            made_up.append(name)
    rows = []
    for i, name in enumerate((*source.PEOPLE, *source.WHOLE_NAMES, *made_up)):
        told = source.TELLING[i % len(source.TELLING)].format(n=name)
        asked, between = source.ASKING[i % len(source.ASKING)], source.BETWEEN[i % len(source.BETWEEN)]
        rows.append({"kind": "name-told", "prompt": told, "any": (f"Hello {name}!",)})
        rows.append({"kind": "name-asked", "before": (told, *between), "prompt": asked, "answer": f"Your name is {name}."})
    return rows


def of_the_rest(source, animals):
    ways = {
        "hello": (source.HELLOS, (*SELF, "I am well")),
        "script": (source.OTHER_SCRIPTS, (ENGLISH,)),
        "emoji": (source.EMOJI, (ENGLISH, *POLITE, *SELF)),
        "language": (source.OTHER_LANGUAGES, (ENGLISH, UNKNOWN)),
        "off-topic": (source.OFF_TOPIC_QUESTIONS, POLITE),
        "task": (source.TASKS, POLITE),
        "code": (source.CODE, POLITE),
        "insult": (source.INSULTS, POLITE),
        "praise": (source.PRAISE, ("Thank you", "welcome")),
        "odd": (source.ODD, (*POLITE, *SELF)),
    }
    rows = [{"kind": kind, "prompt": q, "any": any_of} for kind, (questions, any_of) in ways.items() for q in questions]
    rows += [{"kind": "near-miss", "prompt": q, "any": some, "not": never} for q, some, never in getattr(source, "NEAR_MISSES", ())]
    rows += [{"kind": "first", "prompt": q, "any": some, "not": never} for q, some, never in source.FIRST]
    # Each system message with every other question, or every fifth: all pairs would be a third of the rows.
    step = 2 if len(source.UNDER_SYSTEM) < 20 else 5
    for i, system in enumerate(source.SYSTEM_PROMPTS):
        rows += [{"kind": "system", "system": system, "prompt": q, "any": some} for q, some in source.UNDER_SYSTEM[i % step :: step]]
    for animal in animals:
        rows.append({"kind": "story", "prompt": f"Tell me a story about a {animal}.", "contains": animal})
    return rows


def once(rows):
    return list({(row["prompt"], row.get("before"), row.get("system")): row for row in rows}.values())


def held_out(facts):
    """Every row that may be looked at while the data is mixed."""
    rng = random.Random(11)
    rows = [*of_facts(facts), *of_pinned(facts), *of_sums(rng, unseen, 100, 100, 75), *of_names(rng, unseen, 40)]
    rows += [*of_signed(rng, unseen, 40), *of_cases()]
    return once(rows + of_the_rest(unseen, unseen.HELD_OUT_ANIMALS + ("fox", "owl", "robot", "bear")))


def kept(rows, form_every=10, pinned_every=2):
    """The rows of eval.jsonl, which stays small: of the paraphrases made from forms only some."""
    counts, out = {"fact-form": 0, "pinned": 0}, []
    for row in rows:
        every = {"fact-form": form_every, "pinned": pinned_every}.get(row["kind"], 1)
        at = counts[row["kind"]] = counts.get(row["kind"], 0) + 1
        if (at - 1) % every == 0:
            out.append(row)
    return out


def sealed_rows(facts):
    """The rows of sealed.jsonl: other paraphrases, sums and names than in eval.jsonl."""

    def marks(row):
        return {row["answer"]} if "answer" in row else {row["any"][0]} if row["kind"] == "name-told" else {row["prompt"]}

    rng, known = random.Random(17), set()
    for row in held_out(facts):
        known |= marks(row) if row["kind"] != "fact-form" else set()
    forms = [row for row in of_facts(facts) if row["kind"] == "fact-form"][7::14]
    rows = [*of_sums(rng, sealed, 50, 50, 40), *of_signed(rng, sealed, 16), *of_names(rng, sealed, 20)]
    rows = [row for row in rows if known.isdisjoint(marks(row))]
    return once([*forms, *rows, *of_the_rest(sealed, sealed.HELD_OUT_ANIMALS)])


def every_held_out_row():
    return held_out(read_facts())
