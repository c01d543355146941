"""Messages that have nothing to do with qrun, and words to say again."""

from people import spliced_name
from rough import typed
from words import NAMES, OFF_TOPIC, PLACES, QUALITIES, THINGS, VERBS

UNKNOWN = "I do not know that, because I am a very small model. Ask me about qrun, for a story or for a small sum."

CODE = "Python|Java|C|Go|JavaScript|Perl|shell|SQL|HTML|Lua|PHP|Haskell|C#|Fortran|assembly|code|a program|software".split("|")

# {l} a programming language, {x} a thing, {y} another, {v} a verb, {p} a place or time, {q} a quality, {n} a name, {k} a number.
FORMS = (
    "What is {x}?", "Tell me about {x}.", "Explain {x}.", "What do you know about {x}?", "Who invented {x}?",
    "How does {x} work?", "Why is there {x}?", "Can you explain {x}?", "Describe {x}.", "What does {x} mean?",
    "Where can I buy {x}?", "Do you like {x}?", "Write a poem about {x}.", "Give me facts about {x}.", "{x}?", "{x}",
    "What is the history of {x}?", "How do I make {x}?", "Write an essay about {x}.", "What is the price of {x}?",
    "What's {x}?", "what is {x}", "whats {x}", "tell me about {x}", "Who is {x}?", "Who was {x}?", "Where is {x}?", "When was {x} invented?",
    "Is {x} {q}?", "Why is {x} {q}?", "How {q} is {x}?", "Is {x} better than {y}?", "Which is {q}, {x} or {y}?", "Compare {x} and {y}.",
    "What is the difference between {x} and {y}?", "Do you know {x}?", "Have you seen {x}?", "Have you heard of {x}?", "I like {x}.", "I love {x}.",
    "I hate {x}.", "I want {x}.", "I need {x}.", "I have {x}.", "Give me {x}.", "Show me {x}.", "Draw {x}.", "Find {x}.", "Buy {x} for me.",
    "Write about {x}.", "Write a haiku about {x}.", "Write a song about {x} and {y}.", "Write a letter about {x}.", "Sing about {x}.",
    "Write a {l} program that can {v} {x}.", "Write a {l} function that can {v} {x}.", "Write a {l} script.", "Show me a {l} program.",
    "Can you write {l}?", "Do you know {l}?", "Can you {v} in {l}?", "How do I {v} {x} in {l}?", "Is {l} better than {l}?", "Write a function that can {v} {x}.", "Write code to {v} {x}.", "Write a script for {x}.",
    "How do I {v} {x}?", "How do you {v} {x}?", "Can I {v} {x}?", "Can you {v} {x}?", "Should I {v} {x} {p}?", "Why do people {v} {x}?",
    "When should I {v}?", "Where can I {v} {p}?", "What happens if I {v} {x}?", "Is it {q} to {v} {p}?", "Do dogs {v} {p}?", "Can cats {v}?",
    "Why do birds {v} {p}?", "Does {n} {v} {p}?", "Who can {v} {x}?", "How long does it take to {v} {x}?", "How often should I {v}?",
    "How many {q} things are there?", "How many people {v} {p}?", "How many legs has {x}?", "How many {v}s are in {k} days?", "What colour is {x}?",
    "What is the {q}est thing in the world?", "What is the capital of {x}?", "Who is the president of {x}?", "Who is the king of {x}?",
    "What is the best {x}?", "What is your favourite {q} thing?", "What do you think of {x}?", "What is your opinion on {x}?", "Why not {x}?",
    "What is the meaning of {x}?", "What is {x} made of?", "What is inside {x}?", "What comes after {x}?", "What is wrong with {x}?",
    "Name {k} kinds of {x}.", "List {k} facts about {x}.", "Give me {k} ideas about {x}.", "Summarize {x}.", "Translate {x}.", "Spell {x}.",
    "{n} likes {x}.", "{n} and {n} {v} {p}.", "My {q} friend wants to {v} {p}.", "The {q} man will {v} {x}.", "It is {q} {p}.", "We {v} {p}.",
    "You should {v} {x}.", "Let us {v} {p}.", "Please {v} {x}.", "{v} {x}", "{v} the {q} one {p}", "I will {v} {p}.", "I think {x} is {q}.",
    "I believe that {x} can {v}.", "I have {k} apples and {n} has {k}.", "If I {v} {x}, will it {v}?", "Imagine {x} {p}.", "Pretend to be {x}.",
    "Act as {x}.", "You are {x}.", "Talk like {x}.", "Answer as if you were {x}.", "Are you {x}?", "Is this {x}?", "Was {x} {q} in {k}?",
    "What happened in {k}?", "What will happen {p}?", "In which year was {x} born?", "How old is {x}?", "How {q} was {n} {p}?", "Where does {x} live?",
    "Recommend {x}.", "I am looking for {x}.", "I am in {x}.", "I am from {x}.", "I am {q}.", "I feel {q} {p}.", "He is {q}.", "Why are you {q}?",
    "Explain {x} to a child.", "explain {x} like i am a child", "Teach me {x}.", "I want to learn {x}.", "Help me with {x}.", "Help me {v} {x}.",
    "Can you help me {v} {p}?", "Ignore that and {v} {x}.", "Hey, {v} {x} for me", "Okay model, {v} {p}!",
)
SYMBOLS = "(){}[];:=<>+*/&|!'\"_.,#$%"
LETTERS = "abcdefghijklmnopqrstuvwxyz"
NAMES_OF_CODE = "foo x y i n data value self result print return if for while def fn let var int string list main test class new import".split()


def nonsense(rng):
    """A word that does not exist, or keys that were hit at random."""
    if rng.random() < 0.5:
        return "".join(rng.choice(LETTERS) for _ in range(rng.randint(2, 12)))
    return "".join(rng.choice("bcdfghjklmnpqrstvwxz") + rng.choice("aeiouy") for _ in range(rng.randint(1, 4))) + rng.choice(("", "s", "n", "x", "r"))


def thing(rng):
    kind = rng.random()
    if kind < 0.6:
        return rng.choice(THINGS)
    if kind < 0.7:
        return rng.choice(NAMES) + rng.choice(("", " " + rng.choice(NAMES)))
    word = nonsense(rng)
    return rng.choice(("a ", "the ", "", "", "")) + (word.capitalize() if rng.random() < 0.4 else word)


def from_form(rng):
    text = rng.choice(FORMS)
    while "{" in text:
        at = text.index("{")
        slot = text[at + 1]
        word = {
            "x": lambda: thing(rng), "y": lambda: thing(rng), "v": lambda: rng.choice(VERBS), "p": lambda: rng.choice(PLACES),
            "q": lambda: rng.choice(QUALITIES), "n": lambda: rng.choice(NAMES), "l": lambda: rng.choice(CODE), "k": lambda: str(rng.randrange(2, 2100)),
        }[slot]()
        text = text[:at] + word + text[at + 3 :]
    return text[0].upper() + text[1:] if rng.random() < 0.8 else text


def salad(rng):
    """Words without sense, as someone types to see what happens."""
    pool = (VERBS, QUALITIES, NAMES, [part.split()[-1] for part in THINGS])
    words = [nonsense(rng) if rng.random() < 0.3 else rng.choice(rng.choice(pool)) for _ in range(rng.randint(1, 7))]
    return " ".join(words) + rng.choice(("", "", "?", ".", "!"))


def code(rng):
    parts = []
    for _ in range(rng.randint(3, 12)):
        parts.append(rng.choice(NAMES_OF_CODE) if rng.random() < 0.5 else rng.choice(SYMBOLS))
    return rng.choice((" ", "", "")).join(parts)


def turn(rng):
    kind = rng.random()
    if kind < 0.33:
        text = typed(rng.choice(OFF_TOPIC), rng)
    elif kind < 0.85:
        text = typed(from_form(rng), rng)
    elif kind < 0.95:
        text = salad(rng)
    else:
        text = code(rng)
    return text, UNKNOWN


REPEAT = (
    "Repeat: {x}", "Repeat after me: {x}", "Say {x}", "say {x}", "Say: {x}", "Say the word {x}.", "Echo {x}", "repeat {x}", "Please say {x}.",
    "Can you say {x}?", "Please repeat: {x}", "Copy this: {x}", "Repeat this word: {x}.", "echo {x}", "repeat after me: {x}", "say after me: {x}",
)


def repeat_turn(rng):
    """Words to say again: nothing teaches copying with fewer tokens, and names need it."""
    makers = (lambda: nonsense(rng), lambda: spliced_name(rng).lower(), lambda: rng.choice(rng.choice((NAMES, VERBS, QUALITIES))))
    words = [rng.choice(makers)() for _ in range(rng.choice((1, 1, 2, 3, 4, 6)))]
    if rng.random() < 0.2:
        words = [word.capitalize() for word in words]
    text = " ".join(words)
    return rng.choice(REPEAT).format(x=text), text
