"""Writes docs/reference.md from the code: every public name, its signature and its docstring.

python docs/make_reference.py          write it
python docs/make_reference.py --check  say whether it is current
"""

import ast
import importlib
import inspect
import itertools
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from signatures import signature

PAGE = Path(__file__).with_name("reference.md")
INTRODUCTION = """# Reference

Every public name, from the code by `docs/make_reference.py`. `sw` is `import spillway as sw`.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    """Some names of one module, or all of them."""

    title: str
    module: str
    names: tuple[str, ...] = ()


_TOP = {
    "Graphs and runs": "Graph Stream run session session_settings Run LocalRun explain verify SpillwayError",
    "Queries of your own": "protect ProtectedFrame ProtectedWriter ProtectedQuery",
    "Jobs": "run_jobs JobsRun LocalJobs RestartRule",
    "Sources and sinks": "Trace Generator files kafka frame received Sender TLS Parquet Delta Postgres Console Memory "
    "Discard ForEachBatch",
    "Protections": "Protection Nothing Checkpoint Approximate Exact UpstreamBackup Coordinated Uncoordinated Group "
    "Replicate Contract Loss",
    "Windows": "Windowing Hopping Sliding Decaying",
    "Operators of one's own": "Operator Out columns field AddingUp Added",
    "State": "Number Vector Matrix HashTable KeySet Window Sample Tally TallyTable",
}
CHAPTERS = (
    *(Chapter(title=title, module="spillway", names=tuple(names.split())) for title, names in _TOP.items()),
    Chapter(title="Built-in operators", module="spillway.operators"),
    Chapter(title="Heavy hitters", module="spillway.operators.hitters"),
    Chapter(title="Ripple join", module="spillway.operators.ripple_join"),
    Chapter(title="Online learning", module="spillway.operators.regression"),
    Chapter(title="Breaking it", module="spillway.inject"),
    Chapter(title="Scoring what it did", module="spillway.score"),
    Chapter(title="Streams as models", module="spillway.model"),
    Chapter(title="Stochastic activity networks", module="spillway.san"),
    Chapter(title="Taking items from outside", module="spillway.receiver"),
    Chapter(title="Reading records", module="spillway.records"),
)

_BLOCK = re.compile(r"^(?:>>>|\.\.\.|    )", re.MULTILINE)


def reference() -> str:
    """The whole page."""
    chapters = [(chapter, _spoken(chapter.module)) for chapter in CHAPTERS]
    titles = [f"{chapter.title} (`{spoken}`)" for chapter, spoken in chapters]
    lines = [INTRODUCTION, *(f"* [{title.replace('`', '')}](#{_anchor(title)})" for title in titles), ""]
    for (chapter, spoken), title in zip(chapters, titles, strict=True):
        module = importlib.import_module(chapter.module)
        lines += [f"## {title}", ""]
        if not chapter.names:
            lines += [_text(module), ""]
        for name in chapter.names or public_names(module):
            lines.append(_entry(f"{spoken}.{name}", name, module))
    return "\n".join(lines)


def public_names(module: ModuleType) -> list[str]:
    """The names a module offers, without the modules in it."""
    return sorted((n for n in module.__all__ if not inspect.ismodule(getattr(module, n))), key=str.lower)


def _spoken(module: str) -> str:
    return "sw" + module.removeprefix("spillway")


def _anchor(title: str) -> str:
    """As GitHub makes it."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def _entry(spoken: str, name: str, module: ModuleType) -> str:
    value = getattr(module, name)
    lines = [f"### `{spoken}`", ""]
    if inspect.isclass(value):
        # Whoever meets an exception has not made it.
        call = "" if issubclass(value, Exception) else signature(value, name=name)
        lines += [*_code(call), _text(value), "", *_members(value), ""]
    elif inspect.isfunction(value):
        lines += [*_code(signature(value, name=name)), _text(value), ""]
    else:
        lines += [said_of(module, name), ""]
    return "\n".join(lines)


def _code(text: str) -> list[str]:
    return ["```python", text, "```", ""] if text else []


def _members(kind: type) -> Iterator[str]:
    """Methods and properties that say something of themselves."""
    for name, member in sorted(vars(kind).items()):
        if name.startswith("_"):
            continue
        function = getattr(member, "__func__", member)
        if isinstance(member, property) and member.__doc__:
            yield f"* `{name}`: {_first_sentence(member)}"
        elif inspect.isfunction(function) and function.__doc__:
            call = " ".join(signature(function, name=name).split()).replace("( ", "(").replace(", )", ")")
            yield f"* `{call}`: {_first_sentence(function)}"


def said_of(module: ModuleType, name: str) -> str:
    """The sentence below an assignment, which Python itself forgets; followed to where the name was imported from."""
    tree = ast.parse(inspect.getsource(module))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and any(each.name == name for each in node.names):
            return said_of(importlib.import_module(node.module), name)
    for node, after in zip(tree.body, tree.body[1:], strict=False):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                return inspect.cleandoc(str(after.value.value))
            break
    raise SystemExit(f"{module.__name__}.{name} says nothing of itself: put a sentence below its assignment.")


def _text(value: object) -> str:
    """The docstring; paragraphs with indented lines, which are examples, formulas and lists of names, as code."""
    told: list[str] = []
    paragraphs = re.split(r"\n\s*\n", inspect.getdoc(value) or "")
    for is_block, together in itertools.groupby(paragraphs, key=lambda each: bool(_BLOCK.search(each))):
        text = "\n\n".join(together)
        told.append(f"```\n{text}\n```" if is_block else text)
    return "\n\n".join(told)


def _first_sentence(value: object) -> str:
    return (inspect.getdoc(value) or "").split("\n\n")[0].replace("\n", " ")


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(0 if PAGE.read_text() == reference() else "reference.md is not current: run docs/make_reference.py")
    PAGE.write_text(reference())
