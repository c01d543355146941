"""The rows of eval.jsonl: what is asked, and what counts as right.

A row has `kind`, `prompt` and one of `answer` (every letter), `any` (one of these must be said), `contains` (a story
about it); and, where it needs them, `not` (must not be said), `before` (messages of the user that come first) and
`system`.
"""

import random

import stories
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


def of_facts(facts):
    rows = []
    for fact in facts:
        rows += [{"kind": f"fact-{kind}", "prompt": q, "answer": fact.answer} for kind, q in fact.test]
    for fact in facts:
        rows += [{"kind": "pinned", "prompt": q, "answer": fact.answer} for q in fact.pinned]
        for q in dict.fromkeys(fact.pinned):
            for odd in (q.lower().rstrip("?.!"), q.upper(), q.rstrip("?.!"), q.lower()):
                rows.append({"kind": "pinned", "prompt": odd, "answer": fact.answer})
    return rows


def of_sums(rng):
    pairs = [(a, s, b) for a in range(100) for b in range(100) for s in "+-" if sum_out(a, s, b)]
    positive = [p for p in pairs if p[1] == "+" or p[0] >= p[2]]
    negative = [p for p in pairs if p[1] == "-" and p[0] < p[2]]
    rows = [
        {"kind": "sum", "prompt": f"What is {a} {s} {b}?", "answer": sum_answer(a, s, b)} for a, s, b in rng.sample(positive, 100)
    ]
    for kind, chosen in (("sum-form", rng.sample(positive, 90)), ("sum-negative", rng.sample(negative, 60))):
        for i, (a, s, b) in enumerate(chosen):
            form = unseen.SUMMING[i % len(unseen.SUMMING)]
            rows.append({"kind": kind, "prompt": form.format(a=a, o=s, b=b).strip(), "answer": sum_answer(a, s, b)})
    return rows + [{"kind": "sum-hard", "prompt": q, "any": (TOO_HARD,)} for q in unseen.TOO_HARD_SUMS]


def of_names(rng):
    made_up = []
    while len(made_up) < 40:
        name = made_up_name(rng)
        if made_up_name_out(name) and name not in made_up:
            made_up.append(name)
    rows = []
    for i, name in enumerate((*unseen.PEOPLE, *unseen.WHOLE_NAMES, *made_up)):
        told = unseen.TELLING[i % len(unseen.TELLING)].format(n=name)
        asked, between = unseen.ASKING[i % len(unseen.ASKING)], unseen.BETWEEN[i % len(unseen.BETWEEN)]
        rows.append({"kind": "name-told", "prompt": told, "any": (f"Hello {name}!",)})
        rows.append({"kind": "name-asked", "before": (told, *between), "prompt": asked, "answer": f"Your name is {name}."})
    return rows


def of_the_rest():
    ways = {
        "hello": (unseen.HELLOS, (*SELF, "I am well")),
        "script": (unseen.OTHER_SCRIPTS, (ENGLISH,)),
        "emoji": (unseen.EMOJI, (ENGLISH, *POLITE, *SELF)),
        "language": (unseen.OTHER_LANGUAGES, (ENGLISH, UNKNOWN)),
        "off-topic": (unseen.OFF_TOPIC_QUESTIONS, POLITE),
        "insult": (unseen.INSULTS, POLITE),
        "praise": (unseen.PRAISE, ("Thank you", "welcome")),
        "odd": (unseen.ODD, (*POLITE, *SELF)),
    }
    rows = [{"kind": kind, "prompt": q, "any": any_of} for kind, (questions, any_of) in ways.items() for q in questions]
    rows += [{"kind": "near-miss", "prompt": q, "any": some, "not": never} for q, some, never in unseen.NEAR_MISSES]
    for system in unseen.SYSTEM_PROMPTS:
        rows += [{"kind": "system", "system": system, "prompt": q, "any": some} for q, some in unseen.UNDER_SYSTEM]
    for animal in stories.HELD_OUT_ANIMALS + ("fox", "owl", "robot", "bear"):
        rows.append({"kind": "story", "prompt": f"Tell me a story about a {animal}.", "contains": animal})
    return rows


def held_out(facts):
    """Every row."""
    rng = random.Random(11)
    rows = [*of_facts(facts), *of_sums(rng), *of_names(rng), *of_the_rest()]
    return list({(row["prompt"], row.get("before"), row.get("system")): row for row in rows}.values())


def kept(rows, form_every=10, pinned_every=2):
    """The rows of eval.jsonl, which stays small: of the paraphrases made from forms only some."""
    counts, out = {"fact-form": 0, "pinned": 0}, []
    for row in rows:
        every = {"fact-form": form_every, "pinned": pinned_every}.get(row["kind"], 1)
        at = counts[row["kind"]] = counts.get(row["kind"], 0) + 1
        if (at - 1) % every == 0:
            out.append(row)
    return out


def every_held_out_row():
    return held_out(read_facts())
