"""`qrun.llcuda.embeddings`: llcuda's classes over `qrun.Embedder`, and the answers that vectors have to give."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest
import qrun
import qrun.llcuda as llcuda

numpy = pytest.importorskip("numpy")

from qrun.llcuda.embeddings import (  # noqa: E402
    EmbeddingEngine,
    SemanticSearch,
    TextClustering,
    cosine_similarity,
    dot_product_similarity,
    euclidean_distance,
)

TEXTS = ["What is a page table?", "Write a haiku.", "What is a page table for?"]


@pytest.fixture(scope="module")
def embedder() -> EmbeddingEngine:
    with llcuda.InferenceEngine() as engine:
        engine.load_model("demo", silent=True, device="cpu", ctx_size=256)
        return EmbeddingEngine(engine)


@pytest.mark.parametrize(
    "call, expected",
    [
        (EmbeddingEngine, "engine pooling='mean' normalize=True cache_size=1000"),
        (EmbeddingEngine.embed, "text use_cache=True"),
        (EmbeddingEngine.embed_batch, "texts use_cache=True show_progress=False"),
        (SemanticSearch.add_documents, "documents metadata=None show_progress=False"),
        (SemanticSearch.search, "query top_k=5 similarity_fn='cosine'"),
        (TextClustering, "embedder n_clusters=5"),
        (TextClustering.fit, "texts show_progress=False"),
        (TextClustering.get_clusters, "texts labels"),
        (TextClustering.predict, "texts"),
    ],
)
def test_signatures_are_llcudas(call: Any, expected: str) -> None:
    parameters = [p for p in inspect.signature(call).parameters.values() if p.name != "self"]
    assert " ".join(p.name if p.default is p.empty else f"{p.name}={p.default!r}" for p in parameters) == expected


METHODS: "dict[Any, str]" = {
    EmbeddingEngine: "embed embed_batch clear_cache get_cache_stats save_cache load_cache",
    SemanticSearch: "add_documents search save_index load_index clear_index",
    TextClustering: "fit get_clusters predict",
}


@pytest.mark.parametrize("kind", METHODS, ids=lambda kind: kind.__name__)
def test_methods_are_there_and_documented(kind: Any) -> None:
    for name in METHODS[kind].split():
        assert inspect.getdoc(getattr(kind, name)), name


def test_vectors_are_the_embedders_and_kept(embedder: EmbeddingEngine, tmp_path: Path) -> None:
    own = qrun.Embedder(pooling="mean")
    embedder.clear_cache()
    vectors = embedder.embed_batch([*TEXTS, TEXTS[0]], show_progress=True)
    assert vectors.dtype == numpy.float32 and vectors.shape == (4, own.width)
    assert numpy.array_equal(vectors, numpy.array(own.embed([*TEXTS, TEXTS[0]]), dtype=numpy.float32))
    assert numpy.array_equal(embedder.embed(TEXTS[1]), vectors[1]) and embedder.embed_batch([]).shape == (0, own.width)
    stats = embedder.get_cache_stats()
    assert stats == {"cache_size": 3, "cache_max": 1000, "hits": 1, "misses": 4, "hit_rate": 0.2}
    embedder.save_cache(tmp_path / "cache.json")
    small = EmbeddingEngine(own, normalize=False, cache_size=2)
    small.load_cache(tmp_path / "cache.json")
    assert list(small.cache) == [TEXTS[2], TEXTS[0], TEXTS[1]] and numpy.array_equal(small.embed(TEXTS[0]), vectors[0])
    # What was used last stays.
    assert list(small.cache) == [TEXTS[1], TEXTS[0]]
    small.clear_cache()
    raw = small.embed(TEXTS[0], use_cache=False)
    assert small.cache == {} and numpy.allclose(raw / numpy.linalg.norm(raw), vectors[0], atol=1e-6)
    with pytest.raises(TypeError, match="embed takes one"):
        embedder.embed_batch("text")
    with pytest.raises(qrun.UsageError, match="vector for each token"):
        EmbeddingEngine(qrun.Embedder(pooling="none"))


def test_what_embeds(embedder: EmbeddingEngine, tiny: Any) -> None:
    by_path = EmbeddingEngine(str(tiny("tiny-bert")), pooling=None)
    assert by_path.pooling == "cls"
    assert numpy.allclose(by_path.embed("Hello"), qrun.Embedder(tiny("tiny-bert")).embed("Hello"))
    assert numpy.array_equal(EmbeddingEngine("demo").embed("Hello"), embedder.embed("Hello"))
    with qrun.Engine(n_ctx=64, device="cpu") as engine:
        assert EmbeddingEngine(engine, pooling="last").pooling == "last"
    with pytest.raises(qrun.Error, match="load_model"):
        EmbeddingEngine(llcuda.InferenceEngine())


def test_similarities() -> None:
    a, b = numpy.array([3.0, 4.0]), numpy.array([4.0, 3.0])
    assert cosine_similarity(a, b) == pytest.approx(0.96) and cosine_similarity(a, 0 * a) == 0.0
    assert euclidean_distance(a, b) == pytest.approx(2**0.5) and dot_product_similarity(a, b) == 24.0


def test_a_search_finds_the_nearest(embedder: EmbeddingEngine, tmp_path: Path) -> None:
    search = SemanticSearch(embedder)
    assert search.search("anything") == [] and len(search) == 0
    search.add_documents(TEXTS[:1])
    search.add_documents(TEXTS[1:], [{"n": 1}, {"n": 2}])
    assert len(search) == 3 and search.documents == TEXTS
    for how, best in [("cosine", 1.0), ("dot", 1.0), ("euclidean", 0.0)]:
        found = search.search(TEXTS[2], top_k=2, similarity_fn=how)
        assert found[0] == (TEXTS[2], pytest.approx(best, abs=1e-3), {"n": 2})
        assert len(found) == 2 and found[0][1] >= found[1][1]
    # The nearest by hand.
    scores = [cosine_similarity(embedder.embed("Hello"), embedder.embed(text)) for text in TEXTS]
    assert [text for text, _, _ in search.search("Hello")] == [t for _, t in sorted(zip(scores, TEXTS), reverse=True)]
    with pytest.raises(ValueError, match="cosine, dot or euclidean"):
        search.search("Hello", similarity_fn="manhattan")
    with pytest.raises(qrun.UsageError, match="one for each of 3"):
        search.add_documents(TEXTS, [{}])
    search.save_index(tmp_path / "index.json")
    again = SemanticSearch(embedder)
    again.load_index(tmp_path / "index.json")
    assert again.search(TEXTS[2]) == search.search(TEXTS[2]) and again.metadata == search.metadata
    search.clear_index()
    assert len(search) == 0 and search.search("Hello") == []


class Points(EmbeddingEngine):
    """Texts that say their own vectors."""

    def __init__(self) -> None:
        pass

    def embed_batch(self, texts: Any, use_cache: bool = True, show_progress: bool = False) -> Any:
        return numpy.array([[float(x) for x in text.split()] for text in texts], dtype=numpy.float32)


def test_clusters(embedder: EmbeddingEngine) -> None:
    points = [f"{x + dx} {y + dy}" for x, y in [(0, 0), (9, 0), (0, 9)] for dx in (0, 1) for dy in (0, 1)]
    clustering = TextClustering(Points(), n_clusters=3)
    with pytest.raises(RuntimeError, match="fit"):
        clustering.predict(points)
    labels = clustering.fit(points)
    assert [len(set(labels[at : at + 4])) for at in (0, 4, 8)] == [1, 1, 1] and set(labels) == {0, 1, 2}
    assert list(clustering.predict(["0.4 0.4", "9 1", "1 10"])) == [labels[0], labels[4], labels[8]]
    clusters = clustering.get_clusters(points, labels)
    assert sorted(clusters.values()) == sorted([points[:4], points[4:8], points[8:]])
    assert numpy.allclose(clustering.cluster_centers[labels[4]], [9.5, 0.5])
    assert list(clustering.fit(points)) == list(labels)
    # More groups than different texts, and as many as texts.
    assert set(TextClustering(Points(), 3).fit(["1 1"] * 4)) == {0}
    assert sorted(TextClustering(embedder, 3).fit(TEXTS)) == [0, 1, 2]
    with pytest.raises(qrun.UsageError, match="expected 1 to 2"):
        TextClustering(embedder, 3).fit(TEXTS[:2])
