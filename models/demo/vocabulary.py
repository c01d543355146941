"""The vocabulary: SentencePiece BPE with byte fallback, laid out like Gemma's (<pad> <eos> <bos> <unk> first)."""

import random
import tempfile
from pathlib import Path

import sentencepiece

from facts import read_facts
from generate import conversation

SIZE = 2048
PAD, EOS, BOS, UNK, START, END, NEWLINE = range(7)
CONTROL = "<start_of_turn>", "<end_of_turn>"

# Weights in the loss. Questions count a little: they shape the embeddings of words that only users write, and what is not
# predicted at all becomes so arbitrary that rounding the weights changes it much. The first tokens of an answer decide
# which one it is. The digits of a result are few and hard. The words of a story are a matter of taste.
QUESTION, DECISION, SUM, RESULT, NAME, STORY = 0.06, 2.0, 2.0, 4.0, 4.0, 0.3


def train_vocabulary(path, seed=5, conversations=15000):
    """Writes a SentencePiece model to `path`. The text is that of the generator, without the chat marks."""
    rng, facts = random.Random(seed), read_facts()
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "text.txt"
        with text.open("w", encoding="utf-8") as file:
            for _ in range(conversations):
                for question, answer in conversation(rng, facts)[1]:
                    file.write(f"user\n{question}\nmodel\n{answer}\n")
        sentencepiece.SentencePieceTrainer.train(
            input=str(text), model_prefix=str(Path(folder) / "v"), model_type="bpe", vocab_size=SIZE,
            pad_id=PAD, eos_id=EOS, bos_id=BOS, unk_id=UNK, pad_piece="<pad>", eos_piece="<eos>", bos_piece="<bos>",
            unk_piece="<unk>", control_symbols=",".join(CONTROL), user_defined_symbols=["\n"],
            byte_fallback=True, split_digits=True, character_coverage=0.9999, normalization_rule_name="identity",
            add_dummy_prefix=False, remove_extra_whitespaces=False, num_threads=1, minloglevel=1,
        )
        path.write_bytes((Path(folder) / "v.model").read_bytes())


class Vocabulary:
    """Text to ids and back, and conversations to training rows."""

    def __init__(self, path):
        self.pieces = sentencepiece.SentencePieceProcessor(model_file=str(path))
        assert self.pieces.get_piece_size() == SIZE
        assert self.pieces.piece_to_id("<end_of_turn>") == END and self.pieces.piece_to_id("\n") == NEWLINE
        self.user, self.model = self.pieces.encode("user\n"), self.pieces.encode("model\n")
        self.equals = self.pieces.encode("1 =")[-1]

    def prompt(self, question, system=None):
        """Ids of one question, up to the point where the model speaks; a system message joins it, as in Gemma."""
        text = f"{system}\n\n{question}" if system else question
        return [START, *self.user, *self.pieces.encode(text), END, NEWLINE, START, *self.model]

    def opening(self, turns, system=None):
        """A conversation as `document` gives it, without most of its last answer.

        Which answer it is shows in its first tokens; the rest follows, and is met often enough elsewhere.
        """
        ids, weights = self.document(turns, system)
        answer = turns[-1][1]
        keep = len(self.pieces.encode(answer.split("!")[0])) if answer.startswith("Hello ") else 8
        rest = len(self.pieces.encode(answer)) - keep - 2
        return (ids[:-rest], weights[:-rest]) if rest > 4 else (ids, weights)

    def document(self, turns, system=None):
        """Ids of a conversation, and for each id how much it matters that the model says it."""
        ids, weights = [BOS], [QUESTION]
        for i, (question, answer) in enumerate(turns):
            asked, said = self.prompt(question, None if i else system), [*self.pieces.encode(answer), END]
            ids += asked + said + [NEWLINE]
            weights += [QUESTION] * len(asked) + self.answer_weights(answer, said) + [QUESTION]
        return ids, weights

    def answer_weights(self, answer, said):
        if self.equals in said:
            return [RESULT if self.equals in said[:i] else SUM for i in range(len(said))]
        if answer.startswith(("Hello ", "Your name is ")):
            name = len(self.pieces.encode(answer.split("!")[0])) + 1
            return [NAME if i < name else 1.0 for i in range(len(said))]
        if len(said) < 24 and answer[-1] not in ".!":
            return [NAME] * len(said)
        decided, rest = (14, STORY) if len(said) > 80 else (5, 1.0)
        return [DECISION if i < decided else rest for i in range(len(said))]

    def text(self, ids):
        return self.pieces.decode(ids)
