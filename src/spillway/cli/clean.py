"""``spillway clean``: remove shard memory that nobody uses."""

import argparse
import shutil
from pathlib import Path

from spillway.cli.output import PEOPLE, print_json
from spillway.records.figures import size
from spillway.state.folders import StateFolder, default_root, found_checkpoints, found_folders


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", nargs="?", type=Path, help="where to look (default: where state lies by default)")
    parser.add_argument("--all", action="store_true", help="also memory of stopped runs that could still resume")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be removed")


def main(options: argparse.Namespace) -> int:
    root = options.folder or default_root()
    kept, removed = [], []
    # A run that was given no folders has its checkpoint elsewhere; it is looked for unless a place is named.
    found = found_folders(root) + (found_checkpoints() if options.folder is None else [])
    for folder in found:
        reason = _reason_to_keep(folder, drop_stopped=options.all)
        if reason:
            kept.append((folder, reason))
            continue
        if not options.dry_run:
            shutil.rmtree(folder.path, ignore_errors=True)
        removed.append(folder)
    freed_bytes = sum(folder.bytes for folder in removed)
    if options.json:
        print_json(
            {
                "root": str(root),
                "removed": [str(folder.path) for folder in removed],
                "kept": {str(folder.path): reason for folder, reason in kept},
                "freed_bytes": freed_bytes,
                "dry_run": options.dry_run,
            }
        )
        return 0
    verb = "would be removed" if options.dry_run else "removed"
    for folder in removed:
        PEOPLE.print(f"{verb}: {folder.path} ({size(folder.bytes)})")
    for folder, reason in kept:
        PEOPLE.print(f"kept: {folder.path} ({size(folder.bytes)}): {reason}")
    PEOPLE.print(f"{len(removed)} folders {verb}, {size(freed_bytes)}; {len(kept)} kept in {root}.")
    return 0


def _reason_to_keep(folder: StateFolder, *, drop_stopped: bool) -> str:
    if folder.owner is None:
        return "it is not a state folder of ours"
    if folder.in_use:
        return f"process {folder.owner.pid} is using it"
    if folder.can_resume and not drop_stopped:
        return "its run has stopped and can resume; --all removes it too"
    return ""
