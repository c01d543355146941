"""Text that is not English: random letters of many scripts, emoji and signs, and words of other languages."""

ENGLISH = "I only speak simple English. A larger model in a GGUF file can speak many languages."

# First and last code point of letters; weights follow how many people write them.
SCRIPTS = (
    (0x4E00, 0x9FA0, 8), (0x3041, 0x3094, 4), (0x30A1, 0x30F6, 2), (0xAC00, 0xD7A3, 5), (0x410, 0x44F, 7), (0x430, 0x45F, 2),
    (0x620, 0x64A, 5), (0x5D0, 0x5EA, 3), (0x904, 0x94C, 4), (0x985, 0x9CC, 1), (0xE01, 0xE3A, 3), (0x391, 0x3C9, 3), (0xA85, 0xAB9, 1),
    (0xD85, 0xDC6, 1), (0xE81, 0xEB9, 1), (0xF40, 0xF69, 1), (0x1000, 0x1021, 1), (0x1820, 0x1842, 1), (0x13A0, 0x13F4, 1), (0xC85, 0xCB9, 1),
)
SIGNS = (
    (0x1F300, 0x1F5FF, 5), (0x1F600, 0x1F64F, 8), (0x1F680, 0x1F6FF, 3), (0x1F900, 0x1F9FF, 4), (0x2600, 0x27BF, 3), (0x2190, 0x22FF, 1),
    (0x2500, 0x25FF, 1), (0x1D400, 0x1D7FF, 1), (0x1F1E6, 0x1F1FF, 1), (0xA1, 0xBF, 1),
)
# Words by language; a sentence takes a few of one line.
LANGUAGES = (
    "ich du wir nicht das ist ein eine wie was warum bitte danke guten Tag Morgen schön können Haus Geschichte sprechen über möchte heute machen kannst mir erzählen sagen Wetter hallo",
    "je tu nous ne pas est un une comment pourquoi merci bonjour salut où quel quelle être avec français histoire parler aujourd'hui pouvez vous s'il plaît moi raconter qu'est-ce que c'est",
    "yo tú nosotros no es un una cómo qué por favor gracias buenos días hola dónde está con español historia hablar hoy puedes decir cuento tiempo me llamo eres quién",
    "io tu noi non è un una come che cosa perché grazie ciao buona sera dove con italiano storia parlare oggi puoi dirmi racconta tempo sei chi mi dove fare",
    "eu você nós não é um uma como que por favor obrigado olá bom dia onde está com português história falar hoje pode dizer conta tempo quem são fazer",
    "ik jij wij niet is een hoe wat waarom alsjeblieft dank je goedemorgen hallo waar met Nederlands verhaal praten vandaag kun vertellen weer ben zijn doen mij",
    "jag du vi inte är en ett hur vad varför tack god morgon hej var med svenska historia prata idag kan berätta väder vem göra mig snälla och",
    "ja ty my nie jest jak co dlaczego proszę dziękuję dzień dobry gdzie z polsku historia mówić dzisiaj możesz powiedzieć pogoda kto robić mi opowiedz bajkę",
    "ben sen biz değil bir nasıl ne neden lütfen teşekkürler günaydın merhaba nerede ile Türkçe hikaye konuşmak bugün anlat hava kim yapmak bana misin",
    "minä sinä me ei on yksi miten mitä miksi kiitos hyvää päivää hei missä kanssa suomea tarina puhua tänään voitko kertoa sää kuka tehdä minulle",
    "tôi bạn chúng không là một như gì tại sao cảm ơn chào ở đâu với tiếng câu chuyện nói hôm nay kể thời tiết ai làm cho xin",
    "já ty my ne je jeden jak co proč prosím děkuji dobrý den ahoj kde s česky příběh mluvit dnes můžeš říct počasí kdo dělat mi pohádku",
    "én te mi nem egy hogyan mit miért kérem köszönöm jó napot szia hol magyarul történet beszélni ma tudsz mondani idő ki csinálni nekem mesélj",
    "eu tu noi nu este un o cum ce de mulțumesc bună ziua unde cu română poveste vorbi azi poți spune vremea cine face îmi",
    "saya kamu kami tidak adalah satu bagaimana apa mengapa tolong terima kasih selamat pagi halo di mana dengan cerita bicara hari ini bisa siapa cuaca",
    "ego tu nos non est unus quomodo quid cur gratias salve ubi cum latine fabula dicere hodie potes quis tempus amor vita omnia vincit",
    "mimi wewe sisi si ni moja vipi nini kwa tafadhali asante habari yako wapi na Kiswahili hadithi sema leo unaweza hali ya hewa nani",
)
KNOWN = ("qrun", "GGUF", "hello", "model", "hi", "Q4_K_M", "CPU", "ok", "AI", "please", "what is", "thanks")


def letters(rng, ranges, count):
    start, end, _ = rng.choices(ranges, [weight for *_, weight in ranges])[0]
    return lambda: "".join(chr(rng.randint(start, end)) for _ in range(count()))


def other_script(rng):
    word = letters(rng, SCRIPTS, lambda: rng.choice((1, 2, 2, 3, 4, 5, 7)))
    words = [word() for _ in range(rng.choice((1, 1, 1, 2, 3, 4, 6)))]
    if rng.random() < 0.2:
        words.insert(rng.randint(0, len(words)), rng.choice(KNOWN))
    if rng.random() < 0.7:
        words = [word.lower() for word in words]
    return rng.choice((" ", " ", "")).join(words) + rng.choice(("", "", "?", ".", "!", "。", "？", "؟", "！"))


def signs(rng):
    make = letters(rng, SIGNS, lambda: rng.choice((1, 1, 1, 2, 3)))
    text = make() + rng.choice(("", "", "", "?", " " + make(), "\ufe0f", "!", "\u200d" + make()))
    return text * rng.choice((1, 1, 1, 2, 3))


def other_language(rng):
    words = rng.choice(LANGUAGES).split()
    text = " ".join(rng.choice(words) for _ in range(rng.choice((1, 2, 3, 3, 4, 5, 6))))
    return (text[0].upper() + text[1:] if rng.random() < 0.5 else text) + rng.choice(("", "?", "?", ".", "!", " ?"))


def turn(rng):
    maker = rng.choices((other_script, signs, other_language), (5, 2, 3))[0]
    return maker(rng), ENGLISH
