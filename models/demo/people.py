"""Names, real and made up, and conversations in which one is told and asked for again."""

from split import made_up_name_out
from words import NAMES

TELL = (
    "My name is {n}.", "I am {n}.", "Hello, I am {n}.", "Hi, my name is {n}.", "I'm {n}", "Call me {n}.", "my name is {n}", "i am {n}",
    "hi i'm {n}", "hello, my name is {n}", "Please call me {n}.", "You can call me {n}.", "The name is {n}.", "My name's {n}.",
    "{n} is my name.", "They call me {n}.", "Hello! I'm {n}.", "Hey, I am {n}!", "Good morning, my name is {n}.", "This is {n}.",
    "Hello, this is {n} speaking.", "Hi, {n} here!", "I am called {n}.", "Remember that my name is {n}.", "My name is {n}, please remember it.",
    "My name is {n}. What is yours?", "Hi, I'm {n} and I am new here.", "I'm {n}, nice to meet you!", "name: {n}", "im {n}", "My friends call me {n}.",
    "Hello qrun, my name is {n}.", "MY NAME IS {n}", "Hello, I'm {n}. How are you?", "Let me introduce myself: I am {n}.",
)
ASK = (
    "What is my name?", "What's my name?", "Do you know my name?", "Who am I?", "Tell me my name.", "what is my name", "whats my name?",
    "Do you remember my name?", "What was my name?", "And what is my name?", "Can you tell me my name?", "What am I called?", "who am i",
    "Have you forgotten my name?", "Say my name.", "Do you know who I am?", "What did I tell you my name was?", "So what is my name?",
    "what's my name", "My name?", "Please tell me my name.", "How am I called?",
)
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


def single(rng):
    while True:
        name = rng.choice(NAMES) if rng.random() < 0.3 else made_up_name(rng)
        if len(name) > 1 and (name in NAMES or not made_up_name_out(name)):
            break
    kind = rng.random()
    if kind < 0.12:
        return name.lower()
    if kind < 0.18:
        return name.upper()
    if kind < 0.22:
        return name[:-1] + name[-1].upper()
    return name


def any_name(rng):
    """One name, sometimes two joined, with digits, or in other letters."""
    kind = rng.random()
    if kind < 0.8:
        return single(rng)
    if kind < 0.9:
        return f"{single(rng)} {single(rng)}"
    if kind < 0.94:
        return f"{single(rng)}-{single(rng)}"
    if kind < 0.97:
        return single(rng) + str(rng.randrange(rng.choice((10, 100))))
    start, end = rng.choice(((0x410, 0x44F), (0x4E00, 0x9FA0), (0x5D0, 0x5EA), (0x3B1, 0x3C9), (0xC0, 0x17E)))
    return "".join(chr(rng.randint(start, end)) for _ in range(rng.randint(2, 5)))


def turns(rng, others):
    """The user gives a name and asks for it later; `others` are makers of the turns between."""
    name = any_name(rng)
    if rng.random() < 0.06:
        return [(rng.choice(ASK), NOT_TOLD)]
    talk = [(rng.choice(TELL).format(n=name), f"Hello {name}! What would you like to know?")]
    if rng.random() < 0.4:
        return talk
    talk += [rng.choices(others, (4, 6, 3, 3))[0]() for _ in range(rng.choice((0, 1, 1, 2)))]
    return talk + [(rng.choice(ASK), f"Your name is {name}.")]
