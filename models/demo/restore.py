"""Makes a run folder from a GGUF file of this model, so that `train.py --resume` can go on from it.

    python restore.py qrun-demo-BF16.gguf --out run --pieces pieces.txt
"""

import argparse
import textwrap
from pathlib import Path

import gguf
import numpy
import torch
from sentencepiece import sentencepiece_model_pb2 as sp

import vocabulary

# SentencePiece knows the line feed as a piece of the user's, which a GGUF file of this model calls normal.
KINDS = {
    gguf.TokenType.NORMAL: sp.ModelProto.SentencePiece.NORMAL,
    gguf.TokenType.UNKNOWN: sp.ModelProto.SentencePiece.UNKNOWN,
    gguf.TokenType.CONTROL: sp.ModelProto.SentencePiece.CONTROL,
    gguf.TokenType.BYTE: sp.ModelProto.SentencePiece.BYTE,
}


def pieces_of(reader):
    """The SentencePiece model, as bytes."""
    tokens, scores, kinds = (
        reader.fields[f"tokenizer.ggml.{name}"].contents() for name in ("tokens", "scores", "token_type")
    )
    model = sp.ModelProto()
    for token, score, kind in zip(tokens, scores, kinds):
        is_newline = token == "\n"
        kind = sp.ModelProto.SentencePiece.USER_DEFINED if is_newline else KINDS[gguf.TokenType(kind)]
        model.pieces.add(piece=token, score=score, type=kind)
    spec, plain = model.trainer_spec, model.normalizer_spec
    spec.model_type, spec.vocab_size, spec.byte_fallback = sp.TrainerSpec.BPE, len(tokens), True
    spec.pad_id, spec.eos_id, spec.bos_id, spec.unk_id = vocabulary.PAD, vocabulary.EOS, vocabulary.BOS, vocabulary.UNK
    spec.pad_piece, spec.eos_piece, spec.bos_piece, spec.unk_piece = "<pad>", "<eos>", "<bos>", "<unk>"
    spec.split_digits, spec.control_symbols[:], spec.user_defined_symbols[:] = True, vocabulary.CONTROL, ["\n"]
    plain.name, plain.add_dummy_prefix, plain.remove_extra_whitespaces = "identity", False, False
    plain.escape_whitespaces = True
    return model.SerializeToString()


def state_of(reader):
    """The weights by the names of model.py: norms without the 1 that training leaves out."""
    state = {}
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(numpy.float32)
        values = torch.from_numpy(values.reshape([int(n) for n in reversed(tensor.shape)]).copy())
        name = "token_embd" if tensor.name == "token_embd.weight" else tensor.name
        state[name] = values - 1 if values.ndim == 1 else values
    return state


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="folder for checkpoint.pt and vocabulary.model")
    parser.add_argument("--pieces", type=Path, help="write the pieces of letters here, of which people.py makes names")
    args = parser.parse_args()
    reader = gguf.GGUFReader(args.model)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "vocabulary.model").write_bytes(pieces_of(reader))
    if args.pieces:
        tokens = reader.fields["tokenizer.ggml.tokens"].contents()
        letters = [token for token in tokens if token.strip("\u2581").isascii() and token.strip("\u2581").isalpha()]
        args.pieces.write_text("\n".join(textwrap.wrap(" ".join(letters), 120)) + "\n", encoding="utf-8")
    torch.save({"model": state_of(reader), "step": 0}, args.out / "checkpoint.pt")


if __name__ == "__main__":
    main()
