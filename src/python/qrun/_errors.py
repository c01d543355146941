"""What goes wrong, by kind: each is also the exception of Python's own that fits."""

from __future__ import annotations


class Error(RuntimeError):
    """Whatever qrun raises; the classes below say what it was.

    >>> import qrun
    >>> try:
    ...     qrun.Engine("no-such-file.gguf")
    ... except qrun.Error as error:
    ...     type(error).__name__
    'ModelNotFound'
    """

    __module__ = "qrun"


class UsageError(Error, ValueError):
    """A value that cannot be: a parameter outside of its range, a prompt that is too long."""

    __module__ = "qrun"


class ModelFileError(Error):
    """A file that is damaged, or no model that qrun runs."""

    __module__ = "qrun"


class ModelNotFound(FileNotFoundError, ModelFileError):
    """There is no such model, neither as a file nor by this name."""

    __module__ = "qrun"


class OutOfMemory(Error, MemoryError):
    """The model and its context do not fit; the message says what would."""

    __module__ = "qrun"


class DeviceError(Error):
    """The GPU that was asked for cannot be had, or has failed."""

    __module__ = "qrun"


class TemplateError(Error):
    """The chat template is missing or broken, or refuses the conversation."""

    __module__ = "qrun"


class DownloadError(OSError, Error):
    """A model could not be fetched."""

    __module__ = "qrun"


class GatedModel(DownloadError):
    """The model's page asks for its licence to be accepted, or for a token."""

    __module__ = "qrun"


class Unsupported(Error, NotImplementedError):
    """qrun does not have it; the message says why, and what there is."""

    __module__ = "qrun"


class DeviceWarning(UserWarning):
    """A GPU could not be used or was given up; the CPU answers."""

    __module__ = "qrun"
