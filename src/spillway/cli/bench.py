"""``spillway bench NAME``: figures, each a ratio within one run."""

import argparse

from spillway.cli import bench_af, bench_model, bench_receiver, bench_state, bench_wordcount

BENCHES = {
    "af": bench_af,
    "receiver": bench_receiver,
    "wordcount": bench_wordcount,
    "state": bench_state,
    "model": bench_model,
}


def add_options(parser: argparse.ArgumentParser) -> None:
    names = parser.add_subparsers(metavar="NAME", required=True)
    for name, module in BENCHES.items():
        bench = names.add_parser(
            name, help=module.MEANING, description=module.MEANING[0].upper() + module.MEANING[1:] + "."
        )
        bench.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
        module.add_options(bench)
        bench.set_defaults(bench=module.main)


def main(options: argparse.Namespace) -> int:
    return int(options.bench(options))
