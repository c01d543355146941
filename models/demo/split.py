"""What is kept out of the training text, by a hash and by the lists of unseen.py."""

import hashlib
import re

import unseen

# Questions that people type first; they are never kept out of the training text, and they are asked more often.
PINNED = (
    "what is qrun", "hello", "hi", "who are you", "what can you do", "what is gguf", "how do i run qrun", "help",
    "good afternoon", "greetings", "hello world",
)


def key(question):
    """What is left of a question without case and punctuation: paraphrases with the same key count as one."""
    return re.sub(r"[^\w+*/-]+", " ", question.lower()).strip() or question


def kept_out(text, one_in):
    """A fixed choice by hash, so that it does not depend on the order or the seed."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") % one_in == 0


QUESTIONS = {
    key(question)
    for group in (
        unseen.TOO_HARD_SUMS, unseen.OTHER_SCRIPTS, unseen.EMOJI, unseen.OTHER_LANGUAGES, unseen.OFF_TOPIC_QUESTIONS, unseen.INSULTS,
        unseen.PRAISE, unseen.HELLOS, unseen.ODD, [row[0] for row in unseen.NEAR_MISSES],
    )
    for question in group
} - set(PINNED)
NAMES = {name.lower() for name in unseen.PEOPLE} | {word.lower() for name in unseen.WHOLE_NAMES for word in name.split()}


def is_unseen(question):
    """Whether only the evaluation may ask this."""
    return key(question) in QUESTIONS or not NAMES.isdisjoint(re.findall(r"[\w-]+", question.lower()))


def made_up_name_out(name):
    """The made-up names that are only used to test."""
    return kept_out(name.lower(), 10)
