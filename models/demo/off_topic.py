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
    "I lost my {x}.", "I lost {x} {p}", "I found {x} {p}.", "My {x} is {q}", "My {x} is {q} to me.", "My friend is {q} to me", "How do I get to {x}?",
    "How do I get {x}?", "How do I lose {x}?", "How far is {x}?", "I {v} therefore I {v}.", "{v} or {v}, that is the question",
    "Hey {n}, {v} {x}", "Ask {n} to {v} {x}", "Call {n}", "Play {x}", "Turn on {x}", "What is {q} {x}?", "What is {q} {v}ing?",
    "I need some {x} here", "I need some {x}", "I want some {x} here", "I need a {q} {x} here", "Can you give me {x}?", "can you give me some {x}",
    "Could you lend me {x}?", "Give me some {x}",
    "There is some {x} here", "I need to {v} here", "I need to {v} some {x}", "Here is {x}", "Here are my {x}", "We need {x} here",
    "Write a short poem about {x}", "Write me a poem about {x} and {y}",
    "Write a poem about my {q} {x}", "Write a poem about {x} {p}", "Write a {q} poem about {x}", "Write a {q} song about {x} {p}",
    "Write a letter to {n} about {x}", "Write a note to {n}", "Write {k} words about {x} {p}",
)
# Something to do with what follows after a colon, in quotes or on the next line. {w} words, {s} a sentence, {l} a line of a program.
ORDERS = (
    "sort|order|arrange|reverse|count|list|group|compare|check|spell|translate|define|explain|describe|shuffle|mix|read|rate|swap|filter|"
    "choose from|connect|number|mark|underline|rhyme|guess|"
    "split|join|look at|pick from|tell me about|write down|improve|change|clean up|find|think about|use|draw|sing|pronounce|encode|decode|"
    "categorize|match|combine|merge|analyze|judge|quote"
).split("|")
EDITS = (
    "translate|correct|fix|rewrite|shorten|summarize|explain|continue|complete|improve|check|proofread|simplify|paraphrase|expand|finish|edit|"
    "format|change|rephrase|repair|analyze|review|judge|read|analyse|"
    "make sense of|find the mistake in|tell me what you think of|turn around|clean up|count the words in|count the letters in|find the verb in|"
    "find the noun in|mark the verbs in|put into French|make a question of|answer"
).split("|")
REPAIRS = (
    "fix|debug|run|explain|improve|correct|check|review|execute|test|translate|optimize|complete|continue|finish|rewrite|shorten|repair|format|"
    "compile|understand|document|refactor|evaluate|simplify|port|read|try"
).split("|")
OF_WORDS = (
    "these words|the words|these|the following words|the following|this list|these items|these names|these things|my list|the list|these numbers|"
    "these letters|these places|these animals|all of these|my words|those words|this"
).split("|")
OF_SENTENCES = (
    "this sentence|this|the sentence|this text|the following sentence|the following text|the text|my sentence|my text|this line|this phrase|"
    "this paragraph|the following|this message|this title|this email|this question"
).split("|")
OF_CODE = (
    "this code|this|my code|this program|the following code|this line|this script|the code|this function|my program|this snippet|the program|"
    "this bug|this error|this Python code|this line of code"
).split("|")
MANNERS = (
    "", "", "", "", "", "", " by length", " by size", " by name", " from A to Z", " in order", " backwards", " for me", " please", " again", " now",
    " in {k} words", " as a table", " by colour", " to {g}", " into {g}", " in {g}", " in one sentence",
    " in simple words", " from large to small", " and tell me why", " by date", " in capitals", " politely", " quickly",
)
TONGUES = "French|German|Spanish|Dutch|Latin|Polish|Greek|Chinese|Russian|Swedish|English|Turkish|Arabic|Portuguese".split("|")
WHICH = (
    "Which of these is {q}: {w}?", "Which one is {q}: {w}", "What do these mean: {w}", "Which word does not belong: {w}",
    "What is the longest of these words: {w}", "Make a sentence with {w}", "Use {w} in a sentence.",
    "How many words are these: {w}", "What comes next: {w}", "I have {w}. What can I cook?", "My list: {w}", "Buy {w}", "I like {w}.", "{w}", "{w}",
    "{w}?", "Here: {w}", "Choose one: {w}", "Choose: {w}", "Shopping list: {w}", "What have {w} in common?",
    "{n}, {n} and {n} {v} {p}.", "Tell me the difference: {w}", "Put in order: {w}", "Sort: {w}", "Order: {w}", "Sort {w}", "Words: {w}",
    "Items: {w}", "Take these: {w}", "Find a word that rhymes with these: {w}",
    "What is wrong here: {s}", "Is this correct: {s}", "Is this right: {s}", "Say this in other words: {s}", "What does this mean: {s}",
    "Who said this: {s}", "Translate: {s}", "Translate {s}", "translate '{s}' to {g}", "How do I say '{s}' in {g}?",
    "Correct: {s}", "Fix: {s}", "Text: {s}", "Summary of this: {s}", "Translation of this: {s}", "Put this into {g}: {s}", "{g} translation: {s}",
    "How many letters has this: {s}", "Is there a mistake in this: {s}", "Read: {s}", "Write this in {g}: {s}",
)
WHICH_CODE = (
    "{l}", "{l}", "{l}", "{l}", "What does this do: {l}", "What does this code do: {l}", "What is wrong here: {l}", "Is this right: {l}",
    "Why does this not work: {l}", "What is the output of this: {l}", "Output of {l}", "{l} does not work", "My code: {l}",
    "Code: {l}", "I wrote this: {l}", "Write this in {c}: {l}", "What does {l} mean?", "Error in this line: {l}", "How do I fix {l}", "I typed {l}",
    ">>> {l}", "$ {l}", "What language is this: {l}", "Fix: {l}", "Run: {l}", "Execute: {l}",
)
LINES = (
    "print({t})", "print({t})", "print({t})", "print({t})", "print({k})", "print({i})", "print({i} + {k})", "print({t}, {i})", "print {t}",
    "Print({t})", "println({t})", "echo {t}", "printf({t});", "puts {t}", "puts({t})",
    "console.log({t})", "console.log({t});", "console.log({i});", "System.out.println({t});", "fmt.Println({t})", "std::cout << {t};",
    "cout << {t} << endl;", "println!({t});", "alert({t})", "alert({t});", "write({t})", "document.write({t});", "print({t}",
    "{i} = {k}", "{i} = {t}", "let {i} = {k};", "let {i} = {t};", "var {i} = {t};", "int {i} = {k};", "char {i}[] = {t};", "const {i} = {t};",
    "String {i} = {t};", "{i} = {i} + {k}", "{i} += {k}", "return {i};", "return {i} * {k}", "{i}({k})", "{i}({t})",
    "for {i} in range({k}): print({i})", "for {i} in range({k}) print({t})", "while {i} < {k}: {i} += 1", "while True: print({t})",
    "if {i} > {k}: print({t})", "if {i} == {t}: return", "if ({i} > {k}) {{ {i}(); }}", "for (int {i} = 0; {i} < {k}; {i}++) {{}}",
    "def {i}({i}): return {i}", "def {i}(): print({t})", "fn {i}() {{ println!({t}); }}", "function {i}() {{ return {k}; }}",
    "int main() {{ printf({t}); }}", "class {i}: pass", "import {i}", "from {i} import {i}", "#include <{i}.h>", "use {i};",
    "SELECT {i} FROM {i};", "SELECT * FROM {i} WHERE {i} = {t};", "INSERT INTO {i} VALUES ({k});", "UPDATE {i} SET {i} = {k};", "cat {i}.txt",
    "cd {i}", "rm {i}.txt", "grep {i} {i}.txt", "mkdir {i}", "python {i}.py", "git add {i}", "sudo {i}", "cp {i} {i}",
    "<p>{u}</p>", "<b>{u}</b>", "<title>{u}</title>", "<a href={t}>{u}</a>", "{{{t}: {k}}}", "[{k}, {k}, {k}]", "[{t}, {t}]", "{i}: {t}",
    "assert {i} == {k}", "try: {i}()", "raise {i}({t})", "input({t})", "len({t})", "{t}.upper()", "{i}.append({k})", "# {u}", "// {u}",
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


def some_words(rng):
    """A list as it is typed: of one kind or of any, with commas most often."""
    pools = (NAMES, VERBS, QUALITIES, [part.split()[-1] for part in THINGS], THINGS)
    pool = rng.choice(pools)
    kind = rng.random()
    if kind < 0.7:
        maker = lambda: rng.choice(pool)
    elif kind < 0.78:
        maker = lambda: rng.choice(rng.choice(pools))
    elif kind < 0.9:
        maker = lambda: str(rng.randrange(rng.choice((10, 100, 1000))))
    else:
        maker = lambda: nonsense(rng)
    words = [maker() for _ in range(rng.choice((2, 3, 3, 3, 4, 4, 5, 6, 8)))]
    if any(word.isdecimal() for word in words):
        # Two numbers may be a sum: three at least, with no word between them.
        return rng.choice((", ", ", ", ", ", ",", " ", "; ")).join([*words, words[0]])
    if rng.random() < 0.15:
        return ", ".join(words[:-1]) + " and " + words[-1]
    return rng.choice((", ", ", ", ", ", ", ", ", ", ",", " ", " ", "; ", "\n", " / ", " and ", " or ")).join(words)


def sentence(rng):
    kind = rng.random()
    if kind < 0.3:
        return rng.choice(OFF_TOPIC)
    if kind < 0.5:
        return from_form(rng)
    noun = lambda: rng.choice(("the ", "a ", "my ", "our ", "his ")) + rng.choice(("", "", rng.choice(QUALITIES) + " ")) + rng.choice(THINGS).split()[-1]
    verb = lambda: rng.choice(VERBS) + rng.choice(("", "s", "ed", "ing"))
    parts = rng.choice((
        (noun(), verb(), rng.choice(PLACES)), (noun(), verb(), noun()), (rng.choice(NAMES), verb(), noun(), rng.choice(PLACES)),
        (noun(), "is", rng.choice(QUALITIES)), ("I", verb(), noun(), "and", noun()),
    ))
    text = " ".join(parts)
    return (text[0].upper() + text[1:] if rng.random() < 0.7 else text) + rng.choice((".", ".", "", "!"))


GREETED = "Hello|hello|Hi|hi|Hey|Good day|Welcome|Bye|Thanks|test|Hello there|yes|ok|My name is|I am|name".split("|")


def string(rng):
    """What stands in the strings of small programs."""
    kind = rng.random()
    if kind < 0.3:
        text = rng.choice(GREETED)
        if rng.random() >= 0.75:
            return text
        text += rng.choice(("", " ", ", ", " "))
        return text + rng.choice((rng.choice(NAMES), rng.choice(THINGS).split()[-1].capitalize(), rng.choice(QUALITIES)))
    if kind < 0.5:
        return sentence(rng).replace("'", "").replace('"', "")
    return " ".join(rng.choice((nonsense(rng), rng.choice(VERBS), rng.choice(QUALITIES), rng.choice(NAMES))) for _ in range(rng.choice((1, 1, 2, 3))))


def line(rng):
    """A line of a program, sometimes two."""
    quote = rng.choice("''\"")
    name = lambda: rng.choice(NAMES_OF_CODE) if rng.random() < 0.6 else rng.choice((nonsense(rng), rng.choice(VERBS), rng.choice(LETTERS)))
    makers = {"t": lambda: quote + string(rng) + quote, "u": lambda: string(rng), "k": lambda: str(rng.randrange(rng.choice((10, 100)))), "i": name}
    text = rng.choice(LINES).replace("{{", "\0").replace("}}", "\1")
    while "{" in text:
        at = text.index("{")
        made = makers[text[at + 1]]().replace("{", "(").replace("}", ")")
        text = text[:at] + made + text[at + 3 :]
    text = text.replace("\0", "{").replace("\1", "}")
    if rng.random() < 0.15:
        text = text[:-1]
    return text + rng.choice(("; ", "\n")) + line(rng) if rng.random() < 0.08 else text


def filled(text, rng, more):
    """The form with its slots filled, and `more` after it, whose braces stay."""
    while "{" in text:
        at = text.index("{")
        makers = {
            "k": lambda: str(rng.randrange(2, 100)), "g": lambda: rng.choice(TONGUES), "q": lambda: rng.choice(QUALITIES),
            "n": lambda: rng.choice(NAMES), "v": lambda: rng.choice(VERBS), "p": lambda: rng.choice(PLACES), "c": lambda: rng.choice(CODE),
            "w": lambda: some_words(rng), "s": lambda: sentence(rng), "l": lambda: line(rng),
        }
        text = text[:at] + makers[text[at + 1]]().replace("{", "\0") + text[at + 3 :]
    return (text + more).replace("\0", "{")


def order(rng, of_code):
    """Something to do with words, with a sentence or with a line of a program."""
    verbs, objects, maker = (REPAIRS, OF_CODE, line) if of_code else rng.choice(((ORDERS, OF_WORDS, some_words), (EDITS, OF_SENTENCES, sentence)))
    if rng.random() < (0.6 if of_code else 0.4):
        text = filled(rng.choice(WHICH_CODE if of_code else WHICH), rng, "")
    else:
        lead = rng.choice(("", "", "", "", "Please ", "please ", "Can you ", "Could you ", "Now ", "I want you to ", "Help me to ", "Hey, ", "You must "))
        text = lead + rng.choice(verbs) + " " + rng.choice(objects)
        text += rng.choice(MANNERS if not of_code else ("", "", "", " for me", " please", " in {k} words"))
        made = maker(rng)
        quote = rng.choice(("", "", "", "", "'", '"'))
        text = filled(text, rng, rng.choice((": ", ": ", ": ", ": ", ":\n", "\n", " ", "? ", ", ", " - ")) + quote + made + quote)
    case = rng.random()
    return text[0].upper() + text[1:] if case < 0.65 else text.lower() if case < 0.75 else text


def turn(rng):
    kind = rng.random()
    if kind < 0.26:
        text = typed(rng.choice(OFF_TOPIC), rng)
    elif kind < 0.6:
        text = typed(from_form(rng), rng)
    elif kind < 0.67:
        text = salad(rng)
    elif kind < 0.71:
        text = code(rng)
    else:
        text = order(rng, kind > 0.88)
    return text, UNKNOWN


REPEAT = (
    "Repeat: {x}", "Repeat after me: {x}", "Say {x}", "say {x}", "Say: {x}", "Say the word {x}.", "Echo {x}", "repeat {x}", "Please say {x}.",
    "Can you say {x}?", "Please repeat: {x}", "Copy this: {x}", "Repeat this word: {x}.", "echo {x}", "repeat after me: {x}", "say after me: {x}",
    "Repeat these words: {x}", "Repeat the following: {x}", "repeat this: {x}", "Say these words: {x}", "Echo this: {x}", "Please copy: {x}",
)


def repeat_turn(rng):
    """Words to say again: nothing teaches copying with fewer tokens, and names need it."""
    makers = (lambda: nonsense(rng), lambda: spliced_name(rng).lower(), lambda: rng.choice(rng.choice((NAMES, VERBS, QUALITIES))))
    words = [rng.choice(makers)() for _ in range(rng.choice((1, 1, 2, 3, 4, 6)))]
    if rng.random() < 0.2:
        words = [word.capitalize() for word in words]
    text = rng.choice((" ", " ", " ", " ", ", ")).join(words)
    return rng.choice(REPEAT).format(x=text), text
