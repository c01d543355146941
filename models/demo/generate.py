"""Makes the text the demo model learns from: questions about qrun, short stories, small sums.

Everything follows from the seed and from facts.txt; nothing is downloaded. Some paraphrases and some sums are kept
out of the training text, so that evaluate.py can ask for them.
"""

import argparse
import hashlib
import itertools
import json
import random
import re
from pathlib import Path

import stories
from words import NAMES, OFF_TOPIC, OFF_TOPIC_FORMS, OFF_TOPIC_THINGS

HERE = Path(__file__).parent

FORMS = {
    "what": (
        "What is {x}?", "What's {x}?", "Tell me about {x}.", "Explain {x}.", "Can you explain {x}?",
        "What does {x} mean?", "Please explain {x}.", "Describe {x}.", "What do you know about {x}?",
        "Could you tell me what {x} is?", "I want to know what {x} is.", "Give me a short explanation of {x}.",
        "{x}?", "Define {x}.", "Do you know what {x} is?", "What exactly is {x}?", "So what is {x}?",
        "Explain {x} to me.", "I do not know what {x} is.", "Tell me what {x} is.",
    ),
    "whats": (
        "What are {x}?", "Tell me about {x}.", "Explain {x}.", "Can you explain {x}?", "What do {x} mean?",
        "Please explain {x}.", "Describe {x}.", "What do you know about {x}?", "Could you tell me what {x} are?",
        "I want to know what {x} are.", "{x}?", "List {x}.", "Explain {x} to me.", "Tell me what {x} are.",
    ),
    "how": (
        "How do I {x}?", "How can I {x}?", "How to {x}?", "How does one {x}?", "What do I type to {x}?",
        "I want to {x}.", "Show me how to {x}.", "Can you tell me how to {x}?", "Please tell me how to {x}.",
        "What is the way to {x}?", "How would I {x}?", "Is there a way to {x}?", "I need to {x}.",
        "What should I do to {x}?", "Which command do I need to {x}?", "Tell me how to {x}.", "Can I {x}?",
        "How do you {x}?", "I would like to {x}.", "What is the command to {x}?",
    ),
    "can": (
        "Can qrun {x}?", "Is qrun able to {x}?", "Is it possible to {x} with qrun?", "Could qrun {x}?",
        "Will qrun {x}?", "I wonder if qrun can {x}.", "Tell me if qrun can {x}.", "Do you know if qrun can {x}?",
        "Can I use qrun to {x}?", "Can it {x}?", "Can you {x}?", "Please tell me if qrun can {x}.",
    ),
    "which": (
        "Which {x} does qrun support?", "What {x} does qrun support?", "List the {x}.", "Tell me the {x} of qrun.",
        "What are the {x} of qrun?", "Which {x} can I use?", "Which {x} are there?", "Show me the {x}.",
        "Name the {x}.", "Which {x} does qrun know?", "What {x} are there?", "Which {x} work with qrun?",
        "Give me a list of the {x}.", "What {x} are supported?", "Which {x} are supported?", "What are the {x}?",
    ),
}

# Questions that people type first; they are never kept out of the training text, and they are asked more often.
PINNED = (
    "what is qrun", "hello", "hi", "who are you", "what can you do", "what is gguf", "how do i run qrun", "help",
    "good afternoon", "greetings",
)

LEADS = ("Hey, ", "So, ", "Hi! ", "Hello, ", "Okay, ", "Please: ", "Quick question: ", "Well, ", "And ", "One question: ")
TAILS = (" please", ", please", " Thanks!", " Thank you!", " now", " again")


def key(question):
    """What is left of a question without case and punctuation: paraphrases with the same key count as one."""
    return re.sub(r"[^\w+*/-]+", " ", question.lower()).strip() or question


def kept_out(text, one_in):
    """A fixed choice by hash, so that it does not depend on the order or the seed."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") % one_in == 0


class Fact:
    """One answer and its questions, split into those to learn and those to test."""

    def __init__(self, block):
        self.answer, seen = "", {}
        for line in block:
            if line.startswith("= "):
                self.answer = line[2:]
            elif line.startswith("? "):
                seen.setdefault(key(line[2:]), []).append(("literal", line[2:]))
            else:
                kind, names = line.split(": ", 1)
                for name, form in itertools.product(names.split(" | "), FORMS[kind]):
                    question = form.format(x=name)
                    question = question[0].upper() + question[1:] if name[0] != "/" else question
                    seen.setdefault(key(question), []).append(("form", question))
        assert self.answer and len(seen) >= 15, (block, len(seen))
        self.keys = set(seen)
        self.learn, self.test = [], []
        for name, group in seen.items():
            rate = 8 if group[0][0] == "form" else 14
            out = name not in PINNED and kept_out(name, rate)
            (self.test if out else self.learn).extend(group if not out else group[:1])
        self.pinned = [question for _, question in self.learn if key(question) in PINNED]


def read_facts(path=HERE / "facts.txt"):
    """All facts of the file; a question that belongs to two facts is an error."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    blocks = [list(group) for filled, group in itertools.groupby(lines, key=bool) if filled]
    facts, owner = [Fact(block) for block in blocks], {}
    for fact in facts:
        for name in fact.keys:
            assert name not in owner, f"'{name}' asks for two facts: {fact.answer} / {owner[name].answer}"
            owner[name] = fact
    return facts


def roughen(question, rng):
    """The same question as people type it: other case, no question mark, a word before or after, a typing slip."""
    if rng.random() < 0.3:
        return question
    if len(question.split()) > 2 and rng.random() < 0.12:
        lead = rng.choice(LEADS)
        question = lead + (question[0].lower() + question[1:] if question[1:2].islower() else question)
    if len(question.split()) > 2 and rng.random() < 0.06:
        question = question.rstrip("?.!") + rng.choice(TAILS)
    if rng.random() < 0.3:
        question = question.rstrip("?.!") or question
    elif rng.random() < 0.04:
        question += rng.choice("?!.")
    if rng.random() < 0.08 and len(question) > 10:
        at = rng.randrange(2, len(question) - 2)
        swap = question[:at] + question[at + 1] + question[at] + question[at + 2:]
        question = rng.choice((question[:at] + question[at + 1:], swap, question[:at] + question[at] + question[at:]))
    case = rng.random()
    if case < 0.3:
        return question.lower()
    if case < 0.38:
        return question.upper()
    return question.replace("qrun", rng.choice(("Qrun", "QRUN"))) if case < 0.42 else question


SUM_FORMS = (
    "What is {a} {o} {b}?", "{a} {o} {b}", "{a} {o} {b} =", "{a} {o} {b}?", "How much is {a} {o} {b}?", "Calculate {a} {o} {b}.",
    "What is {a} {w} {b}?", "How much is {a} {w} {b}?", "{a} {w} {b}", "Compute {a} {o} {b}.", "{a}{o}{b}", "{a}{o}{b}=?",
    "Can you tell me what {a} {o} {b} is?", "Work out {a} {o} {b}.", "And {a} {o} {b}?",
)
TOO_HARD = "I only add and subtract whole numbers up to 99. A larger model can do more."


def sum_out(a, sign, b):
    """The sums that are only used to test."""
    return kept_out(f"{a}{sign}{b}", 12)


def sum_answer(a, sign, b):
    return f"{a} {sign} {b} = {a + b if sign == '+' else a - b}."


def sum_turn(rng):
    while True:
        a, b = (rng.randrange(100) if rng.random() < 0.85 else rng.randrange(10) for _ in range(2))
        sign = rng.choice("+-")
        if sign == "-" and a < b and rng.random() < 0.7:
            a, b = b, a
        if not sum_out(a, sign, b):
            break
    form = rng.choice(SUM_FORMS) if rng.random() < 0.6 else SUM_FORMS[rng.randrange(2)]
    word = rng.choice(("plus", "and")) if sign == "+" else "minus"
    return roughen_sum(form.format(a=a, b=b, o=sign, w=word), rng), sum_answer(a, sign, b)


def roughen_sum(question, rng):
    return question if rng.random() < 0.6 else question.rstrip("?.").lower()


def hard_sum_turn(rng):
    big = rng.random() < 0.6
    a, b = (rng.randrange(100, 10000) for _ in range(2)) if big else (rng.randrange(1, 100) for _ in range(2))
    sign = rng.choice("+-*/") if big else rng.choice(("*", "/", "times", "x", "divided by"))
    form = rng.choice(("What is {a} {o} {b}?", "{a} {o} {b}", "How much is {a} {o} {b}?", "Calculate {a} {o} {b}."))
    return form.format(a=a, b=b, o=sign), TOO_HARD


UNKNOWN = "I do not know that, because I am a very small model. Ask me about qrun, for a story or for a small sum."


def unknown_turn(rng):
    if rng.random() < 0.35:
        question = rng.choice(OFF_TOPIC)
    else:
        question = rng.choice(OFF_TOPIC_FORMS).format(x=rng.choice(OFF_TOPIC_THINGS))
    return roughen(question, rng), UNKNOWN


def made_up_name(rng):
    """Names nobody has, so that the model learns to copy and not to recall; a few leave ASCII."""
    soft, hard = rng.choice(("aeiou", "aeiouäöüé")), "bdfgklmnprstvwz"
    return "".join(rng.choice(hard) + rng.choice(soft) for _ in range(rng.randint(2, 3))).capitalize()


TELL_NAME = ("My name is {n}.", "I am {n}.", "Hello, I am {n}.", "Hi, my name is {n}.", "I'm {n}", "Call me {n}.")
ASK_NAME = ("What is my name?", "What's my name?", "Do you know my name?", "Who am I?", "Tell me my name.", "what is my name")


def name_turns(rng, facts):
    """The user gives a name and asks for it later: the only thing here that needs memory of the conversation."""
    name = rng.choice(NAMES) if rng.random() < 0.6 else made_up_name(rng)
    if rng.random() < 0.15:
        return [(rng.choice(ASK_NAME), "You have not told me your name yet.")]
    turns = [(rng.choice(TELL_NAME).format(n=name), f"Hello {name}! What would you like to know?")]
    turns += [fact_turn(rng, facts) for _ in range(rng.choice((0, 0, 1, 2)))]
    return turns + [(rng.choice(ASK_NAME), f"Your name is {name}.")]


def fact_turn(rng, facts):
    fact = rng.choice(facts)
    if fact.pinned and rng.random() < 0.5:
        question = roughen(rng.choice(fact.pinned), rng)
        # Capitals share no token with small letters, so they have to be met often enough.
        return question.upper() if rng.random() < 0.25 else question, fact.answer
    return roughen(rng.choice(fact.learn)[1], rng), fact.answer


def conversation(rng, facts):
    """A list of (question, answer); most have one turn."""
    kind = rng.random()
    if kind < 0.32:
        return [fact_turn(rng, facts) for _ in range(rng.choice((1, 1, 1, 1, 2, 3)))]
    if kind < 0.64:
        return [sum_turn(rng) for _ in range(rng.choice((1, 1, 2, 4, 8)))]
    if kind < 0.66:
        return [hard_sum_turn(rng)]
    if kind < 0.76:
        turns = [stories.turn(rng)]
        if rng.random() < 0.1:
            turns.append((rng.choice(stories.ASK_MORE), stories.tell(rng, rng.choice(stories.ANIMALS))))
        return turns
    if kind < 0.84:
        return [unknown_turn(rng)]
    if kind < 0.89:
        return name_turns(rng, facts)
    makers = (lambda: fact_turn(rng, facts), lambda: sum_turn(rng), lambda: unknown_turn(rng), lambda: stories.turn(rng))
    return [rng.choices(makers, (5, 3, 1, 0.5))[0]() for _ in range(rng.choice((2, 2, 3, 4, 6)))]


def chat_text(turns):
    """The chat format as text, without <bos>."""
    return "".join(
        f"<start_of_turn>user\n{q}<end_of_turn>\n<start_of_turn>model\n{a}<end_of_turn>\n" for q, a in turns
    )


def held_out(facts):
    """The rows of eval.jsonl."""
    rows = []
    for fact in facts:
        rows += [{"kind": f"fact-{kind}", "prompt": q, "answer": fact.answer} for kind, q in fact.test]
    rng = random.Random(11)
    for fact in facts:
        rows += [{"kind": "pinned", "prompt": q, "answer": fact.answer} for q in fact.pinned]
        for q in dict.fromkeys(fact.pinned):
            for odd in (q.lower().rstrip("?.!"), q.upper(), q.rstrip("?.!"), q.lower()):
                rows.append({"kind": "pinned", "prompt": odd, "answer": fact.answer})
    sums = [(a, s, b) for a in range(100) for b in range(100) for s in "+-" if sum_out(a, s, b) and (s == "+" or a >= b)]
    for a, s, b in rng.sample(sums, 150):
        rows.append({"kind": "sum", "prompt": f"What is {a} {s} {b}?", "answer": sum_answer(a, s, b)})
    for animal in stories.HELD_OUT_ANIMALS + ("fox", "owl", "robot", "bear"):
        rows.append({"kind": "story", "prompt": f"Tell me a story about a {animal}.", "contains": animal})
    unique = {row["prompt"]: row for row in rows}
    return list(unique.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--conversations", type=int, default=20000, help="only for --text")
    parser.add_argument("--text", type=Path, help="write training text here, to look at it")
    parser.add_argument("--eval", type=Path, help="write the held-out questions here (jsonl)")
    parser.add_argument("--sample", type=Path, help="write about 50 KB of unseen conversations here")
    args = parser.parse_args()
    facts = read_facts()
    learn, test = (sum(len(getattr(fact, name)) for fact in facts) for name in ("learn", "test"))
    print(f"{len(facts)} facts, {learn} questions to learn, {test} held out")
    if args.text:
        rng = random.Random(args.seed)
        texts = (chat_text(conversation(rng, facts)) for _ in range(args.conversations))
        args.text.write_text("".join(texts), encoding="utf-8")
    if args.eval:
        # The file stays small: of the paraphrases made from forms only every fifth is kept.
        rows, forms = held_out(facts), itertools.count()
        rows = [row for row in rows if row["kind"] != "fact-form" or next(forms) % 5 == 0]
        lines = (json.dumps(row, ensure_ascii=False) for row in rows)
        args.eval.write_text("\n".join(lines) + "\n", encoding="utf-8")
    if args.sample:
        # Another seed than any training run uses: the sentences are alike, the conversations are not the same.
        rng, text = random.Random(987654321), ""
        while len(text) < 50000:
            text += chat_text(conversation(rng, facts))
        args.sample.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
