"""llcuda.embeddings: vectors of texts, by `qrun.Embedder`; search and clusters with them. Needs numpy, as there.

>>> import qrun
>>> embedder = EmbeddingEngine(qrun.Embedder(pooling="mean"))
>>> search = SemanticSearch(embedder)
>>> search.add_documents(["What is a page table?", "Write a haiku."])
>>> search.search("What is a page table?", top_k=1)[0][0]
'What is a page table?'
"""

from __future__ import annotations

import importlib.util
import json
import time
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from .. import Embedder, Engine, UsageError
from ..llama import is_demo
from ._engine import InferenceEngine

__all__ = [
    "EmbeddingEngine", "cosine_similarity", "euclidean_distance", "dot_product_similarity", "SemanticSearch",
    "TextClustering",
]  # fmt: skip

TOGETHER = 32
"""Texts that are embedded between two steps of the bar."""


class EmbeddingEngine:
    """Vectors of texts, which are kept: of a text that comes again nothing is computed.

    `engine`: an `InferenceEngine` with a model, whose file is opened a second time; a path, a name or "demo"; or a
    `qrun.Embedder`, whose own pooling holds. `pooling`: "mean", "cls", "last"; None: as the file says.
    """

    def __init__(
        self,
        engine: Union[InferenceEngine, Engine, Embedder, str, Path],
        pooling: Optional[str] = "mean",
        normalize: bool = True,
        cache_size: int = 1000,
    ) -> None:
        self.engine = engine
        own = engine.engine if isinstance(engine, InferenceEngine) else engine
        path = own._path if isinstance(own, Engine) else own
        file = None if path is None or is_demo(str(path)) else path
        self._embedder = file if isinstance(file, Embedder) else Embedder(file, pooling=pooling)
        self.pooling = self._embedder.pooling
        if self.pooling == "none":
            raise UsageError('pooling: this model gives a vector for each token; expected "mean", "cls" or "last"')
        self.normalize = normalize
        self.cache_size = cache_size
        self.clear_cache()

    def embed(self, text: str, use_cache: bool = True) -> Any:
        """The vector of a text, a numpy array of float32."""
        return self.embed_batch([text], use_cache)[0]

    def embed_batch(self, texts: Sequence[str], use_cache: bool = True, show_progress: bool = False) -> Any:
        """The vectors of texts, a numpy array [n, width]; `show_progress`: with a bar where tqdm is there."""
        import numpy

        if isinstance(texts, str):
            raise TypeError("texts: expected a list of texts, found a text; embed takes one")
        found: Dict[str, Any] = {text: self.cache[text] for text in texts if use_cache and text in self.cache}
        self.cache_hits += sum(text in found for text in texts)
        self.cache_misses += sum(text not in found for text in texts)
        new = [text for text in dict.fromkeys(texts) if text not in found]
        parts: Any = [new[at : at + TOGETHER] for at in range(0, len(new), TOGETHER)]
        if show_progress and importlib.util.find_spec("tqdm"):
            from tqdm.auto import tqdm  # type: ignore[import-untyped,unused-ignore]

            parts = tqdm(parts, desc="Embedding")
        for part in parts:
            found.update(zip(part, _array(self._embedder.embed(part, normalize=self.normalize))))
        if use_cache:
            for text in texts:
                # The one that was used last is the last to go.
                self.cache.pop(text, None)
                self.cache[text] = found[text]
            for text in list(self.cache)[: max(len(self.cache) - self.cache_size, 0)]:
                del self.cache[text]
        whole = numpy.array([found[text] for text in texts], dtype=numpy.float32)
        return whole.reshape(len(texts), self._embedder.width)

    def clear_cache(self) -> None:
        """Forgets all vectors."""
        self.cache: Dict[str, Any] = {}
        self.cache_hits = 0
        self.cache_misses = 0

    def get_cache_stats(self) -> Dict[str, Any]:
        """How many vectors are kept, and how often they were of use."""
        asked = self.cache_hits + self.cache_misses
        return {
            "cache_size": len(self.cache),
            "cache_max": self.cache_size,
            "hits": self.cache_hits,
            "misses": self.cache_misses,
            "hit_rate": self.cache_hits / asked if asked else 0,
        }

    def save_cache(self, filepath: Union[str, Path]) -> None:
        """Writes the vectors that are kept as JSON, as llcuda does."""
        vectors = {text: vector.tolist() for text, vector in self.cache.items()}
        settings = {"pooling": self.pooling, "normalize": self.normalize, "timestamp": time.time()}
        Path(filepath).write_text(json.dumps({"embeddings": vectors, "metadata": settings}), encoding="utf-8")

    def load_cache(self, filepath: Union[str, Path]) -> None:
        """Reads vectors that qrun or llcuda wrote, in place of those that are kept."""
        data = json.loads(Path(filepath).read_text(encoding="utf-8"))
        self.cache = {text: _array(vector) for text, vector in data["embeddings"].items()}


def cosine_similarity(vec1: Any, vec2: Any) -> float:
    """The cosine of the angle between two vectors; 0 where one of them is zero.

    >>> round(cosine_similarity([1, 1], [2, 2]), 6), cosine_similarity([0, 0], [1, 0])
    (1.0, 0.0)
    """
    return float(_scores("cosine", _array(vec1), _array([vec2]))[0])


def euclidean_distance(vec1: Any, vec2: Any) -> float:
    """The length of the difference of two vectors.

    >>> euclidean_distance([0, 0], [3, 4])
    5.0
    """
    return -float(_scores("euclidean", _array(vec1), _array([vec2]))[0])


def dot_product_similarity(vec1: Any, vec2: Any) -> float:
    """The dot product of two vectors.

    >>> dot_product_similarity([1, 2], [3, 4])
    11.0
    """
    return float(_scores("dot", _array(vec1), _array([vec2]))[0])


def _scores(how: str, vector: Any, others: Any) -> Any:
    """How near each of `others` is to a vector, the nearest with the highest score."""
    import numpy

    if how == "euclidean":
        return -numpy.linalg.norm(others - vector, axis=1)
    if how not in ("cosine", "dot"):
        raise ValueError(f"similarity_fn: expected cosine, dot or euclidean, found {how!r}")
    dots = others @ vector
    if how == "dot":
        return dots
    lengths = numpy.linalg.norm(others, axis=1) * numpy.linalg.norm(vector)
    return numpy.divide(dots, lengths, out=numpy.zeros_like(dots), where=lengths > 0)


class SemanticSearch:
    """Documents, and which of them are near to a question."""

    def __init__(self, embedder: EmbeddingEngine) -> None:
        self.embedder = embedder
        self.documents: List[str] = []
        self.embeddings: Any = None
        self.metadata: List[Dict[str, Any]] = []

    def add_documents(
        self, documents: Sequence[str], metadata: Optional[Sequence[Dict[str, Any]]] = None, show_progress: bool = False
    ) -> None:
        """Adds documents, with what is to be known of each."""
        import numpy

        notes = [{} for _ in documents] if metadata is None else list(metadata)
        if len(notes) != len(documents):
            raise UsageError(f"metadata: expected one for each of {len(documents)} documents, found {len(notes)}")
        if not documents:
            return
        vectors = self.embedder.embed_batch(documents, show_progress=show_progress)
        self.embeddings = vectors if self.embeddings is None else numpy.vstack([self.embeddings, vectors])
        self.documents += documents
        self.metadata += notes

    def search(
        self, query: str, top_k: int = 5, similarity_fn: str = "cosine"
    ) -> List[Tuple[str, float, Dict[str, Any]]]:
        """The nearest documents, the nearest first: each with its score and what is known of it.

        `similarity_fn`: "cosine", "dot", or "euclidean", whose scores are distances below zero.
        """
        if self.embeddings is None:
            return []
        scores = _scores(similarity_fn, self.embedder.embed(query), self.embeddings)
        nearest = (-scores).argsort(kind="stable")[: max(top_k, 0)]
        return [(self.documents[i], float(scores[i]), self.metadata[i]) for i in nearest]

    def save_index(self, filepath: Union[str, Path]) -> None:
        """Writes documents and vectors as JSON, as llcuda does."""
        vectors = None if self.embeddings is None else self.embeddings.tolist()
        data = {"documents": self.documents, "embeddings": vectors, "metadata": self.metadata}
        Path(filepath).write_text(json.dumps(data), encoding="utf-8")

    def load_index(self, filepath: Union[str, Path]) -> None:
        """Reads what qrun or llcuda wrote, in place of the documents that are here."""
        data = json.loads(Path(filepath).read_text(encoding="utf-8"))
        self.documents, self.metadata = data["documents"], data["metadata"]
        self.embeddings = _array(data["embeddings"]) if data["embeddings"] else None

    def clear_index(self) -> None:
        """Forgets all documents."""
        self.documents, self.embeddings, self.metadata = [], None, []

    def __len__(self) -> int:
        return len(self.documents)


class TextClustering:
    """Texts in groups of those that are near to each other, by k-means. llcuda needs scikit-learn for it.

    >>> import qrun
    >>> clustering = TextClustering(EmbeddingEngine(qrun.Embedder(pooling="mean")), n_clusters=2)
    >>> texts = ["What is a page table?", "Hello", "What is a page table?"]
    >>> labels = clustering.fit(texts)
    >>> sorted(map(len, clustering.get_clusters(texts, labels).values()))
    [1, 2]
    """

    def __init__(self, embedder: EmbeddingEngine, n_clusters: int = 5) -> None:
        self.embedder = embedder
        self.n_clusters = n_clusters
        self.cluster_centers: Any = None

    def fit(self, texts: Sequence[str], show_progress: bool = False) -> Any:
        """Finds the groups; the number of each text's group, a numpy array. The same texts give the same groups."""
        import numpy

        if not 1 <= self.n_clusters <= len(texts):
            raise UsageError(f"n_clusters: expected 1 to {len(texts)}, as many as there are texts, found {self.n_clusters}")
        vectors = self.embedder.embed_batch(texts, show_progress=show_progress)
        draw = numpy.random.default_rng(42)
        # What k-means finds depends on where it begins: the best of ten.
        found = [_centers(vectors, self.n_clusters, draw) for _ in range(10)]
        self.cluster_centers = min(found, key=lambda centers: float(_nearest(vectors, centers)[1].sum()))
        return _nearest(vectors, self.cluster_centers)[0]

    def get_clusters(self, texts: Sequence[str], labels: Any) -> Dict[int, List[str]]:
        """The texts of each group."""
        clusters: Dict[int, List[str]] = {}
        for text, label in zip(texts, labels):
            clusters.setdefault(int(label), []).append(text)
        return clusters

    def predict(self, texts: Sequence[str]) -> Any:
        """The number of the nearest group of each text."""
        if self.cluster_centers is None:
            raise RuntimeError("no groups yet: fit finds them")
        return _nearest(self.embedder.embed_batch(texts), self.cluster_centers)[0]


def _nearest(vectors: Any, centers: Any) -> Tuple[Any, Any]:
    """For each vector the nearest center and the square of its distance."""
    import numpy

    squares = numpy.stack([((vectors - center) ** 2).sum(axis=1) for center in centers], axis=1)
    return squares.argmin(axis=1), squares.min(axis=1)


def _centers(vectors: Any, n: int, draw: Any) -> Any:
    """The centers of `n` groups, by k-means: it begins far apart (k-means++)."""
    import numpy

    centers = vectors[[draw.integers(len(vectors))]]
    while len(centers) < n:
        far = _nearest(vectors, centers)[1].astype(numpy.float64)
        # Where every text is a center already, any is as good as another.
        at = draw.choice(len(vectors), p=far / far.sum() if far.any() else None)
        centers = numpy.vstack([centers, vectors[at]])
    for _ in range(100):
        labels, _ = _nearest(vectors, centers)
        groups = [vectors[labels == i] for i in range(n)]
        moved = numpy.array([group.mean(axis=0) if len(group) else centers[i] for i, group in enumerate(groups)])
        if numpy.array_equal(moved, centers):
            break
        centers = moved
    return centers


def _array(values: Any) -> Any:
    import numpy

    return numpy.asarray(values, dtype=numpy.float32)
