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
from held_out import held_out, kept, sealed_rows
from rough import roughen
from split import is_unseen, is_unseen_system
from systems import system_message

# Parts of the answers that visitors need most; their questions come up more often.
FIRST_ASKED = (
    "well-known program", "made for Linux", "the way to run programs", "GPU, computes", "I am sorry", "that is kind", "Type /exit", "/drop N",
    "It refuses", "Many open models", "I can answer questions", "Hello! I am", "I am the demo model", "I am well", "I only speak", "have the architecture",
    "You are welcome", "Goodbye", "trained from scratch", "I am a program", "That depends on the machine", "ran out of tokens", "Give qrun a GGUF file",
    "qrun is a small program", "your own machine", "5 million parameters",
)


@functools.cache
def answers_first_asked(answer):
    return any(part in answer for part in FIRST_ASKED)


def first_asked(facts):
    return [fact for fact in facts if answers_first_asked(fact.answer)]


def fact_turn(rng, facts):
    if rng.random() < 0.5:
        # Those with many questions oftener than those with few.
        asked = first_asked(facts)
        fact = rng.choices(asked, [len(fact.learn) ** 0.5 for fact in asked])[0]
    else:
        fact = rng.choice(facts)
    if fact.pinned and rng.random() < 0.5:
        question = roughen(rng.choice(fact.pinned), rng)
        # Capitals share no token with small letters, so they have to be met often enough.
        return question.upper() if rng.random() < 0.25 else question, fact.answer
    # What is written out is more diverse than what is made from forms, but there is less of it.
    if fact.literals and rng.random() < min(0.5, len(fact.literals) / 40):
        return roughen(rng.choice(fact.literals), rng), fact.answer
    return roughen(rng.choice(fact.learn)[1], rng), fact.answer


def mood_turn(rng, facts):
    """Praise or blame as it is typed: `You are stupid` and `YOU ARE GREAT` differ in one word only."""
    fact = rng.choice([fact for fact in facts if fact.answer.startswith(("I am sorry. I am", "Thank you, that is"))])
    question = rng.choice([question for kind, question in fact.learn if kind == "form" or rng.random() < 0.2])
    question = question.rstrip(".!") if rng.random() < 0.5 else question
    case = rng.random()
    return question.upper() if case < 0.3 else question.lower() if case < 0.45 else question, fact.answer


def draw(rng, facts):
    """A list of (question, answer); most have one turn."""
    fact, easy, strange, story, other, hard = makers = (
        lambda: fact_turn(rng, facts), lambda: sums.turn(rng), lambda: off_topic.turn(rng), lambda: stories.turn(rng),
        lambda: foreign.turn(rng), lambda: sums.hard_turn(rng),
    )

    def some(maker, counts):
        return [maker() for _ in range(rng.choice(counts))]

    def stories_told():
        more = rng.choice(stories.ASK_MORE), stories.tell(rng, rng.choice(stories.ANIMALS))
        return [story(), more] if rng.random() < 0.1 else [story()]

    def mixed():
        return [rng.choices(makers, (4, 4, 2, 0.15, 1, 1.5))[0]() for _ in range(rng.choice((2, 2, 3)))]

    kinds = (
        (0.32, lambda: some(fact, (1, 1, 1, 1, 1, 1, 1, 2))), (0.20, lambda: some(easy, (1, 1, 2, 4))), (0.075, lambda: some(hard, (1, 1, 2))),
        (0.025, stories_told), (0.03, lambda: some(lambda: off_topic.repeat_turn(rng), (1, 1, 2))), (0.15, lambda: [strange()]),
        (0.03, lambda: [mood_turn(rng, facts)]), (0.035, lambda: [other()]), (0.31, lambda: people.turns(rng, makers, (4, 4, 3, 0.6, 1, 2))), (0.06, mixed),
    )
    return rng.choices([maker for _, maker in kinds], [weight for weight, _ in kinds])[0]()


def conversation(rng, facts):
    """(system message or None, list of (question, answer)), never one that belongs to the evaluation."""
    while True:
        turns = [(question.strip(), answer) for question, answer in draw(rng, facts)]
        # Three terms are oftener taken for two after a system message.
        system = system_message(rng) if rng.random() < (0.45 if turns[0][1] == sums.TOO_HARD else 0.2) else None
        if not any(is_unseen(question) for question, _ in turns) and not (system and is_unseen_system(system)):
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
    parser.add_argument("--sealed", type=Path, help="write the questions that are asked once, at the end, here (jsonl)")
    parser.add_argument("--sample", type=Path, help="write about 50 KB of unseen conversations here")
    args = parser.parse_args()
    facts = read_facts()
    learn, test = (sum(len(getattr(fact, name)) for fact in facts) for name in ("learn", "test"))
    print(f"{len(facts)} facts, {learn} questions to learn, {test} held out")
    if args.text:
        rng = random.Random(args.seed)
        texts = (chat_text(*conversation(rng, facts)) for _ in range(args.conversations))
        args.text.write_text("".join(texts), encoding="utf-8")
    for path, rows in ((args.eval, lambda: kept(held_out(facts))), (args.sealed, lambda: sealed_rows(facts))):
        if path:
            path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows()), encoding="utf-8")
    if args.sample:
        # Another seed than any training run uses: the sentences are alike, the conversations are not the same.
        rng, text = random.Random(987654321), ""
        while len(text) < 50000:
            text += chat_text(*conversation(rng, facts))
        args.sample.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
