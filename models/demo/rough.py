"""Questions as people type them: other case, no mark at the end, short words, slips of the fingers."""

import foreign

LEADS = (
    "Hey, ", "So, ", "Hi! ", "Hello, ", "Okay, ", "Please: ", "Quick question: ", "Well, ", "And ", "One question: ", "hey ", "hi, ", "ok so ",
    "hmm, ", "Good day, ", "sorry, ", "just wondering, ", "um, ", "alright, ", "but ",
)
TAILS = (
    " please", ", please", " Thanks!", " Thank you!", " now", " again", " then", " exactly", " pls", " my friend", ", my friend", " man", " today", " really",
    " by the way", " for me", " actually",
)
# The short forms of chats; each word is replaced or left, so that both are met.
SHORT = {
    "you": "u", "are": "r", "your": "ur", "please": "plz", "thanks": "thx", "what": "wat", "because": "cuz",
    "what's": "whats", "i'm": "im", "do not": "dont", "people": "ppl", "message": "msg", "tomorrow": "tmrw", "favourite": "favorite", "colour": "color",
}


def shortened(question, rng):
    words = question.split(" ")
    for i, word in enumerate(words):
        bare = word.rstrip("?.!,")
        if bare.lower() in SHORT and rng.random() < 0.6:
            words[i] = SHORT[bare.lower()] + word[len(bare):]
    return " ".join(words).replace("What is ", rng.choice(("What is ", "Whats ", "What's ")))


def slipped(question, rng):
    """One letter left out, doubled or swapped with its neighbour; or the last one held down."""
    if rng.random() < 0.2 and question[-1].isalpha():
        return question + question[-1] * rng.randint(1, 4)
    at = rng.randrange(2, len(question) - 2)
    swap = question[:at] + question[at + 1] + question[at] + question[at + 2:]
    return rng.choice((question[:at] + question[at + 1:], swap, question[:at] + question[at] + question[at:]))


def typed(text, rng):
    """Without a mark at the end, in small letters, in capitals."""
    if rng.random() < 0.25:
        text = text.rstrip("?.!") or text
    if rng.random() < 0.06:
        text = shortened(text, rng)
    case = rng.random()
    return text.lower() if case < 0.25 else text.upper() if case < 0.28 else text


def roughen(question, rng):
    """The same question in one of many ways, with a word before or after it."""
    if rng.random() < 0.25:
        return question
    if len(question.split()) > 1 and rng.random() < 0.15:
        lead = rng.choice(LEADS)
        question = lead + (question[0].lower() + question[1:] if question[1:2].islower() else question)
    if len(question.split()) > 1 and rng.random() < 0.1:
        mark = question[-1] if question[-1] in "?.!" and rng.random() < 0.7 else ""
        question = question.rstrip("?.!") + rng.choice(TAILS) + mark
    elif rng.random() < 0.02:
        question += " " + foreign.signs(rng)
    if rng.random() < 0.15:
        question = shortened(question, rng)
    if rng.random() < 0.3:
        question = question.rstrip("?.!") or question
    elif rng.random() < 0.05:
        question += rng.choice(("?", "!", ".", "!!", "??", "?!", "..."))
    if rng.random() < 0.08 and len(question) > 8:
        question = slipped(question, rng)
    case = rng.random()
    if case < 0.35:
        return question.lower()
    if case < 0.42:
        return question.upper()
    return question.replace("qrun", rng.choice(("Qrun", "QRUN"))) if case < 0.46 else question
