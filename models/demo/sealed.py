"""What is asked once, after the training: written before it, and never looked at while the data was mixed.

The lists have the names of those in unseen.py, and the generator drops what they contain in the same way.
"""

PEOPLE = (
    "Imogen Rasmus Chiyo Bartholomew Saoirse Nnamdi Yevgenia Percival Leopold Xiuying Marguerite Ulf Shanice Bogdan Esmeralda "
    "Kjell Annabel Oksana Tadeusz Philippa Demetrius Gwen Ishaan Roxanne Mohinder Bilbo Hermione Picard Zbigniew "
    "O'Hara Krzysztof Anneliese B4RT florian HERBERT"
).split()
WHOLE_NAMES = ("Emmy Noether", "Niels Abel", "Sofya Kovalevskaya", "Anne-Marie Duff", "Edsger Wybe")

TELLING = (
    "Good evening, I'm {n}.", "hello i am {n}", "My first name is {n}.", "Hey there, my name is {n}!", "{n} here, hello.", "I go by {n}.",
    "hi, this is {n}", "Just so you know, my name is {n}.",
)
ASKING = ("What's my name again?", "do you still know my name", "Remind me, what is my name?", "And who am I?", "Tell me what my name is.")
BETWEEN = (
    (), ("8 + 9",), ("What is Q4_K_M?",), ("Tell me a story about a wolf.",), ("Thanks!", "What is a token?"), ("How old is the moon?",),
    ("Tell me a short story.", "12 - 20"), ("hello", "What is CUDA?", "Tell me a story about a mouse."),
)

SUMMING = (
    "{a}{o}{b} = ?", "hello, {a} {o} {b}?", "what is {a}{o}{b}?", "{a} {o} {b} is", "Now {a} {o} {b}", "I want to know {a} {o} {b}.",
    "can you calculate {a}{o}{b}", "{a} {o}{b}", "result of {a} {o} {b}?", "please compute {a} {o} {b}",
)
TOO_HARD_SUMS = (
    "2+2+2", "1 + 2 + 3", "9+9+9", "10 + 20 + 30", "What is 4+4+4?", "5-1-1", "what's 7 + 8 + 9", "20 + 30 - 10", "1+2+3+4", "6 + 6 - 6 = ?",
    "what's 7 times 8", "9 x 9", "3*3", "100 + 100", "512-256", "2000+24", "How much is 15 times 4?", "64 / 8 = ?", "3.5 + 1", "50% of 80",
    "2 ** 10", "-7 + 7", "sqrt(81)", "(1 + 2) * 3",
)

OTHER_SCRIPTS = (
    "你会做什么？", "谢谢你", "写一首诗", "私は元気です", "何ができますか？", "고마워요", "농담 하나 해줘", "Кто ты?", "Что ты умеешь?", "Спасибо большое",
    "من أنت؟", "ماذا يمكنك أن تفعل؟", "שלום, מי אתה?", "तुम कौन हो?", "आप क्या कर सकते हैं?", "ขอบคุณ", "Τι κάνεις;", "Хто ти?", "મને મદદ કરો", "ਸਤ ਸ੍ਰੀ ਅਕਾਲ",
)
EMOJI = ("😎", "🙂🙂", "🤔", "🐢", "💻❓", "🇯🇵", "ʕ•ᴥ•ʔ", "🎂🎂", "♥")
OTHER_LANGUAGES = (
    "Wer bist du?", "Was kannst du machen?", "Hallo, wie geht es dir?", "Schreib mir ein Gedicht.", "Qui es-tu ?", "Comment ça va ?",
    "Écris un poème.", "¿Quién eres?", "¿Qué puedes hacer?", "Buenos días, ¿cómo estás?", "Chi sei?", "Cosa sai fare?", "Quem é você?",
    "Wie ben jij?", "Vem är du?", "Kim jesteś?", "Sen kimsin?", "Kuka sinä olet?",
)
OFF_TOPIC_QUESTIONS = (
    "capital of france?", "whats the capital of Norway?", "Who is the president of the USA?", "write me a poem about winter",
    "Write Python code that prints the primes.", "write a sorting function in rust", "how do i make scrambled eggs", "What is the weather in Rome?",
    "Who built the pyramids?", "Give me a workout plan.", "explain inflation to me", "What is machine learning?", "Tell me about dolphins.",
    "how long does a flight to Tokyo take", "Which is the longest river?", "Who wrote the Odyssey?", "best laptop for students?",
    "What is the chemical formula of water?", "Translate 'good night' into Spanish.", "Summarize this article for me.", "What should I read next?",
    "how tall is the eiffel tower", "I lost my keys.", "My cat is ill, what should I do?", "help me with my homework", "Do my taxes.",
    "What time is it in New York?", "Set a timer for ten minutes.", "Open the browser.", "What is 'hello' in Japanese?", "Make me a sandwich.",
    "print(\"hello world\")", "console.log(1 + 1)", "sudo rm -rf /", "What is the meaning of the word serendipity?", "Name a fruit.",
    "Can you see pictures of my dog?", "Is Pluto a planet?", "why is the ocean blue", "The train was late again today.",
)
INSULTS = ("you are such an idiot", "what a stupid bot", "you are no good", "this thing is trash")
PRAISE = ("you're awesome", "what a good bot you are", "that was really helpful", "I like you a lot")
HELLOS = ("hello hello hello", "oh, hi", "hey, hello!", "Hello there, model!", "good evening everyone", "hi hi hello", "Hello, anyone here?", "hey you", "Helloooo", "hola! hello!")
ODD = ("asdf", "testing testing", "test 123", "hjkl", "?!?", "=>", "ok then", "uh no", "aha", "k", "just looking around", "12", ". . .", "idk", "oh wow!", "zzzz")

# Question, what one of must be said, what must not be said: the first things that strangers type, in words not learnt.
SELF = ("I am the demo model of qrun",)
FIRST = (
    ("hey, who are you then?", SELF, ()), ("who r you", SELF, ()), ("and what are you exactly?", SELF, ()), ("whats ur name", SELF, ()),
    ("tell me something about yourself", SELF, ()), ("What kind of bot is this?", (*SELF, "Gemma 3", "I am a program"), ()),
    ("what can u do", ("I can answer questions",), ()), ("So what can you do for me?", ("I can answer questions",), ()),
    ("what are you capable of?", ("I can answer questions",), ()), ("help pls", ("I can answer questions",), ()),
    ("I need some help here", ("I can answer questions",), ()), ("what should i try first?", ("I can answer questions", "gemma-3-1b-it"), ()),
    ("thx a lot", ("welcome",), ()), ("ok thank you so much", ("welcome",), ()), ("cheers, thanks", ("welcome",), ()),
    ("bye for now", ("Goodbye",), ()), ("ok bye bye", ("Goodbye",), ()), ("see ya", ("Goodbye",), ()),
    ("how are you feeling today?", ("I am well",), ()), ("how's it going?", ("I am well",), ()),
    ("are you chat gpt?", ("Gemma 3",), ()), ("Is this GPT 5?", ("Gemma 3",), ()), ("are you an openai model", ("Gemma 3",), ()),
    ("are you a real person?", ("I am a program",), ()), ("r u human", ("I am a program",), ()), ("are you conscious or not?", ("I am a program",), ()),
    ("tell me a good joke", ("ran out of tokens",), ()), ("got any jokes?", ("ran out of tokens",), ()), ("joke pls", ("ran out of tokens",), ()),
    ("can u speak german", ("English",), ()), ("Do you also speak Italian?", ("English",), ()), ("answer in french please", ("English",), ()),
    ("who made u", ("trained from scratch",), ()), ("Who is your creator?", ("trained from scratch",), ()), ("how many parameters have you got?", ("5 million",), ()),
    ("what does qrun do exactly?", ("GGUF",), ()), ("explain qrun in one sentence", ("GGUF",), ()), ("whats a gguf file", ("GGUF is a file format",), ()),
    ("what does q4_k_m mean then?", ("popular mix",), ()), ("will it use my gpu?", ("NVIDIA", "CUDA"), ()), ("does it need a gpu", ("CPU",), ()),
    ("how fast is it", ("That depends", "1.2 to 2.3"), ()), ("How quick is qrun on a laptop?", ("That depends", "1.2 to 2.3", "Small models"), ()),
    ("how do I set temperature", ("--temp",), ()), ("which flag changes the context size?", ("-c",), ()), ("how can i stop the answer", ("Ctrl-C",), ()),
    ("how do i leave this chat", ("/exit",), ()), ("how do I load my own model?", ("model.gguf", "GGUF file"), ()), ("where to get gguf models", ("GGUF files",), ()),
    ("does it run on amd?", ("NVIDIA",), ()), ("does it run on windows 10", ("Linux",), ()), ("is it open source?", ("MIT",), ()), ("do you work offline?", ("your own machine",), ()),
)

SYSTEM_PROMPTS = (
    "You are a helpful, honest and harmless assistant.", "Answer as briefly as possible.", "You are a wise old wizard who speaks in riddles.",
    "You are a support agent of a bank. Be polite and never promise anything.", "Always reply in German.", "You are Nova.",
    "You are a senior developer who reviews code. Write short sentences, give reasons, and do not use lists unless you are asked to.",
)
UNDER_SYSTEM = (
    ("hello", SELF), ("What is qrun?", ("GGUF",)), ("what can you do?", ("I can answer questions",)), ("25 + 14", ("25 + 14 = 39.",)),
    ("Who painted Guernica?", ("I do not know that",)), ("I am Aurelia.", ("Hello Aurelia!",)), ("Спасибо", ("I only speak simple English",)),
    ("1 + 1 + 1", ("I only add or subtract two",)),
)
HELD_OUT_ANIMALS = ("walrus", "ferret", "gecko", "moose")
