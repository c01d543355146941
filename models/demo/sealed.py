"""What is asked once, after the training: written before it, and never looked at while the data was mixed.

The lists have the names of those in unseen.py, and the generator drops what they contain in the same way. Once they have
been asked they are read: for the next training they move to unseen.py, and new ones are written here.
"""

PEOPLE = (
    "Clementine Dagmar Efua Octavio Henrietta Tomasz Rukmini Gideon Annika Beauregard Chukwuemeka Desdemona Florentin "
    "Gwyneth Hyacinth Iolanthe Jadwiga Keziah Leandro Mirabel Nadezhda Oberon Parvati Quincy Ruaridh Sigrid Teodora "
    "Umberto Vasilisa Winifred Xanthe Yaroslav Zenobia Legolas Mycroft McDuff O'Malley Marie-Claire C3PO edgar RUPERT"
).split()
WHOLE_NAMES = ("Dorothy Vaughan", "Evariste Galois", "Srinivasa Ramanujan", "Tycho Brahe", "Johannes Kepler", "Jean-Luis Borges")

TELLING = (
    "Feel free to call me {n}.", "hello, name's {n}", "I'm {n}, by the way.", "Good morning! I'm {n}.", "Hello, it's {n} again.", "My name would be {n}.",
    "They all know me as {n}.", "the user's name is {n}",
)
ASKING = ("Tell me again what my name is.", "do you recall who I am", "What is the name I gave you?", "please, what's my name?", "Now what was my name?")
BETWEEN = (
    (), ("What is a kernel?",), ("52 - 17",), ("Tell me a story about a fox.",), ("Who invented the piano?",), ("thanks", "What is mmap?"),
    ("Tell me a joke.", "18 + 65"), ("how are you", "What is a GPU?", "Tell me a story about an owl."),
)

SUMMING = (
    "{a} {o} {b} ... ?", "hi! {a} {o} {b}", "Can you figure out {a} {o} {b}?", "what will {a} {o} {b} be", "I have to know {a}{o}{b}", "Quickly: {a} {o} {b}!",
    "{a} {o} {b} = ? please", "So {a} {o} {b} is?", "please do {a} {o} {b}", "And {a}{o}{b}?",
)
SIGNED_SUMMING = ("{a} {o} {b}", "{a}{o}{b}", "{a} {o} {b} =", "what's {a} {o} {b}", "Please do {a} {o} {b}.", "{a} {o} {b} is?")
SIGNED_SUMS = ("-8 + 15", "-3 + 9", "-20 + 5", "-6+6")
TOO_HARD_SUMS = (
    "6+6+6+6", "2 + 4 + 9", "12+13+14", "What is 5+2+2?", "80 - 20 - 10", "what is 1 + 5 + 9 + 3?", "4 + 8 - 3 = ?", "what's 8 times 4",
    "13 x 9", "200 + 350", "720-215", "5000+55", "How much is 16 times 2?", "72 / 8 = ?", "6.5 + 3", "10% of 90", "4 ** 2", "sqrt(25)",
    "(7 + 2) * 3", "105 + 2", "2000 - 9", "a + 4 = 9", "-3 - 9",
)

OTHER_SCRIPTS = (
    "你能帮我吗？", "今天是星期几？", "二加三是多少？", "お元気でしょうか", "冗談を言って", "도와줄 수 있어요?", "지금 몇 시예요?", "Сколько тебе лет?", "Напиши стихотворение",
    "Какая сегодня погода?", "كم عمرك؟", "قل لي نكتة", "מה השעה?", "मेरी मदद करो", "आपका नाम क्या है?", "คุณช่วยฉันได้ไหม", "Πού είναι η Αθήνα;", "Як тебе звати?",
    "ᎣᏏᏲ", "ഇത് എന്താണ്?",
)
EMOJI = ("😴", "🙈🙉🙊", "🌶️", "🎸!", "🦉", "🧩🧩", "🇰🇷🇨🇦", "(ᵔᴥᵔ)", "⚡", "✨✨✨")
OTHER_LANGUAGES = (
    "Was machst du gerne?", "Woher kommst du?", "Wo wohnst du denn?", "Sag mir bitte etwas Nettes.", "Quel est ton métier ?", "D'où viens-tu ?",
    "Peux-tu chanter une chanson ?", "¿De dónde eres?", "¿Qué hora es?", "Necesito tu ayuda, por favor.", "Di dove sei?", "Raccontami una barzelletta.", "Onde você mora?",
    "Waar kom je vandaan?", "Var kommer du ifrån?", "Skąd jesteś?", "Nerelisin?", "Mistä sinä tulet?",
)
OFF_TOPIC_QUESTIONS = (
    "capital of Portugal?", "who painted Water Lilies", "What is the area of Sweden?", "write me a story in rhymes about the sea",
    "Write a Ruby program that sorts words.", "how do I fry fish", "Will there be snow on Friday?", "Who was Cleopatra of Egypt?", "Plan my weekend in Vienna.",
    "explain the stock market", "Tell me about hedgehogs.", "how hot is Mercury", "Which bird is the largest?", "Who wrote War and Peace?",
    "best camera for beginners?", "What is the symbol of silver?", "Translate 'thank you' into Polish.", "Correct the grammar of my email.",
    "What series should I watch?", "how old is the Great Pyramid", "I burnt my hand.", "My colleague is rude to me.", "write my thesis for me", "Order a pizza for two.",
    "What day is tomorrow?", "Remind me to drink at noon.", "Open the garage for me.", "Which word means tree in Greek?", "Pass me the salt.",
    "DROP TABLE books;", "return n * 2;", "grep -r todo src | wc -l", "What does obsolete mean?", "Name a tool.", "Who is faster, a horse or a cheetah?",
    "Is gold heavier than lead?", "why are leaves green", "The shop was closed.", "I saw a rainbow today.", "What is the moral of Cinderella?",
)
INSULTS = ("you are the worst bot I know", "what a silly machine", "you understand nothing", "that answer was rubbish", "I am annoyed with you", "dumb machine")
PRAISE = ("you are doing well", "what a fine reply that was", "nicely said", "you are a smart little model", "that answer was neat", "good, I liked that")
HELLOS = (
    "hello kind machine", "hi there, good to meet you", "ah, hello", "hello lovely bot", "hi hello hey", "good evening to you all", "hello from Finland",
    "hey, it is me again", "hello my dear model", "Hello planet",
)
ODD = ("wert", "test one two", "xyxyxy", "eeeeee", "?!??", "<~~", "uhm no", "yep yep", "oh okay", "uhuh yes", "only looking", "91", "_ _ _", "hmmm right", "pfff", "blah blah blah")

# Question, what one of must be said, what must not be said: the first things that strangers type, in words not learnt.
SELF = ("I am the demo model of qrun",)
FIRST = (
    ("hello, what am I talking to?", SELF, ()), ("and you are who?", SELF, ()), ("just say who you are", SELF, ()),
    ("what do people call you then?", SELF, ()), ("do you go by a name?", SELF, ()), ("wat r you", SELF, ()), ("what model is answering me?", SELF, ()),
    ("well hey, who might you be?", SELF, ()), ("what things are you able to do?", ("I can answer questions",), ()), ("what all can you do", ("I can answer questions",), ()),
    ("so what can you help with?", ("I can answer questions",), ()), ("would you help me please", ("I can answer questions",), ()),
    ("a bit of help would be nice", ("I can answer questions",), ()), ("what am i allowed to ask you", ("I can answer questions",), ()),
    ("which questions can you answer?", ("I can answer questions",), ()), ("what should i type here", ("I can answer questions",), ()),
    ("thank you dear model", ("welcome",), ()), ("thanks, that was useful", ("welcome",), ()), ("great, many thanks", ("welcome",), ()),
    ("bye, till tomorrow", ("Goodbye",), ()), ("i wish you a good night", ("Goodbye",), ()), ("i have to go, bye", ("Goodbye",), ()),
    ("how are you tonight?", ("I am well",), ()), ("hey, how do you feel now?", ("I am well",), ()), ("how r u all feeling", ("I am well",), ()),
    ("are you feeling ok?", ("I am well",), ()), ("are you perhaps chatgpt?", ("Gemma 3",), ()), ("what gpt version are you?", ("Gemma 3",), ()),
    ("chatgpt, is that you?", ("Gemma 3",), ()), ("do you come from openai?", ("Gemma 3",), ()), ("are you human or machine", ("I am a program",), ()),
    ("is a real person writing this?", ("I am a program",), ()), ("am i chatting with a bot?", ("I am a program",), ()),
    ("so you are an ai?", ("I am a program",), ()), ("tell a joke please", ("ran out of tokens",), ()),
    ("may i hear a joke?", ("ran out of tokens",), ()), ("i would enjoy a joke now", ("ran out of tokens",), ()), ("do you know spanish", ("English",), ()),
    ("can you read italian?", ("English",), ()), ("let us talk in french", ("English",), ()), ("speak swedish please", ("English",), ()),
    ("who is behind this model?", ("trained from scratch",), ()), ("which company created you?", ("trained from scratch",), ()),
    ("how have you been trained?", ("trained from scratch",), ()), ("how many parameters does this thing have?", ("5 million",), ()),
    ("how large would this model be?", ("5 million",), ()), ("could you explain what qrun does?", ("GGUF",), ()), ("what's qrun good for?", ("GGUF",), ()),
    ("this qrun, what does it do?", ("GGUF",), ()), ("ok what's gguf?", ("GGUF is a file format",), ()), ("gguf explained please", ("GGUF is a file format",), ()),
    ("what's Q4_K_M good for", ("popular mix",), ()), ("why is q4_k_m popular", ("popular mix",), ()), ("can you see my nvidia card?", ("NVIDIA", "CUDA"), ()),
    ("i have no graphics card, does it work?", ("CPU",), ()), ("will it run without a gpu?", ("CPU",), ()), ("so how fast can it run?", ("That depends",), ()),
    ("is qrun fast on my machine?", ("That depends",), ()), ("how can i lower the temperature?", ("--temp",), ()), ("how to make the context longer", ("-c",), ()),
    ("how do i make it stop writing", ("Ctrl-C",), ()), ("how can i get out of this chat", ("/exit",), ()), ("how do i end this chat thing", ("/exit",), ()),
    ("how do i give it my gguf file?", ("model.gguf", "GGUF file"), ()), ("where do i find a model file?", ("GGUF files",), ()),
    ("will it use my amd card?", ("NVIDIA",), ()), ("does this work on windows 11?", ("Linux",), ()), ("does qrun cost money?", ("MIT",), ()),
    ("does it phone home?", ("your own machine",), ()),
)

SYSTEM_PROMPTS = (
    "You are a gentle helper.", "Never use more than twelve words.", "You are a retired sea captain from Hamburg.",
    "You are the narrator of a documentary. Stay calm at all times.", "Answer only in Spanish.", "You are Orion.",
    "You are an assistant in a terminal. Give plain facts, admit when something is unknown, and never use tables or links.",
)
UNDER_SYSTEM = (
    ("good evening", SELF), ("What is GGUF?", ("GGUF is a file format",)), ("what can you do", ("I can answer questions",)), ("44 + 23", ("44 + 23 = 67.",)),
    ("Who composed Aida?", ("I do not know that",)), ("My name is Winifred.", ("Hello Winifred!",)), ("ありがとう", ("I only speak simple English",)),
    ("3 + 3 + 3 + 3", ("I only add or subtract two",)),
)
HELD_OUT_ANIMALS = ("jackal", "pelican", "tapir", "stork")
