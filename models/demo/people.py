"""Names, real and made up, and conversations in which one is told and asked for again."""

import re
from pathlib import Path

from split import made_up_name_out
from words import NAMES, OFF_TOPIC, QUALITIES, THINGS, VERBS

GREETINGS = (
    "", "", "", "", "", "", "Hello, ", "Hi, ", "Hey, ", "Hey, ", "Hello! ", "Hi! ", "hi ", "hello ", "hey ", "Good morning, ", "Hello qrun, ", "Hello there, ", "Okay, ",
    "Hi there! ", "Good day! ", "So, ", "By the way, ", "yo, ", "Dear model, ", "For your information: ",
)
TELL = (
    "my name is {n}", "my name is {n}", "my name is {n}", "I am {n}", "I am {n}", "I am {n}", "I am {n}", "I'm {n}", "I'm {n}", "im {n}", "call me {n}", "call me {n}", "please call me {n}",
    "you can call me {n}", "they call me {n}", "everyone calls me {n}", "my friends call me {n}", "the name is {n}", "my name's {n}", "{n} is my name",
    "this is {n}", "this is {n} speaking", "{n} here", "{n} here", "{n} speaking", "I am called {n}", "name: {n}", "remember that my name is {n}", "it's {n}", "you are talking to {n}",
    "let me introduce myself: I am {n}", "MY NAME IS {n}", "my full name is {n}", "I was named {n}", "you may call me {n}", "{n} is what they call me",
    "note that my name is {n}", "I introduce myself as {n}", "your user is {n}", "my parents named me {n}", "{n}, that is my name",
    "I am known as {n}", "I am known by the name {n}", "everyone knows me as {n}", "I go under the name {n}", "I mostly go as {n}", "I answer to {n}", "I listen to the name {n}",
    "I prefer to be called {n}", "I like to be called {n}", "I want to be called {n}", "I use the name {n}", "I have the name {n}", "folks say {n} to me", "just say {n} to me",
    "you may know me as {n}", "in here I am {n}", "my nickname is {n}", "my user name is {n}", "my surname is {n}", "the one who types is {n}", "my mother calls me {n}",
    "for you I am {n}", "let us say that I am {n}", "write down my name: {n}", "here is my name: {n}", "my name? {n}", "me: {n}", "I sign with {n}", "i'm called {n}",
    "I go by {n}", "I go by {n}", "I go by {n}", "I go by the name {n}", "I go by the name of {n}", "I usually go by {n}", "I mostly go by {n}", "here I go by {n}", "on the net I go by {n}", "people know me as {n}", "people know me as {n}",
    "it's {n} here", "it's {n} speaking", "it is {n} here", "the name's {n}", "name's {n}", "you can refer to me as {n}", "refer to me as {n}", "address me as {n}", "at work they call me {n}", "at home I am {n}", "folks call me {n}", "most call me {n}",
    "the others call me {n}", "my family calls me {n}", "all my friends say {n}", "you might know me as {n}", "I am also known as {n}", "known to all as {n}", "they know me as {n}", "just call me {n}", "just {n}, please remember", "go ahead and call me {n}",
    "it would be nice if you called me {n}", "use the name {n} for me", "{n} is the name", "{n} is the name they gave me", "{n} is how they call me", "{n} is who I am", "I am the one called {n}", "my given name is {n}", "my last name is {n}", "my real name is {n}",
    "my short name is {n}", "I got the name {n}", "they named me {n}", "I was born as {n}", "I log in as {n}", "I come as {n}", "I introduce myself: {n}", "yours truly, {n}", "signed, {n}", "mine is {n}", "what is your name? I am {n}", "what's yours? mine's {n}", "mine's {n}, and yours?", "my name? mine is {n}", "do you have a name? mine is {n}",
    "my name will be {n}", "my name must be {n}", "my name could be {n}", "my name shall be {n}", "my name was always {n}", "my name used to be {n}",
    "my name is and was {n}", "my name has been {n}", "the name would be {n}", "the name will be {n}",
    "my name has always been {n}", "my name, then, is {n}", "my name is still {n}", "my name is simply {n}", "they all call me {n}",
    "all of them know me as {n}",
    "{n}. That's me", "{n}. This is my name", "{n}: that is how I am called", "{n}. Remember that", "{n}. That is what they call me", "the user is {n}", "user name: {n}", "who am I? I am {n}",
)
ENDS = (
    "", "", "", "", ".", ".", ".", ".", "!", "!", ", nice to meet you.", ", nice to meet you!", " and I am new here.", ". What is yours?", ". How are you?",
    ", please remember it.", ". And you?", ", hello!", " :)", ". Who are you?", ", pleased to meet you.", ", a friend of qrun.", ". I like stories.",
    " once more.", " once more", ", back once more.", " as before.",
)
LEADS = ("", "", "", "", "", "", "Hey, ", "So ", "And ", "Okay, ", "By the way, ", "Now ", "Please: ", "hm, ", "One question: ", "Well, ", "Tell me: ")
ASK = (
    "What is my name?", "What is my name?", "What's my name?", "Do you know my name?", "Who am I?", "Tell me my name.", "what is my name", "whats my name?",
    "Do you remember my name?", "What was my name?", "Can you tell me my name?", "What am I called?", "who am i", "Have you forgotten my name?",
    "Say my name.", "Do you know who I am?", "What did I tell you my name was?", "what's my name", "My name?", "Please tell me my name.", "How am I called?",
    "Which name did I tell you?", "What name did I give you?", "Can you remember my name?", "Did you forget my name?", "Could you say my name?", "my name?",
    "Write my name.", "Tell me who I am.", "Who is talking to you?", "I forgot my name, what is it?", "Repeat my name.", "Spell my name.", "name?",
    "Do you recall my name?", "How do they call me?", "You know my name, right?", "With whom are you talking?", "Whom are you talking to?",
    "My name was?", "I am called what?", "Who is it that you talk with?", "Which name is mine?", "What do you call me?", "How should you call me?",
    "Under which name do you know me?", "What is the name of your user?", "Did I tell you my name?", "Can you still say my name?", "Do you have my name?", "Is my name known to you?",
    "My name is what?", "And my name?", "Name me.", "Greet me by my name.", "Use my name.", "Who have I said I am?", "I told you my name. What is it?", "You still have my name?",
)
# A question within a question: each of these before each of those.
BEFORE = (
    "Do you know", "Do you remember", "Can you say", "Can you tell me", "Could you tell me", "Please say", "Please tell me", "I would like to know", "I want to hear", "Say",
    "Do you still recall", "Try to remember", "Have you kept in mind", "Let me hear", "Let me know", "I wonder", "Are you sure", "Can you repeat", "Please repeat", "I forgot",
)
WITHIN = ("what my name is", "what my name was", "who I am", "what I am called", "how I am called", "which name I have", "which name I gave you", "what name I told you", "the name that I gave you")
CORRECTIONS = ("No, my name is {n}.", "Sorry, I am {n}.", "Actually, my name is {n}.", "That is wrong, I am {n}.", "Now call me {n}.", "I changed my name to {n}.", "Not quite: {n}.", "From now on I am {n}.")
NOT_TOLD = "You have not told me your name yet."
ONSETS = "b c d f g h j k l m n p r s t v w z th sh ch br cr dr fr gr kr pr tr st sk sl sm sn sp sv bl cl fl gl pl kn ph qu y x zh kh dm vl".split()
VOWELS = "a e i o u a e i o u a e i o ai au ea ee ei ia ie io oa oo ou ue y ü ö".split()
CODAS = "n r s l m t d k th ck ng nd rt ld st ss nn ll tz x p b g ch sch ff mp rd vic sson".split()


def made_up_name(rng):
    """A name that nobody has, so that the model learns to copy and not to recall."""
    parts = [rng.choice(ONSETS) if rng.random() < 0.85 else ""]
    for _ in range(rng.choices((1, 2, 3), (4, 6, 2))[0]):
        parts += [rng.choice(VOWELS), rng.choice(ONSETS)]
    parts[-1] = rng.choice(CODAS) if rng.random() < 0.5 else ""
    return "".join(parts).capitalize()


# Real words, whose halves make names with all the pieces that a real name may have: those of every text that made the vocabulary.
TEXT = " ".join((*VERBS, *QUALITIES, *THINGS, *OFF_TOPIC, (Path(__file__).parent / "facts.txt").read_text(encoding="utf-8")))
WORDS = sorted({word.lower() for word in (*NAMES, *re.findall("[A-Za-z]+", TEXT)) if word.isalpha() and len(word) > 2})


# What stands in them, each as often as any other: a name of these has the pieces that no name is likely to have.
PARTS = [sorted({word[i : i + size] for word in WORDS for i in range(len(word) - size + 1)}) for size in (2, 3, 3, 4)]


def joined_name(rng):
    """Parts of words joined: `til` and `ack` make `Tilack`."""
    return "".join(rng.choice(rng.choice(PARTS)) for _ in range(rng.choice((1, 2, 2, 2, 3)))).capitalize()


def spliced_name(rng):
    """The beginning of one word and the end of another: `Peggy` and `cactus` make `Pectus`."""
    first, last = (rng.choice(NAMES if rng.random() < 0.4 else WORDS).lower() for _ in range(2))
    return (first[: rng.randint(1, len(first))] + last[rng.randrange(len(last) - 1) :])[:14].capitalize()


# The pieces of letters that the vocabulary has, which `restore.py` writes: a name of these has the tokens that names of words hardly have.
PIECES = (Path(__file__).parent / "pieces.txt").read_text(encoding="utf-8").split()
STARTS = [piece[1:] for piece in PIECES if piece[0] == "\u2581" and piece[1:2].isupper() and len(piece) < 8]
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
LONGER = [piece for piece in STARTS if len(piece) > 1 and piece[1:].islower()]
LATER = [piece for piece in PIECES if piece[0] != "\u2581" and piece.islower() and len(piece) < 7]


def pieced_name(rng):
    """Pieces of the vocabulary joined: `M`, `o`, `hind` and `er` make `Mohinder`."""
    start = rng.choice(LETTERS if rng.random() < 0.6 else LONGER)
    return (start + "".join(rng.choice(LATER) for _ in range(rng.choice((1, 2, 2, 3)))))[:14]


def single(rng):
    while True:
        kind = rng.random()
        maker = spliced_name if kind < 0.4 else joined_name if kind < 0.55 else pieced_name if kind < 0.9 else made_up_name
        name = rng.choice(NAMES) if kind < 0.2 else maker(rng)
        if len(name) > 1 and (name in NAMES or not made_up_name_out(name)):
            break
    kind = rng.random()
    if kind < 0.12:
        return name.lower()
    if kind < 0.18:
        return name.upper()
    if kind < 0.21:
        return name[:-1] + name[-1].upper()
    if kind < 0.24:
        return rng.choice(("Mc", "Mac", "O'", "De", "El", "D'")) + name
    return name


def any_name(rng):
    """One name, sometimes two or three joined, with digits, or in other letters."""
    kind = rng.random()
    if kind < 0.75:
        return single(rng)
    if kind < 0.85:
        return f"{single(rng)} {single(rng)}"
    if kind < 0.87:
        return f"{single(rng)}-{single(rng)} {single(rng)}"
    if kind < 0.89:
        return f"{single(rng)} {rng.choice(('von', 'van der', 'de la', 'al', 'ben', 'J.', 'M.'))} {single(rng)}"
    if kind < 0.93:
        return f"{single(rng)}-{single(rng)}"
    if kind < 0.96:
        return single(rng) + str(rng.randrange(rng.choice((10, 100))))
    if kind < 0.975:
        return "".join(rng.choice("ABCDEFGHJKLMNPRSTVXZ0123456789") for _ in range(rng.randint(2, 6)))
    start, end = rng.choice(((0x410, 0x44F), (0x4E00, 0x9FA0), (0x5D0, 0x5EA), (0x3B1, 0x3C9), (0xC0, 0x17E)))
    return "".join(chr(rng.randint(start, end)) for _ in range(rng.randint(2, 5)))


def telling(rng, name):
    text = rng.choice(GREETINGS) + rng.choice(TELL).format(n=name) + rng.choice(ENDS)
    return text[0].upper() + text[1:] if rng.random() < 0.6 and not text.startswith(name) else text


def asking(rng):
    if rng.random() < 0.25:
        text = f"{rng.choice(BEFORE)} {rng.choice(WITHIN)}"
        return text + rng.choice(("", "?" if text[0] in "CDHA" else ".")) if rng.random() < 0.7 else text.lower()
    lead, text = rng.choice(LEADS), rng.choice(ASK)
    text = lead + (text[0].lower() + text[1:] if lead else text)
    return text.rstrip("?.!") if rng.random() < 0.2 else text


def turns(rng, others, weights):
    """The user gives a name and asks for it later, often twice; `others` are makers of the turns between."""

    def between():
        return [rng.choices(others, weights)[0]() for _ in range(rng.choice((0, 0, 1, 1, 1, 2, 2, 3, 5)))]

    def hello():
        name = any_name(rng)
        return name, f"Hello {name}! What would you like to know?"

    if rng.random() < 0.07:
        return [*between(), (asking(rng), NOT_TOLD)]
    name, answer = hello()
    talk = [*(between() if rng.random() < 0.15 else ()), (telling(rng, name), answer)]
    if rng.random() < 0.25:
        return talk
    for _ in range(rng.choice((1, 1, 1, 2, 2))):
        talk += [*between(), (asking(rng), f"Your name is {name}.")]
        if rng.random() < 0.12:
            name, answer = hello()
            talk.append((rng.choice(CORRECTIONS).format(n=name), answer))
    return talk
