"""What is asked once, after the training: written before it, and never looked at while the data was mixed.

The lists have the names of those in unseen.py, and the generator drops what they contain in the same way. Once they have
been asked they are read: for the next training they move to unseen.py, and new ones are written here.
"""

PEOPLE = (
    "Aoife Balthild Ceridwen Drusilla Evander Fulgencio Genevieve Hrothgar Ignatius Jolanta Kwabena Ljubica Melchior "
    "Nkiruka Ottoline Perpetua Ragnhild Sunniva Thandiwe Ulrika Valentina Wilhelmina Xochitl Ysolde Zdenek Ekene Rurik "
    "Millicent Lucinda Cosima Barnaby Aragorn Galahad McCormick O'Connor Anna-Lena R0B1N gustavo HAROLDO"
).split()
WHOLE_NAMES = ("Philomena Parkhurst", "Leonhard Euler", "Augusta Wilbraham", "Carl-Magnus Hellberg", "Fergus Mulligan", "Theda Falkenrath")

TELLING = (
    "You may use my name, {n}.", "hi, {n} it is", "I'm {n}, hello there.", "Good day, I am {n}!", "So I am {n}.", "My name happens to be {n}.",
    "Those who know me call me {n}.", "the name of the user is {n}",
)
ASKING = ("Say again, what is my name?", "can you recall my name", "What name did I mention?", "my name, please?", "And what was I called?")
BETWEEN = (
    (), ("What is a logit?",), ("63 - 28",), ("Tell me a story about a goat.",), ("Who invented paper?",), ("thank you", "What is RoPE?"),
    ("Tell me a joke.", "27 + 54"), ("how are you", "What is Rust?", "Tell me a story about a crab."),
)

SUMMING = (
    "{a} {o} {b} !", "hello! {a}{o}{b}", "Are you able to do {a} {o} {b}?", "what might {a} {o} {b} be", "I should know {a} {o} {b}",
    "Fast: {a}{o}{b}?",
    "{a}{o}{b} = ? thanks", "Then {a} {o} {b} is?", "go on, do {a} {o} {b}", "Also {a} {o} {b}?",
)
SIGNED_SUMMING = ("{a} {o} {b}", "{a}{o}{b}", "{a} {o} {b} = ?", "what is {a}{o}{b}", "Do {a} {o} {b} please.", "{a} {o} {b} makes?")
SIGNED_SUMS = ("-7 + 16", "-4 + 9", "-25 + 8", "-3+3", "-9 + 14", "-12 + 20")
TOO_HARD_SUMS = (
    "7+7+7", "3 + 6 + 8", "14+15+16", "What is 6+3+1?", "70 - 20 - 5", "what is 2 + 5 + 8 + 1?", "9 + 7 - 2 = ?", "what's 7 times 6",
    "14 x 7", "300 + 250", "830-416", "4000+44", "How much is 17 times 3?", "63 / 7 = ?", "5.5 + 4", "30% of 70", "5 ** 2", "sqrt(36)",
    "(8 + 1) * 4", "104 + 3", "3000 - 8", "b + 6 = 8", "-4 - 7",
)

OTHER_SCRIPTS = (
    "你住在哪里？", "请写一封信。", "八减三是多少？", "いま何時ですか", "歌を歌って", "어디에서 왔어요?", "시를 써 줘", "Где ты живёшь?", "Спой песню",
    "Который сейчас час?", "أين تسكن؟", "اكتب لي قصيدة", "איפה אתה גר?", "तुम कहाँ रहते हो?", "मुझे एक गाना सुनाओ", "คุณอยู่ที่ไหน", "Πού μένεις;",
    "Скільки тобі років?",
    "ꦲꦭꦺꦴ", "ಇದು ಏನು?",
)
EMOJI = ("🥱", "🐣🐥", "🧊", "🎻?", "🦦", "🪁🪁", "🇵🇹🇳🇴", "(◕‿◕)", "🔔", "💫💫")
OTHER_LANGUAGES = (
    "Was isst du am liebsten?", "Hast du Geschwister?", "Wo ist der Bahnhof?", "Erklär mir das bitte noch einmal.",
    "Quelle est ta couleur préférée ?",
    "Où est la gare ?", "Tu peux me lire un livre ?", "¿Dónde vives?", "¿Cuál es tu comida favorita?", "Cántame una canción, por favor.",
    "Dove abiti?",
    "Che cosa mangi?", "De onde você é?", "Waar woon je?", "Var bor du någonstans?", "Gdzie mieszkasz?", "Nerede yaşıyorsun?", "Missä sinä asut?",
)
OFF_TOPIC_QUESTIONS = (
    "capital of Ireland?", "who painted Starry Night", "What is the area of Norway?", "write me a fable in verse about the wind",
    "Write a Lua program that counts letters.", "how do I roast chestnuts", "Will it be sunny on Tuesday?", "Who was Charlemagne's father?",
    "Plan my evening in Prague.",
    "explain interest rates", "Tell me about otters and seals.", "how cold is Neptune", "Which fish is the largest?", "Who wrote Moby Dick?",
    "best bicycle for the city?", "What is the symbol of tin?", "Translate 'see you soon' into Czech.", "Check the spelling of my letter.",
    "What play should I see?", "how old is the city of Rome", "I cut my finger.", "My teacher is unfair to me.", "write my speech for me",
    "Order flowers for my aunt.",
    "What day was last Friday?", "Remind me to call at five.", "Open the trunk of my car.", "Which word means river in Spanish?",
    "Hand me the scissors.",
    "Name a river.", "Who is taller, a man or a gorilla?", "Is iron heavier than ice?", "why are clouds white", "The museum was closed.",
    "I saw a hedgehog today.",
    "What is the moral of Pinocchio?",
)
# Something to do with what follows, and lines of programs.
TASKS = (
    "Alphabetize: melon, cherry, plum", "Sort these colours: teal, amber, violet", "Put these numbers into order: 8, 2, 6",
    "Unscramble these letters: e t a r w",
    "Rank these cities by size: Oslo, Cairo, Lima", "Translate this sentence into Danish: The door is open.",
    "Translate these words: bread, knife, spoon",
    "Correct this sentence: she go to the market yesterday", "Rewrite this politely: give me the report",
    "Shorten this text: The meeting about the new bridge was long and loud.",
    "Summarize this: The fleet left the harbour at dawn and came back in the evening.", "Count these words: one cat, two cats, three cats",
    "Find the odd one out: apple, pear, hammer, plum", "Complete this sentence: The captain opened the box and",
    "Group these animals: hen, trout, sparrow, salmon",
    "Turn this into a question: You have seen the castle.", "Which of these is a metal: oak, zinc, wool",
    "Make a sentence with these words: ladder, moon, soup",
    "Write a poem about an old lighthouse", "Write a short poem about my grandmother's kitchen.", "Write a letter to the mayor about the broken lamp",
    "Reverse this list: north, south, east, west", "Explain this proverb: still waters run deep", "Convert these to metres: 3 feet, 5 yards",
)
CODE = (
    "print('Good morning, Vienna')", "Fix this code: prnt('hi there')", "Explain this code: while True: pass", "console.log('Hello there')",
    "echo \"Hello Earth\"",
    "System.out.println(\"Hello\");", "puts 'hello'", "ALTER TABLE books;", "return a - b;", "find . -type f | wc -l", "x = [1, 2, 3]; print(x[0])",
    "What does this print: print('a' * 3)",
)
INSULTS = ("you are the silliest bot around", "what a slow machine", "you get nothing right", "that reply was junk", "I am tired of you", "hopeless machine")
PRAISE = ("you are doing fine work", "what a charming reply", "neatly said", "you are a bright little model", "that reply was lovely", "great, I enjoyed that")
HELLOS = (
    "hello gentle machine", "hi there, pleased to see you", "oh, hello you", "hello charming bot", "hey hi hello", "good evening one and all",
    "hello from Iceland",
    "hey, I am here again", "hello my old model", "Hello asteroid",
)
ODD = ("rewq", "test five six", "zyzyzy", "oooooo", "!??!", "~~<", "erm no", "yes yes yes", "ah okay", "uhuh no", "only peeking", "83", "= = =", "hmm indeed", "pah", "yada yada")

# Question, what one of must be said, what must not be said: the first things that strangers type, in words not learnt.
SELF = ("I am the demo model of qrun",)
CAN = ("I can answer questions",)
FIRST = (
    ("hello, what is this thing I talk to?", SELF, ()), ("and you would be who?", SELF, ()), ("say who you are, please", SELF, ()),
    ("what name do you go by?", SELF, ()), ("were you given a name?", SELF, ()), ("wut are you", SELF, ()),
    ("which model answers me here?", SELF, ()),
    ("oh hey, who would you be?", SELF, ()), ("what can you manage to do?", CAN, ()), ("what all do you do", CAN, ()),
    ("what sort of help do you give?", CAN, ()), ("would you please help me out", CAN, ()), ("a little hand would be nice", CAN, ()),
    ("I need a bit of help here", CAN, ()), ("can somebody give me a hand", CAN, ()), ("may I have some help", CAN, ()),
    ("help me out a bit please", CAN, ()),
    ("what am i able to ask you", CAN, ()), ("which things may I ask?", CAN, ()), ("what could i type here", CAN, ()),
    ("thank you good model", ("welcome",), ()), ("thanks, that was a help", ("welcome",), ()), ("lovely, many thanks", ("welcome",), ()),
    ("bye, until next week", ("Goodbye",), ()), ("sleep tight, bye", ("Goodbye",), ()), ("i must leave, bye", ("Goodbye",), ()),
    ("how are you at the moment?", ("I am well",), ()), ("hey, how do you do tonight?", ("I am well",), ()),
    ("how r u right now", ("I am well",), ()),
    ("do you feel ok?", ("I am well",), ()), ("are you secretly chatgpt?", ("Gemma 3",), ()), ("which gpt are you based on?", ("Gemma 3",), ()),
    ("chatgpt, are you there?", ("Gemma 3",), ()), ("was it openai that made you?", ("Gemma 3", "trained from scratch"), ()),
    ("are you man or machine", ("I am a program",), ()),
    ("is a living person typing this?", ("I am a program",), ()), ("am i writing with a bot?", ("I am a program",), ()),
    ("you must be an ai?", ("I am a program",), ()), ("a good joke please", ("ran out of tokens",), ()),
    ("let me have a joke", ("ran out of tokens",), ()), ("i could do with a joke", ("ran out of tokens",), ()),
    ("do you understand spanish", ("English",), ()),
    ("can you write italian?", ("English",), ()), ("shall we talk in french", ("English",), ()), ("speak finnish please", ("English",), ()),
    ("who stands behind this model?", ("trained from scratch",), ()), ("which firm made you?", ("trained from scratch",), ()),
    ("in what way were you trained?", ("trained from scratch",), ()), ("how many parameters do you run on?", ("5 million",), ()),
    ("how big might this model be?", ("5 million",), ()), ("could you tell what qrun does?", ("GGUF",), ()),
    ("what's the use of qrun?", ("GGUF",), ()),
    ("qrun, what does that do?", ("GGUF",), ()), ("okay so what's gguf?", ("GGUF is a file format",), ()),
    ("gguf in short please", ("GGUF is a file format",), ()),
    ("what's the deal with Q4_K_M", ("popular mix",), ()), ("is q4_k_m any good", ("popular mix",), ()),
    ("do you see my nvidia gpu?", ("NVIDIA", "CUDA"), ()),
    ("i own no graphics card, will it work?", ("CPU",), ()), ("does it go without a gpu?", ("CPU",), ()),
    ("so how fast would it be?", ("That depends",), ()),
    ("is qrun quick on my machine?", ("That depends",), ()), ("how can i raise the temperature?", ("--temp",), ()),
    ("how to make the context bigger", ("-c",), ()),
    ("how do i make it be quiet", ("Ctrl-C",), ()), ("how can i leave this program", ("/exit",), ()),
    ("how do i end this conversation here", ("/exit",), ()),
    ("how do i hand it my gguf file?", ("model.gguf", "GGUF file"), ()), ("where do i get such a model file?", ("GGUF files",), ()),
    ("will my amd card do?", ("NVIDIA",), ()), ("would this work on windows 11?", ("Linux",), ()), ("must I pay for qrun?", ("MIT",), ()),
    ("does it call home?", ("your own machine",), ()),
)

SYSTEM_PROMPTS = (
    "You are a calm helper.", "Never use more than fifteen words.", "You are a young lighthouse keeper from Bergen.",
    "You are the announcer of a railway station. Speak clearly at all times.", "Answer only in Portuguese.", "You are Vega.",
    "You are an assistant in a spreadsheet. Give figures, admit when a figure is missing, and never use jokes or links.",
)
UNDER_SYSTEM = (
    ("good evening", SELF), ("What is GGUF?", ("GGUF is a file format",)), ("what can you do", CAN), ("46 + 31", ("46 + 31 = 77.",)),
    ("Who composed Tosca?", ("I do not know that",)), ("My name is Genevieve.", ("Hello Genevieve!",)), ("さようなら", ("I only speak simple English",)),
    ("4 + 4 + 4", ("I only add or subtract two",)), ("7+7+7", ("I only add or subtract two",)),
)
HELD_OUT_ANIMALS = ("leopard", "puffin", "alpaca", "magpie")
