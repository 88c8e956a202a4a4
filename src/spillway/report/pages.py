"""The page of a run directory, whatever kind of run it was."""

from pathlib import Path

from spillway.errors import RunError
from spillway.records.campaign import read_manifest
from spillway.report.jobs_page import jobs_page, runs_in


def report_page(path: Path) -> str:
    """One self-contained HTML page from the records in a directory alone; a manifest that names no kind is a run's."""
    if not (path / "manifest.json").exists() and runs_in(path):
        return jobs_page(path)
    manifest = read_manifest(path)
    # Each page is loaded when it is asked for: a run's does not wait for scipy.
    match manifest.get("kind", "run"):
        case "run":
            from spillway.report.run_page import run_page

            return run_page(path)
        case "campaign":
            from spillway.report.campaign_page import campaign_page

            return campaign_page(path)
        case "model":
            from spillway.report.model_page import model_page

            return model_page(path, manifest)
        case "plan":
            from spillway.report.plan_page import plan_page

            return plan_page(path, manifest)
        case "reproduction":
            from spillway.report.reproductions import reproduction_page

            return reproduction_page(path, manifest)
        case "bench":
            raise RunError(f"{path} holds a bench, which has no page: spillway bench show {path} tells its figures.")
        case other:
            raise RunError(
                f"{path} holds a {other!r}; there are reports of a run, a campaign, a model, a plan and a reproduction."
            )
