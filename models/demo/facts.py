"""The facts of facts.txt and the forms of their questions, split into those to learn and those to test."""

import itertools
from pathlib import Path

from split import PINNED, is_unseen, kept_out, key

HERE = Path(__file__).parent

FORMS = {
    "what": (
        "What is {x}?", "What's {x}?", "Tell me about {x}.", "Explain {x}.", "Can you explain {x}?",
        "What does {x} mean?", "Please explain {x}.", "Describe {x}.", "What do you know about {x}?",
        "Could you tell me what {x} is?", "I want to know what {x} is.", "Give me a short explanation of {x}.",
        "{x}?", "Define {x}.", "Do you know what {x} is?", "What exactly is {x}?", "So what is {x}?",
        "Explain {x} to me.", "I do not know what {x} is.", "Tell me what {x} is.", "{x}, what does it mean?", "{x} means what?",
        "And what is {x}?", "{x}, please explain.",
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
    "being": (
        "You are {x}.", "You are so {x}.", "You are very {x}!", "You are really {x}.", "You're {x}", "u r {x}", "This is {x}.", "This is so {x}!",
        "That was {x}.", "That is {x}.", "How {x}!", "How {x} you are!", "Your answers are {x}.", "This model is {x}.", "I think you are {x}.",
        "I find you {x}.", "What {x} answers!", "qrun is {x}.", "This program is {x}.", "Your answer was {x}.", "You were {x}.", "It is {x}.",
    ),
    "greet": (
        "Hello {x}", "Hello {x}!", "Hi {x}", "Hi {x}!", "Hey {x}", "Hey there, {x}!", "Hi there {x}", "Hello there, {x}", "Good morning, {x}", "Good day {x}!", "Good evening, {x}.",
        "Good afternoon {x}", "Greetings, {x}!", "Hello, {x}, how nice to be here.", "oh hi {x}", "ah, hey {x}", "Hello dear {x}", "hello again {x}", "Hi again, {x}", "Howdy {x}", "hello hello {x}", "well hello {x}",
        "hi {x}, I am back", "hey {x}, it is me", "Hello {x}, nice to meet you", "Hello {x}, good to see you", "just wanted to say hello, {x}", "hello my {x}", "Hello good {x}", "hi my little {x}",
    ),
    "called": (
        "You are {x}.", "You are such {x}!", "You're {x}", "What {x}!", "What {x} you are!", "You are just {x}.", "u r {x}", "This model is {x}.",
        "Such {x}!", "I call you {x}.", "You are really {x}.", "I think you are {x}.", "This thing is {x}.", "You sound like {x}.",
    ),
}


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
            if any(is_unseen(question) for _, question in group):
                continue
            rate = 8 if group[0][0] == "form" else 14
            out = name not in PINNED and kept_out(name, rate)
            (self.test if out else self.learn).extend(group if not out else group[:1])
        self.literals = [question for kind, question in self.learn if kind == "literal"]
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
