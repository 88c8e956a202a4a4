"""Writes docs/reference.md from the code: every public name, its signature and its docstring.

python docs/make_reference.py          write it
python docs/make_reference.py --check  say whether it is current
"""

import inspect
import re
import sys
from pathlib import Path

import spillway

_ADDRESS = re.compile(r"<function (\w+) at 0x[0-9a-f]+>")
PAGE = Path(__file__).with_name("reference.md")
INTRODUCTION = """# Reference

Every public name of `import spillway as sw`. Made from the code by `docs/make_reference.py`.
"""


def reference() -> str:
    parts = [INTRODUCTION]
    for name in sorted(spillway.__all__, key=str.lower):
        parts.append(_entry(name, getattr(spillway, name)))
    return "\n".join(parts)


def _entry(name: str, value: object) -> str:
    lines = [f"## `{name}`", ""]
    if inspect.isclass(value):
        if value.__init__ is not object.__init__ and not issubclass(value, Exception):
            lines += ["```python", f"{name}{_signature(value)}", "```", ""]
        lines += [_text(value), ""]
        for method_name, method in sorted(vars(value).items()):
            if not method_name.startswith("_") and inspect.isfunction(method) and method.__doc__:
                lines += [f"* `{method_name}{_signature(method)}`: {_first_sentence(method)}"]
        lines.append("")
    elif inspect.isfunction(value):
        lines += ["```python", f"{name}{_signature(value)}", "```", "", _text(value), ""]
    else:
        lines += ["The columns of an expression: `sw.field('bytes') > 10`; pyarrow's `field`.", ""]
    return "\n".join(lines)


def _signature(value: object) -> str:
    text = str(inspect.signature(value))  # type: ignore[arg-type]
    for module in ("spillway.graph.protections.", "pyarrow.lib.", "collections.abc.", "typing.", "pathlib."):
        text = text.replace(module, "")
    return _ADDRESS.sub(r"\1", text)


def _text(value: object) -> str:
    """The docstring; indented blocks, which are examples and formulas, as code."""
    lines, in_block = [], False
    for line in (inspect.getdoc(value) or "").splitlines():
        is_block = line.startswith((">>>", "...", "    ")) or (in_block and bool(line.strip()) and lines[-1] != "")
        if is_block != in_block:
            lines += ["```", line]
        else:
            lines.append(line)
        in_block = is_block
    return "\n".join(lines + (["```"] if in_block else []))


def _first_sentence(value: object) -> str:
    return (inspect.getdoc(value) or "").split("\n\n")[0].replace("\n", " ")


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(0 if PAGE.read_text() == reference() else "reference.md is not current: run docs/make_reference.py")
    PAGE.write_text(reference())
