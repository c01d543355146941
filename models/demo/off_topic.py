"""Questions that have nothing to do with qrun, and messages of the system that change nothing."""

from words import OFF_TOPIC, OFF_TOPIC_FORMS, OFF_TOPIC_THINGS

UNKNOWN = "I do not know that, because I am a very small model. Ask me about qrun, for a story or for a small sum."


def turn(rng):
    if rng.random() < 0.35:
        return rng.choice(OFF_TOPIC), UNKNOWN
    return rng.choice(OFF_TOPIC_FORMS).format(x=rng.choice(OFF_TOPIC_THINGS)), UNKNOWN


def system_message(rng):
    return rng.choice(("You are a friendly model.", "Answer shortly.", "You speak like a king.", "Be nice."))
