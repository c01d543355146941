"""Makes the small vocabularies and the expected tokens that tests/tokenizer reads.

    python make.py SHARED        (SHARED/vocab holds the four large vocabularies)

Needs gguf, tokenizers, sentencepiece and llama-cpp-python. Writes, beside itself, tiny-*.gguf and
expected.tsv: one line per text, the text as a JSON string and for each vocabulary the number of tokens
and a 32-bit FNV-1a hash of them (each as four little-endian bytes). Nothing special is added or parsed.
"""

import io
import json
import random
import sys
from pathlib import Path

import gguf
import llama_cpp
import sentencepiece as spm
from sentencepiece import sentencepiece_model_pb2 as proto
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

HERE = Path(__file__).parent
SHARED = Path(sys.argv[1]) / "vocab"
CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SPLIT = {"llama-bpe": CONTRACTIONS + r"\p{N}{1,3}" + REST, "qwen2": CONTRACTIONS + r"\p{N}" + REST}
NORMAL, UNKNOWN, CONTROL, USER, BYTE = 1, 2, 3, 4, 6

WORDS = """the of and to in is that it was for on are with as his they be at one have this from or had by hot but some what
there we can out other were all your when up use word how said an each she which do their time if will way about many
then them would write like so these her long make thing see him two has look more day could go come did my sound no most
number who over know water than call first people may down side been now find don't can't I'll we're you've HE'S
straße naïve café Привет мир здравствуйте 你好 世界 中文 東京 カタカナ 안녕 مرحبا नमस्ते ไทย ελληνικά ŠČ İstanbul ǅ
fn let mut return self->x += 1; if (a==b) { i++; } std::vec<T> #include <stdio.h> https://example.org/?q=1&r=2
3.14159 1234567890 42 1,000,000 ½ Ⅷ ٣ 0x1F 1e-9 😀 👩‍👩‍👧 🇩🇪 ✅ e\u0301 n\u0303o \u200b \ufeff ﷺ \U0001f9ff \u2581 a\u2581b""".split()
GAPS = [" "] * 12 + ["  ", "   ", "\n", "\n\n", "\t", " \n ", "\r\n", "\u00a0", "\u3000", "", "", ", ", ". ", "!? "]


def texts(n):
    rng = random.Random(2)
    out = []
    for i in range(n):
        if i % 3 == 2:  # few different characters: ties and long runs
            alphabet = rng.sample("ab e1 .'=-\n\té😀中<", rng.randint(1, 4))
            out.append("".join(rng.choice(alphabet) for _ in range(rng.randint(1, 60))))
        else:
            out.append("".join(rng.choice(WORDS) + rng.choice(GAPS) for _ in range(rng.randint(1, 14))))
    return out


def fields(path):
    reader = gguf.GGUFReader(path)
    get = lambda key: reader.fields[key].contents() if key in reader.fields else None
    return {k: get("tokenizer.ggml." + k) for k in ("model", "pre", "tokens", "scores", "token_type", "merges", "add_space_prefix")}


def write(path, f, **ids):
    w = gguf.GGUFWriter(path, "llama")
    w.add_tokenizer_model(f["model"])
    w.add_tokenizer_pre(f["pre"])
    w.add_token_list(f["tokens"])
    w.add_token_types(f["token_type"])
    if f.get("scores"):
        w.add_token_scores(f["scores"])
        w.add_add_space_prefix(f["add_space_prefix"])
    if f.get("merges"):
        w.add_token_merges(f["merges"])
    for role, id in ids.items():
        w.add_uint32(f"tokenizer.ggml.{role}_token_id", id)
    w.add_add_bos_token(True)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.close()


def train_spm(path, corpus, prefix):
    model = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus), model_writer=model, model_type="bpe", vocab_size=1600, byte_fallback=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False, add_dummy_prefix=prefix,
        character_coverage=0.999, user_defined_symbols=[] if prefix else ["<b>", "</b>"], minloglevel=2)
    m = proto.ModelProto.FromString(model.getvalue())
    p = m.pieces
    write(path, dict(model="llama", pre="default", tokens=[x.piece for x in p], scores=[x.score for x in p],
                     token_type=[x.type for x in p], add_space_prefix=prefix), unknown=0, bos=1, eos=2)


def train_bpe(path, corpus, name):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizer(name)
    specials = ["<|begin|>", "<|eot_id|>"]
    t.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=1500, special_tokens=specials, show_progress=False,
                                                      initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    m = json.loads(t.to_str())["model"]
    tokens = sorted(m["vocab"], key=m["vocab"].get)
    merges = [" ".join(x) for x in m["merges"]]
    types = [CONTROL if x in specials else NORMAL for x in tokens]
    write(path, dict(model="gpt2", pre=name, tokens=tokens, token_type=types, merges=merges), bos=0, eos=1)


def pre_tokenizer(name):
    split = pre_tokenizers.Split(Regex(SPLIT[name]), "isolated")
    return pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def sentencepiece(f):
    m = proto.ModelProto()
    m.trainer_spec.model_type = 2
    m.trainer_spec.byte_fallback = True
    m.trainer_spec.vocab_size = len(f["tokens"])
    m.normalizer_spec.name = "identity"
    m.normalizer_spec.remove_extra_whitespaces = False
    m.normalizer_spec.add_dummy_prefix = f["add_space_prefix"] is not False
    for piece, score, kind in zip(f["tokens"], f["scores"], f["token_type"]):
        m.pieces.add(piece=piece, score=score, type=kind)
    p = spm.SentencePieceProcessor(model_proto=m.SerializeToString())
    return lambda text: p.encode(text)


def hugging_face(f):
    vocab = {t: i for i, t in enumerate(f["tokens"])}
    merges = [tuple(m.split(" ")) for m in f["merges"]]
    t = Tokenizer(models.BPE(vocab, merges, ignore_merges=f["pre"] == "llama-bpe"))
    t.pre_tokenizer = pre_tokenizer(f["pre"])
    t.decoder = decoders.ByteLevel()
    t.add_tokens([AddedToken(x, normalized=False) for x, k in zip(f["tokens"], f["token_type"]) if k == USER])
    return lambda text: t.encode(text, add_special_tokens=False).ids


def llama_cpp_python(path):
    m = llama_cpp.Llama(str(path), vocab_only=True, verbose=False)
    return lambda text: m.tokenize(text.encode(), add_bos=False, special=False)


def fnv(ids):
    h = 0x811C9DC5
    for byte in b"".join(i.to_bytes(4, "little") for i in ids):
        h = (h ^ byte) * 0x01000193 & 0xFFFFFFFF
    return f"{len(ids)}:{h:08x}"


def main():
    corpus = texts(4000)
    train_spm(HERE / "tiny-llama.gguf", corpus, True)
    train_spm(HERE / "tiny-gemma.gguf", corpus, False)
    train_bpe(HERE / "tiny-llama3.gguf", corpus, "llama-bpe")
    train_bpe(HERE / "tiny-qwen.gguf", corpus, "qwen2")
    cases = texts(300)
    columns = {}
    files = [HERE / f"tiny-{x}.gguf" for x in ("llama", "gemma", "llama3", "qwen")]
    files += [SHARED / f"{x}.gguf" for x in ("llama-spm", "gemma-spm", "llama-bpe", "qwen2")]
    for path in files:
        f = fields(path)
        cpp = llama_cpp_python(path)
        if path.stem == "gemma-spm":  # marks ordinary pieces as user-defined: no model of sentencepiece does
            judge = cpp
        else:
            judge = sentencepiece(f) if f["model"] == "llama" else hugging_face(f)
        results = [judge(text) for text in cases]
        differing = [t for t, ids in zip(cases, results) if cpp(t) != ids]
        print(path.stem, "texts that llama.cpp cuts otherwise:", len(differing), differing[:2])
        columns[path.stem] = [fnv(ids) for ids in results]
    with open(HERE / "expected.tsv", "w", encoding="utf-8") as out:
        print("text", *columns, sep="\t", file=out)
        for text, *row in zip(cases, *columns.values()):
            print(json.dumps(text), *row, sep="\t", file=out)


main()
