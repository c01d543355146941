"""Makes the text the demo model learns from: questions about qrun, short stories, small sums.

Everything follows from the seed and from facts.txt; nothing is downloaded. Some paraphrases and some sums are kept
out of the training text, so that evaluate.py can ask for them.
"""

import argparse
import functools
import json
import random
from pathlib import Path

import foreign
import off_topic
import people
import stories
import sums
from facts import read_facts
from held_out import held_out, kept
from split import is_unseen

LEADS = ("Hey, ", "So, ", "Hi! ", "Hello, ", "Okay, ", "Please: ", "Quick question: ", "Well, ", "And ", "One question: ")
TAILS = (" please", ", please", " Thanks!", " Thank you!", " now", " again")


def roughen(question, rng):
    """The same question as people type it: other case, no question mark, a word before or after, a typing slip."""
    if rng.random() < 0.3:
        return question
    if len(question.split()) > 2 and rng.random() < 0.12:
        lead = rng.choice(LEADS)
        question = lead + (question[0].lower() + question[1:] if question[1:2].islower() else question)
    if len(question.split()) > 2 and rng.random() < 0.06:
        question = question.rstrip("?.!") + rng.choice(TAILS)
    elif rng.random() < 0.02:
        question += " " + foreign.signs(rng)
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


# Parts of the answers that visitors need most; their questions come up more often.
FIRST_ASKED = (
    "well-known program", "made for Linux", "the way to run programs", "GPU, computes", "I am sorry", "that is kind", "Type /exit", "/drop N",
    "It refuses", "Many open models", "I can answer questions", "Hello! I am", "I am the demo model", "I am well", "I only speak", "have the architecture",
)


@functools.cache
def answers_first_asked(answer):
    return any(part in answer for part in FIRST_ASKED)


def first_asked(facts):
    return [fact for fact in facts if answers_first_asked(fact.answer)]


def fact_turn(rng, facts):
    fact = rng.choice(first_asked(facts) if rng.random() < 0.4 else facts)
    if fact.pinned and rng.random() < 0.5:
        question = roughen(rng.choice(fact.pinned), rng)
        # Capitals share no token with small letters, so they have to be met often enough.
        return question.upper() if rng.random() < 0.25 else question, fact.answer
    return roughen(rng.choice(fact.learn)[1], rng), fact.answer


def other_turns(rng, facts):
    """Makers of single turns, the common ones first."""
    return (
        lambda: fact_turn(rng, facts), lambda: sums.turn(rng), lambda: off_topic.turn(rng), lambda: stories.turn(rng),
        lambda: foreign.turn(rng), lambda: sums.hard_turn(rng),
    )


def draw(rng, facts):
    """A list of (question, answer); most have one turn."""
    fact, easy, strange, story, other, hard = makers = other_turns(rng, facts)
    kind = rng.random()
    if kind < 0.30:
        return [fact() for _ in range(rng.choice((1, 1, 1, 1, 1, 1, 1, 1, 2, 3)))]
    if kind < 0.45:
        return [easy() for _ in range(rng.choice((1, 1, 2, 4)))]
    if kind < 0.51:
        return [hard() for _ in range(rng.choice((1, 1, 2)))]
    if kind < 0.53:
        turns = [story()]
        if rng.random() < 0.1:
            turns.append((rng.choice(stories.ASK_MORE), stories.tell(rng, rng.choice(stories.ANIMALS))))
        return turns
    if kind < 0.54:
        return [off_topic.repeat_turn(rng) for _ in range(rng.choice((1, 1, 2)))]
    if kind < 0.64:
        return [strange()]
    if kind < 0.68:
        return [other()]
    if kind < 0.93:
        return people.turns(rng, (fact, easy, strange, story))
    return [rng.choices(makers, (3, 4, 2, 0.15, 1, 1))[0]() for _ in range(rng.choice((2, 2, 3)))]


def conversation(rng, facts):
    """(system message or None, list of (question, answer)), never one that belongs to the evaluation."""
    while True:
        turns = [(question.strip(), answer) for question, answer in draw(rng, facts)]
        system = off_topic.system_message(rng) if rng.random() < 0.14 else None
        if not any(is_unseen(question) for question, _ in turns):
            return system, turns


def chat_text(system, turns):
    """The chat format as text, without <bos>."""
    turns = [(f"{system}\n\n{q}" if system and i == 0 else q, a) for i, (q, a) in enumerate(turns)]
    return "".join(
        f"<start_of_turn>user\n{q}<end_of_turn>\n<start_of_turn>model\n{a}<end_of_turn>\n" for q, a in turns
    )


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
        texts = (chat_text(*conversation(rng, facts)) for _ in range(args.conversations))
        args.text.write_text("".join(texts), encoding="utf-8")
    if args.eval:
        lines = (json.dumps(row, ensure_ascii=False) for row in kept(held_out(facts)))
        args.eval.write_text("\n".join(lines) + "\n", encoding="utf-8")
    if args.sample:
        # Another seed than any training run uses: the sentences are alike, the conversations are not the same.
        rng, text = random.Random(987654321), ""
        while len(text) < 50000:
            text += chat_text(*conversation(rng, facts))
        args.sample.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
