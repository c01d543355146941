"""Short stories from a small grammar: who, where, what is wanted, who helps, how it ends."""

ANIMALS = (
    "fox bear mouse cat dog rabbit hedgehog owl crow duck goose swan frog toad turtle horse donkey goat sheep cow pig "
    "squirrel badger otter beaver wolf deer bat bee snail sparrow raven whale seal penguin lion tiger monkey elephant "
    "camel robot dragon lizard crab panda spider ant chicken parrot fish octopus dinosaur princess knight wizard pirate "
    "giant farmer fairy ghost unicorn boy girl monster king queen cook tree computer"
).split()

GIRLS = "Mira Anna Lena Zoe Ida Nora Ella Maya Rosa Tilda Wanda Juna Greta Alma Pia".split()
BOYS = "Tom Max Finn Otto Karl Leo Ben Emil Hugo Paul Oskar Ravi Jonas Nils Pavel".split()
KINDS = "small young old clever shy brave quiet merry curious kind".split()
HOMES = (
    "at the edge of a forest", "in a hollow tree", "by a slow river", "under an old bridge", "on a green hill",
    "in a garden behind a mill", "near the sea", "in a warm barn", "below a high mountain", "in a little wooden house",
)
TIMES = (
    "One morning", "One evening", "One day in spring", "One cold day in winter", "On a windy day", "One summer night",
    "After the rain", "On a Sunday",
)
THINGS = "key|lamp|bell|book|map|boat|kite|drum|violin|pebble|coin|red scarf|blue hat|silver spoon|glass ball".split("|")
SPOTS = (
    "under a stone", "in the tall grass", "beside the path", "behind the mill", "on the bank of the river",
    "at the foot of a tree", "in the snow", "between two roots",
)
FOODS = "apples nuts berries honey pears bread cheese soup pancakes plums".split()
MORALS = (
    "From that day on they were friends.",
    "And since then they have met every evening.",
    "So both learned that a shared thing is worth twice as much.",
    "And they told this story many times.",
    "That night they both slept very well.",
    "And if nobody has stopped them, they are still laughing today.",
)
EVENINGS = ("That was a good day.", "It was late when they went home.", "The moon was already high.", "The stars came out.")

ASK_ABOUT = (
    "Tell me a story about {x}.", "Tell me a short story about {x}.", "A story about {x}, please.",
    "Write a story about {x}.", "Write a short story about {x}.", "I want to hear a story about {x}.",
    "Can you tell me a story about {x}?", "Please tell me a story about {x}.", "Do you know a story about {x}?",
    "Tell a story about {x}.", "Make up a story about {x}.", "Give me a story about {x}.",
)
ASK_ANY = (
    "Tell me a story.", "Tell me a short story.", "A story, please.", "Write a story.", "Can you tell me a story?",
    "Please tell me a story.", "Do you know a story?", "I want to hear a story.", "Tell me something nice.",
    "Tell me a story about an animal.", "Tell me a bedtime story.", "Once upon a time",
)
ASK_MORE = ("Tell me another one.", "Another story, please.", "One more story.", "Tell me another story.", "Another one!")


def article(noun):
    """`fox` -> `a fox`, `owl` -> `an owl`."""
    return ("an " if noun[0] in "aeiou" else "a ") + noun


class Hero:
    """A character with a name and its pronouns."""

    def __init__(self, rng, animal, avoid=""):
        girl = rng.random() < 0.5
        names = [name for name in (GIRLS if girl else BOYS) if name != avoid]
        self.animal, self.name, self.kind = animal, rng.choice(names), rng.choice(KINDS)
        self.he, self.his, self.him = ("she", "her", "her") if girl else ("he", "his", "him")
        self.He = self.he.capitalize()


def found(rng, a, b, thing, spot):
    owner = rng.random() < 0.5
    yield f"{rng.choice(TIMES)}, {a.name} found {article(thing)} {spot}."
    yield f'"Whose {thing} is this?" {a.he} asked.'
    yield f"On the way home {a.name} met {article(b.kind)} {b.animal} called {b.name}."
    if owner:
        yield f'"That is mine!" said {b.name}. "I have looked for it all day."'
        yield f"{a.name} gave it back, and {b.name} was so glad that {b.he} shared {b.his} {rng.choice(FOODS)}."
    else:
        yield f'"I have never seen it," said {b.name}, "but we can look for the owner together."'
        yield f"They asked at every house, and in the end they were told to keep it."


def lost(rng, a, b, thing, spot):
    yield f"{a.He} had {article(thing)}, and {a.he} loved it very much."
    yield f"{rng.choice(TIMES)}, it was gone. {a.name} looked everywhere, but it was not there."
    yield f"Then {article(b.kind)} {b.animal} called {b.name} came along."
    yield f'"Why are you so sad?" asked {b.name}. "I have lost my {thing}," said {a.name}.'
    yield f"They looked together, and soon they found it {spot}."


def river(rng, a, b, thing, spot):
    yield f"{rng.choice(TIMES)}, {a.name} wanted to cross the river, but the bridge was broken."
    yield f"{a.He} sat down {spot} and thought for a long time."
    yield f'"I can help you," said {article(b.kind)} {b.animal} called {b.name}.'
    yield f"{b.name} brought wood, {a.name} brought rope, and together they made a new bridge."
    yield f"When it was done, they ate {rng.choice(FOODS)} in the middle of it."


def afraid(rng, a, b, thing, spot):
    yield f"{a.name} was afraid of the dark."
    yield f"{rng.choice(TIMES)}, {a.he} heard a noise {spot}."
    yield f'"Who is there?" {a.he} asked. "Only me," said a small voice. It was {article(b.kind)} {b.animal} called {b.name}.'
    yield f"{b.name} was afraid too, so {a.name} held {b.his} hand and lit a lamp."
    yield "In the light there was nothing to be afraid of."


def feast(rng, a, b, thing, spot):
    food = rng.choice(FOODS)
    yield f"{rng.choice(TIMES)}, {a.name} wanted to make {food}, but nobody came to help."
    yield f"Only {article(b.kind)} {b.animal} called {b.name} stopped and said: \"I have time.\""
    yield f"They worked until noon. Then the smell of {food} went through the whole valley, and everybody came."
    yield f'"You did not help," said {a.name}, "but sit down. There is enough for all."'
    yield f"Only {b.name} got {article(thing)} as a present."


PLOTS = (found, lost, river, afraid, feast)


def tell(rng, animal, friend=None):
    """One story about `animal`; `friend` is the animal it meets."""
    others = [other for other in ANIMALS if other != animal]
    a = Hero(rng, animal)
    b = Hero(rng, friend or rng.choice(others), avoid=a.name)
    opening = rng.choice((
        f"Once upon a time there was {article(a.kind)} {a.animal} called {a.name}.",
        f"There once was {article(a.kind)} {a.animal}, and {a.his} name was {a.name}.",
        f"This is the story of {a.name}, {article(a.kind)} {a.animal}.",
    ))
    parts = [opening, f"{a.name} lived {rng.choice(HOMES)}."]
    parts += rng.choice(PLOTS)(rng, a, b, rng.choice(THINGS), rng.choice(SPOTS))
    if rng.random() < 0.4:
        parts.append(rng.choice(EVENINGS))
    parts.append(rng.choice(MORALS))
    return " ".join(parts)


def made_up_animal(rng):
    """An animal nobody has heard of, so that the model learns to take the animal from the question."""
    return "".join(rng.choice("bdfghklmnprstvz") + rng.choice("aeiou") for _ in range(rng.randint(2, 3))) + rng.choice("nrlx")


def turn(rng):
    """A question for a story and the story."""
    animal = rng.choice(ANIMALS) if rng.random() < 0.7 else made_up_animal(rng)
    kind = rng.random()
    if kind < 0.2:
        return rng.choice(ASK_ANY), tell(rng, animal)
    if kind < 0.35:
        friend = rng.choice([other for other in ANIMALS if other != animal])
        both = f"{article(animal)} and {article(friend)}"
        return rng.choice(ASK_ABOUT).format(x=both), tell(rng, animal, friend)
    return rng.choice(ASK_ABOUT).format(x=article(animal)), tell(rng, animal)
