"""Signatures as the source has them: annotations and defaults as they are written, not as Python evaluates them."""

import ast
import dataclasses
import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

WIDTH = 100


def signature(value: Callable[..., Any], *, name: str) -> str:
    """What a call looks like, on several lines if it is long; nothing for a class that takes no arguments.

    >>> signature(textwrap.wrap, name="wrap")
    'wrap(text, width=70, **kwargs)'
    """
    if inspect.isclass(value):
        parts, returns = list(_of_class(value)), ""
        if not parts:
            return ""
    else:
        tree = _parsed(value)
        parts = [part for part in _of_function(tree) if part not in ("self", "cls")]
        returns = f" -> {ast.unparse(tree.returns)}" if tree.returns else ""
    whole = f"{name}({', '.join(parts)}){returns}"
    if len(whole) <= WIDTH:
        return whole
    return "\n".join([f"{name}(", *(f"    {part}," for part in parts), f"){returns}"])


def _of_class(kind: type) -> Iterator[str]:
    """The parameters of its constructor: written in one of its bases, or the fields of a dataclass."""
    for base in kind.__mro__:
        if base is object or base.__module__ in ("builtins", "typing", "abc"):
            return
        written = vars(base).get("__init__")
        if dataclasses.is_dataclass(base) and not _is_written(written, base):
            yield from _of_fields(base)
            return
        if inspect.isfunction(written) and _is_written(written, base):
            parts = list(_of_function(_parsed(written)))[1:]
            yield from parts
            return


def _is_written(function: Any, kind: type) -> bool:
    """Whether it stands in a file; those of dataclasses and protocols are made up."""
    return inspect.isfunction(function) and function.__code__.co_filename == inspect.getsourcefile(kind)


def _of_fields(kind: type) -> Iterator[str]:
    written = {}
    for base in reversed(kind.__mro__):
        if dataclasses.is_dataclass(base):
            for node in _parsed_class(base).body:
                if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                    written[node.target.id] = node
    keyword_only = False
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]
        if not field.init:
            continue
        if field.kw_only and not keyword_only:
            keyword_only = True
            yield "*"
        node = written[field.name]
        yield f"{field.name}: {ast.unparse(node.annotation)}{_default(node.value)}"


def _default(value: ast.expr | None) -> str:
    """The default of a field; a factory is shown as what it makes."""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "field":
        given = {keyword.arg: ast.unparse(keyword.value) for keyword in value.keywords}
        if "default_factory" in given:
            return f" = {given['default_factory']}()"
        return f" = {given['default']}" if "default" in given else ""
    return f" = {ast.unparse(value)}" if value else ""


def _of_function(tree: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    given = tree.args
    positional = [*given.posonlyargs, *given.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(given.defaults))
    for i, (argument, default) in enumerate(zip(positional, [*defaults, *given.defaults], strict=True)):
        yield _argument(argument, default)
        if given.posonlyargs and i == len(given.posonlyargs) - 1:
            yield "/"
    if given.vararg:
        yield f"*{_argument(given.vararg, None)}"
    elif given.kwonlyargs:
        yield "*"
    for argument, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        yield _argument(argument, default)
    if given.kwarg:
        yield f"**{_argument(given.kwarg, None)}"


def _argument(argument: ast.arg, default: ast.expr | None) -> str:
    told = ast.unparse(argument)
    if default is None:
        return told
    return f"{told} = {ast.unparse(default)}" if argument.annotation else f"{told}={ast.unparse(default)}"


def _parsed(function: Any) -> ast.FunctionDef | ast.AsyncFunctionDef:
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function)))).body
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef), function
    return node


def _parsed_class(kind: type) -> ast.ClassDef:
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(node, ast.ClassDef), kind
    return node
