"""Small sums as people write them, and sums that are too hard and politely declined."""

from split import SIGNED_SUMS, kept_out

LEADS = (
    "What is ", "what is ", "What's ", "what's ", "whats ", "How much is ", "how much is ", "Calculate ", "calculate ", "Compute ",
    "calc ", "Work out ", "And ", "and ", "now ", "Give me ", "Tell me ", "Please add up ", "Can you do ", "Do you know ", "find ",
    "Hey, what's ", "so what is ", "quick: ", "I need ", "evaluate ", "Can you tell me what ", "math: ", "sum: ", "how about ",
    "Please tell me ", "Can you work out ", "What do I get for ", "Would you compute ", "the answer to ", "Hello, what is ",
    "What does ", "what does ", "Could you work out ", "Could you compute ", "Solve this: ", "calculate: ", "Let me know what ", "What do you get for ", "hi, ",
    "can you add up ", "please solve ", "add: ", "ok, ", "do ", "I wonder what ", "Is it true that you can do ", "If you know it, what is ", "compute ",
    "Would you calculate ", "Could you calculate ", "could you calculate ", "Now calculate ", "Let us calculate ", "Try to calculate ", "Help me calculate ",
    "I want you to calculate ", "hey, calculate ", "Hello, calculate ", "calculate for me: ", "calculate this: ", "Are you able to calculate ", "would you solve ", "Now solve ", "Let us do ",
    "Could you find ", "could you add up ", "Would you tell me what ", "What do you get if you do ", "what would be ", "Please find ", "Please work out ", "please answer ", "please evaluate ",
    "What comes out of ", "My question is ", "Next: ", "I would like to have ", "Show me ", "Then what is ", "One more: ", "And what about ", "Say what ", "Do you know what ", "can you say what ",
)
TAILS = (
    "?", "", "?", ".", " =", "=", " = ?", "=?", " =?", " = ", " please", ", please.", "?", " is?", " makes?", " is what?", "!", " gives?", "??",
    " give?", " make?", " come to?", " equals what?", " equals", " is equal to", " in total", " for me", " for me please", "... ", " right now?", " thanks",
)
VERBAL = (
    ("+", "Add {a} and {b}."), ("+", "add {a} to {b}"), ("+", "What is the sum of {a} and {b}?"), ("+", "the sum of {a} and {b}"),
    ("+", "How much is {a} and {b}?"), ("+", "{a} and {b} together?"), ("+", "If I add {a} and {b}, what do I get?"), ("+", "{a} and {b}"),
    ("-", "What is the difference of {a} and {b}?"), ("-", "What is left of {a} if I take away {b}?"), ("-", "Subtract {b} from {a}."),
    ("+", "What do you get if you add {a} and {b}?"), ("+", "What do you get when you add {a} to {b}?"), ("+", "{a} added to {b}"),
    ("+", "Put {a} and {b} together."), ("+", "{a} with {b} more"), ("-", "What do you get if you take {b} from {a}?"), ("-", "{a} without {b}"), ("-", "{a} reduced by {b}"),
    ("-", "What remains of {a} after {b} is taken away?"), ("-", "subtract {b} from {a}"), ("-", "take {b} from {a}"), ("-", "{a} less {b}"), ("-", "{a} take away {b}"),
)
POLITE = ("Please ", "please ", "Can you ", "can you ", "Could you ", "Would you ", "Now ", "now ", "Hello, ", "And now ", "Go and ", "Try to ", "You must ", "Let us ")
ASKED = ("work out ", "find ", "evaluate ", "give me ", "tell me ", "figure out ", "add up ", "try ", "answer ", "do the sum ", "show me ", "write down ")
WORDS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen "
    "nineteen twenty"
).split()
TOO_HARD = "I only add or subtract two whole numbers up to 99. A larger model can do more."


def sum_out(a, sign, b):
    """The sums that are only used to test."""
    return kept_out(f"{a}{sign}{b}", 12)


def sum_answer(a, sign, b):
    return f"{a} {sign} {b} = {a + b if sign == '+' else a - b}."


def framed(text, rng):
    """The sum with words before and after it, or nearly bare."""
    if rng.random() < 0.4:
        return text + rng.choice(("", "", "?", " = ?", "=", " =", "=?", " = ", "."))
    lead = rng.choice(POLITE) + rng.choice(ASKED) if rng.random() < 0.15 else rng.choice(LEADS)
    return lead + text + rng.choice(TAILS)


def operator(sign, rng):
    """A sign as it is typed: with and without spaces, as a word, as the dash of a typesetter."""
    kind = rng.random()
    if kind < 0.5:
        return f" {sign} "
    if kind < 0.75:
        return sign
    if kind < 0.8:
        return rng.choice((f"{sign} ", f" {sign}"))
    if sign == "-" and kind < 0.84:
        return rng.choice((" \u2212 ", " \u2013 ", "\u2212"))
    return " plus " if sign == "+" else " minus "


def signed_turn(rng):
    """A number added to a negative one, most often typed as nothing else: `-7 + 12` is answered as `12 - 7`."""
    top = rng.choices((100, 30, 20, 10), (5, 2, 2, 1))[0]
    a, b = rng.randrange(1, top), rng.randrange(top)
    if sum_out(b, "-", a) or f"-{a}+{b}" in SIGNED_SUMS:
        return signed_turn(rng)
    minus = "-" if rng.random() < 0.85 else rng.choice(("\u2212", "\u2013", "minus ", "- "))
    text = f"{minus}{a}{operator('+', rng)}{b}"
    bare = ("", "", "", " = ?", " =", "=", "?", "=?", " = ")
    return text + rng.choice(bare) if rng.random() < 0.5 else framed(text, rng), sum_answer(b, "-", a)


def turn(rng):
    """A sum of two numbers and its result."""
    if rng.random() < 0.2:
        return signed_turn(rng)
    while True:
        top = rng.choices((100, 30, 10), (8, 1, 1))[0]
        a, b, sign = rng.randrange(top), rng.randrange(top), rng.choice("+--")
        if sign == "-" and a < b and rng.random() < 0.15:
            a, b = b, a
        if not sum_out(a, sign, b):
            break
    kind = rng.random()
    if kind < 0.07:
        forms = [form for of, form in VERBAL if of == sign]
        return rng.choice(forms).format(a=a, b=b), sum_answer(a, sign, b)
    if kind < 0.1:
        a, b = a % 21, b % 21
        if sum_out(a, sign, b):
            return turn(rng)
        text = WORDS[a] + (" plus " if sign == "+" else " minus ") + WORDS[b]
        text = framed(text, rng)
        return text if rng.random() < 0.6 else text.capitalize(), sum_answer(a, sign, b)
    return framed(f"{a}{operator(sign, rng)}{b}", rng), sum_answer(a, sign, b)


def large(rng):
    return rng.randrange(100, 10 ** rng.choices((3, 4, 5, 7), (5, 3, 1, 1))[0])


def small(rng):
    return rng.randrange(rng.choice((10, 100)))


def many_terms(rng):
    """Three terms or more, which must not be taken for the sum of the first two."""
    count, gap, signs = rng.choice((3, 3, 3, 3, 4, 5)), rng.choice(("", "", " ")), rng.choice(("+", "+", "+", "-", "+-", "+-*"))
    terms = [str(small(rng))] * count if rng.random() < 0.25 else [str(small(rng)) for _ in range(count)]
    kind = rng.random()
    if kind < 0.86:
        return terms[0] + "".join(gap + rng.choice(signs) + gap + term for term in terms[1:])
    if kind < 0.93:
        return rng.choice((" plus ", " and ", " minus ")).join(terms)
    return rng.choice(("the sum of ", "add ", "")) + ", ".join(terms[:-1]) + " and " + terms[-1]


def with_letters(rng):
    """`a + b`, `2x - y`, `x + 4 = 9`: letters where numbers are expected."""
    letter = lambda: rng.choice(("", "", "", "2", "3")) + rng.choice("abcdefghmnpqrstuvwxyz")
    pair = rng.choice(((letter(), letter()), (letter(), small(rng)), (small(rng), letter())))
    text = rng.choice("+-+-*").join(map(str, pair)) if rng.random() < 0.3 else rng.choice((" + ", " + ", " - ", " * ")).join(map(str, pair))
    return text + (f" = {small(rng)}" if rng.random() < 0.2 else "")


def hard_turn(rng):
    """Large numbers, many terms, other operations: declined."""
    kind, sign = rng.random(), rng.choice("+-")
    if kind < 0.27:
        pair = rng.choice(((large(rng), large(rng)), (large(rng), small(rng)), (small(rng), large(rng))))
        text = f"{pair[0]}{operator(sign, rng)}{pair[1]}"
    elif kind < 0.62:
        text = many_terms(rng)
    elif kind < 0.84:
        word = rng.choice(("*", " * ", " x ", "x", " times ", " times ", "/", " / ", " divided by ", " multiplied by ", "^", " mod ", " % ", " ** ", ":", " : "))
        text = f"{small(rng)}{word}{small(rng)}"
    elif kind < 0.88:
        text = f"{small(rng)}.{rng.randrange(1, 10)}{operator(sign, rng)}{small(rng)}" + (f".{rng.randrange(10)}" if rng.random() < 0.6 else "")
    elif kind < 0.9:
        negative = f"-{rng.randrange(1, 100)}"
        text = rng.choice((f"{small(rng)}{operator(sign, rng)}{negative}", f"-{large(rng)}{operator(sign, rng)}{small(rng)}", f"{negative}{operator('-', rng)}{small(rng)}"))
    elif kind < 0.93:
        text = with_letters(rng)
    elif kind < 0.965:
        forms = ("{a}% of {b}", "{a} percent of {b}", "the square root of {a}", "sqrt({a})", "{a} squared", "half of {a}", "twice {a}", "{a}!", "sin({a})", "log({a})")
        text = rng.choice(forms).format(a=small(rng), b=small(rng))
    else:
        a, b, c = small(rng), small(rng), small(rng)
        text = rng.choice((f"({a} + {b}) * {c}", f"{a} * ({b} - {c})", f"({a}-{b})/{c}", f"({a} + {b}) - {c}"))
    return framed(text, rng), TOO_HARD
