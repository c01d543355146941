"""What is kept out of the training text, by a hash and by the lists of unseen.py and sealed.py."""

import hashlib
import re

import sealed
import unseen

# Questions that people type first; they are never kept out of the training text, and they are asked more often.
PINNED = (
    "what is qrun", "hello", "hi", "who are you", "what can you do", "what is gguf", "how do i run qrun", "help",
    "good afternoon", "greetings", "hello world", "sos", "can you give me a hand",
)


def key(question):
    """What is left of a question without case and punctuation: paraphrases with the same key count as one."""
    return re.sub(r"[^\w+*/-]+", " ", question.lower()).strip() or question


def kept_out(text, one_in):
    """A fixed choice by hash, so that it does not depend on the order or the seed."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") % one_in == 0


def arithmetic(question):
    """`What is 1 + 2 + 3?` -> `1+2+3`: the same sum in other words has the same answer."""
    return re.sub(r"[^\d+*/^%.-]", "", question).strip(".")


LISTS = (unseen, sealed)
QUESTIONS = {
    key(question)
    for source in LISTS
    for group in (
        source.TOO_HARD_SUMS, source.OTHER_SCRIPTS, source.EMOJI, source.OTHER_LANGUAGES, source.OFF_TOPIC_QUESTIONS, source.INSULTS,
        source.PRAISE, source.HELLOS, source.ODD, source.TASKS, source.CODE, [row[0] for row in (*getattr(source, "NEAR_MISSES", ()), *source.FIRST)],
    )
    for question in group
} - set(PINNED)
SIGNED_SUMS = {arithmetic(question) for source in LISTS for question in source.SIGNED_SUMS}
HARD_SUMS = {arithmetic(question) for source in LISTS for question in source.TOO_HARD_SUMS if re.search(r"\d\W+\d", question)}
NAMES = {
    word for source in LISTS for name in (*source.PEOPLE, *source.WHOLE_NAMES) for word in re.findall(r"[\w-]{2,}", name.lower())
}
SYSTEM_PROMPTS = tuple(prompt for source in LISTS for prompt in source.SYSTEM_PROMPTS)


def is_unseen(question):
    """Whether only the evaluation may ask this."""
    return (
        key(question) in QUESTIONS
        or arithmetic(question) in HARD_SUMS
        or not NAMES.isdisjoint(re.findall(r"[\w-]+", question.lower()))
    )


def is_unseen_system(text):
    return any(prompt in text for prompt in SYSTEM_PROMPTS)


def made_up_name_out(name):
    """The made-up names that are only used to test."""
    return kept_out(name.lower(), 10)
