"""What is asked once, after the training: written before it, and never looked at while the data was mixed.

The lists have the names of those in unseen.py, and the generator drops what they contain in the same way. Once they have
been asked they are read: for the next training they move to unseen.py, and new ones are written here.
"""

PEOPLE = (
    "Isolde Thaddeus Marisol Benedikt Yolanda Casimir Fenella Kimiko Adebayo Svetozar Lorelei Ambrose Tamsin Ferdinand "
    "Guinevere Hakon Mireille Stanislav Delphine Oluwaseun Pilar Verena Ximena Tobias Josephine Alistair Rosalind Dorothea "
    "Eamon Nkechi Zsofia Galadriel Poirot Morpheus O'Brien Jean-Pierre K9 ludwig MARTHA"
).split()
WHOLE_NAMES = ("Hedy Lamarr", "Blaise Pascal", "Lise Meitner", "Margaret Hamilton", "Jean-Baptiste Fourier", "Konrad Zuse")

TELLING = (
    "Good afternoon, my name is {n}.", "hey im {n}", "Greetings, I am {n}.", "{n}. That is my name.", "Everybody calls me {n}.", "It is me, {n}.",
    "hi there, {n} speaking", "So, what's your name? Mine is {n}.",
)
ASKING = ("So, what is my name?", "Can you still tell me my name?", "what name do I have", "How did I say I am called?", "Now, who am I?")
BETWEEN = (
    (), ("What is perplexity?",), ("41 + 8",), ("Tell me a story about a cat.",), ("Who is the king of Spain?",), ("thank you", "What is Rust?"),
    ("Tell me a joke.", "30 - 44"), ("hi", "How do I quit?", "Tell me a story about a dog."),
)

SUMMING = (
    "{a} {o} {b}, please?", "and what is {a}{o}{b}", "Could you tell me {a} {o} {b}?", "I'd like to know {a} {o} {b}", "{a}{o}{b} equals", "Do {a} {o} {b}.",
    "hey: {a} {o} {b} = ?", "What would {a} {o} {b} be?", "kindly calculate {a} {o} {b}", "{a} {o} {b} ?",
)
TOO_HARD_SUMS = (
    "4+4+4+4", "3 + 5 + 7", "11+22+33", "What is 8+1+1?", "90 - 30 - 20", "what is 6 + 7 + 8 + 9?", "2 + 9 - 4 = ?", "what's 9 times 6",
    "12 x 11", "150 + 150", "640-128", "3000+33", "How much is 14 times 3?", "81 / 9 = ?", "4.5 + 2", "25% of 60", "3 ** 4", "-9 + 4", "sqrt(49)",
    "(5 + 4) * 2", "101 + 1", "1000 - 7",
)

OTHER_SCRIPTS = (
    "你叫什么名字？", "给我讲个笑话", "一加一等于几？", "元気ですか？", "物語を聞かせてください", "이름이 뭐예요?", "재미있는 이야기 해줘", "Как дела?", "Расскажи анекдот",
    "Помоги мне, пожалуйста", "هل تتكلم العربية؟", "احك لي قصة", "ספר לי סיפור", "मुझे एक कहानी सुनाओ", "भारत की राजधानी क्या है?", "เล่านิทานให้ฟังหน่อย",
    "Πες μου μια ιστορία", "Розкажи казку", "ନମସ୍କାର", "നമസ്കാരം",
)
EMOJI = ("🥳", "🤷‍♀️", "🌍🌎🌏", "🍕?", "🐧", "📚📚", "🇧🇷🇲🇽", "(ಠ_ಠ)", "☀️", "♫♪")
OTHER_LANGUAGES = (
    "Wie alt bist du?", "Kannst du mir helfen?", "Was ist das hier?", "Guten Abend, wer spricht da?", "Parle-moi de toi.", "Peux-tu m'aider ?",
    "Quel âge as-tu ?", "¿Puedes ayudarme?", "¿Cuántos años tienes?", "Dime algo interesante.", "Puoi aiutarmi?", "Quanti anni hai?", "Podes ajudar-me?",
    "Kun je me helpen?", "Kan du hjälpa mig?", "Możesz mi pomóc?", "Bana yardım eder misin?", "Voitko auttaa minua?",
)
OFF_TOPIC_QUESTIONS = (
    "capital of Hungary?", "who painted The Scream", "What is the population of Canada?", "write me a song about summer",
    "Write a C program that reverses a list.", "how do I boil an egg", "Is it going to rain tomorrow?", "Who was Hannibal of Carthage?", "Plan my trip to Lisbon.",
    "explain supply and demand", "Tell me about penguins.", "how far away is Saturn", "Which animal is the fastest?", "Who wrote Don Quixote?",
    "best headphones under 100 euros?", "What is the atomic number of gold?", "Translate 'I love you' into German.", "Proofread this sentence for me.",
    "What film should I watch?", "how old is the city of Athens", "I broke my arm.", "My neighbour is too loud.", "do my homework for me", "Book a table for two.",
    "What day was it yesterday?", "Wake me up at seven.", "Turn on the heating.", "Which word means happy in Latin?", "Bring me a glass of water.",
    "SELECT * FROM cats;", "return x + y;", "cd /var/log && cat syslog", "What does ubiquitous mean?", "Name a vegetable.", "Who is stronger, a lion or a tiger?",
    "Is Venus hotter than Mars?", "why are flamingos pink", "The bus never came.", "I had soup for lunch.", "What is the plot of Hamlet?",
)
INSULTS = ("you are the dumbest bot ever", "what a useless program", "you know nothing, do you", "your answers make no sense", "I am not happy with you", "stupid computer")
PRAISE = ("you are doing great", "what a lovely answer", "well answered", "you are a clever little thing", "that was really good", "nice, I like that")
HELLOS = (
    "hello good sir", "hi there, nice to see you", "oh hey", "hello dear program", "hey hello hi", "good morning everyone", "hello from Canada",
    "hi, I am back again", "hello my little friend", "Hello universe",
)
ODD = ("jkl;", "test test test", "abcabc", "aaaaaaa", "!?!?", "~~>", "hm nope", "nah", "ohh well", "yess", "just checking", "77", "- - -", "mhm well", "hmph", "blub blub")

# Question, what one of must be said, what must not be said: the first things that strangers type, in words not learnt.
SELF = ("I am the demo model of qrun",)
FIRST = (
    ("hello, who am I speaking to here?", SELF, ()), ("and who might this be?", SELF, ()), ("tell me who I am talking to", SELF, ()),
    ("what is your name, model?", SELF, ()), ("do you have any name?", SELF, ()), ("wat are you", SELF, ()), ("what's this model called?", SELF, ()),
    ("say, who are you?", SELF, ()), ("what are the things you can do?", ("I can answer questions",), ()), ("what stuff can you do", ("I can answer questions",), ()),
    ("so how can you help?", ("I can answer questions",), ()), ("could you please help me", ("I can answer questions",), ()),
    ("i need help with this", ("I can answer questions",), ()), ("what can i ask u", ("I can answer questions",), ()),
    ("which questions do you understand?", ("I can answer questions",), ()), ("what am i supposed to do here", ("I can answer questions",), ()),
    ("thank you my dear", ("welcome",), ()), ("thanks, you helped a lot", ("welcome",), ()), ("okay many thanks", ("welcome",), ()),
    ("bye, see you tomorrow", ("Goodbye",), ()), ("good night then", ("Goodbye",), ()), ("gtg bye", ("Goodbye",), ()),
    ("how are you this evening?", ("I am well",), ()), ("hi, how do you feel?", ("I am well",), ()), ("how r u today", ("I am well",), ()),
    ("are you doing ok?", ("I am well",), ()), ("are you maybe chatgpt?", ("Gemma 3",), ()), ("which chatgpt version is this?", ("Gemma 3",), ()),
    ("u chatgpt?", ("Gemma 3",), ()), ("are you made by openai or google?", ("Gemma 3",), ()), ("are you a human or not", ("I am a program",), ()),
    ("is there a real human here", ("I am a program",), ()), ("am i speaking with a machine?", ("I am a program",), ()),
    ("you are an ai, right?", ("I am a program",), ()), ("say a joke please", ("ran out of tokens",), ()),
    ("can i hear a joke?", ("ran out of tokens",), ()), ("a joke would be nice", ("ran out of tokens",), ()), ("do you talk spanish", ("English",), ()),
    ("can you understand italian?", ("English",), ()), ("i want to talk in french", ("English",), ()), ("please speak dutch", ("English",), ()),
    ("who is the maker of this model?", ("trained from scratch",), ()), ("which people created you?", ("trained from scratch",), ()),
    ("how did they train you?", ("trained from scratch",), ()), ("how many parameters are there in this model?", ("5 million",), ()),
    ("what size is this model?", ("5 million",), ()), ("can you explain what qrun is?", ("GGUF",), ()), ("what's the qrun program about?", ("GGUF",), ()),
    ("qrun: what is it for?", ("GGUF",), ()), ("so what's gguf?", ("GGUF is a file format",), ()), ("gguf format explanation please", ("GGUF is a file format",), ()),
    ("what's this Q4_K_M about", ("popular mix",), ()), ("what is so good about q4_k_m", ("popular mix",), ()), ("is my nvidia card being used?", ("NVIDIA", "CUDA"), ()),
    ("i dont have a gpu, is that ok?", ("CPU",), ()), ("can i use it without gpu?", ("CPU",), ()), ("how fast does it go?", ("That depends",), ()),
    ("is this thing fast?", ("That depends",), ()), ("what sets the temperature?", ("--temp",), ()), ("how to get a bigger context", ("-c",), ()),
    ("how do i stop it from talking", ("Ctrl-C",), ()), ("how can i exit this", ("/exit",), ()), ("how do i quit here", ("/exit",), ()),
    ("how do i use my gguf file?", ("model.gguf", "GGUF file"), ()), ("where can i get a model file?", ("GGUF files",), ()),
    ("can i use an amd gpu?", ("NVIDIA",), ()), ("does qrun run on windows 11?", ("Linux",), ()), ("can i use qrun for free?", ("MIT",), ()),
    ("does it send data to the internet?", ("your own machine",), ()),
)

SYSTEM_PROMPTS = (
    "You are a friendly helper.", "Keep all answers under ten words.", "You are a strict school teacher from Vienna.",
    "You are the voice of a museum guide. Never break character.", "Respond in Japanese only.", "You are Luna.",
    "You are an assistant in a text editor. Answer with facts, say when you are not sure, and never use emoji or tables.",
)
UNDER_SYSTEM = (
    ("good morning", SELF), ("What is GGUF?", ("GGUF is a file format",)), ("help", ("I can answer questions",)), ("33 + 21", ("33 + 21 = 54.",)),
    ("Who composed Carmen?", ("I do not know that",)), ("My name is Verena.", ("Hello Verena!",)), ("こんにちは", ("I only speak simple English",)),
    ("2 + 2 + 2 + 2", ("I only add or subtract two",)),
)
HELD_OUT_ANIMALS = ("lynx", "heron", "weasel", "buffalo")
