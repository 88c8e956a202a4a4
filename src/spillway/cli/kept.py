"""What a command says of the memory it leaves behind."""

from pathlib import Path

from spillway.records.figures import size
from spillway.state.folders import Kept, default_root, kept_memory, look_at


def sentences(state: Path) -> list[str]:
    """How much the run of this folder keeps and where; if all runs together keep much, an offer to clean up."""
    told = []
    if state.is_dir() and any(entry.is_dir() for entry in state.iterdir()):
        told.append(f"Its state stays in memory, {size(look_at(state).bytes)} in {state}, so that it can resume.")
    kept = kept_memory(default_root())
    if kept.much:
        told.append(f"Stopped runs keep {amount(kept)}: {offer()}")
    return told


def amount(kept: Kept) -> str:
    folders = f"{kept.folders} folder{'' if kept.folders == 1 else 's'}"
    return f"{size(kept.bytes)} in {kept.root} in all ({folders}, {size(kept.free_bytes)} free)"


def offer() -> str:
    return "'spillway clean' removes what cannot resume, 'spillway clean --all' everything; backups are never touched."
