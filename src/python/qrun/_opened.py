"""What holds a model until it is closed."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from types import TracebackType
    from typing import Any, TypeVar

    Self = TypeVar("Self", bound="Opened")


class Opened:
    """Is closed at the end of a `with`, and refuses to be pickled."""

    _path: str | os.PathLike[str] | None

    def close(self) -> None:
        """Frees the memory."""
        raise NotImplementedError

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        name = type(self).__name__
        what = f"the demo model, qrun.{name}()" if self._path is None else repr(str(self._path))
        raise TypeError(f"an {name} cannot be pickled: pickle the path and open it again there: {what}")
