"""``spillway model``: what would happen, from stochastic activity networks."""

import argparse

from spillway.cli import model_bargain, model_compare, model_draw, model_validate
from spillway.cli.manners import add_manners

MODELS = {"bargain": model_bargain, "compare": model_compare, "draw": model_draw, "validate": model_validate}


def add_options(parser: argparse.ArgumentParser) -> None:
    names = parser.add_subparsers(metavar="WHAT", required=True)
    for name, module in MODELS.items():
        model = names.add_parser(
            name, help=module.MEANING, description=module.MEANING[0].upper() + module.MEANING[1:] + "."
        )
        add_manners(model)
        module.add_options(model)
        model.set_defaults(model=module.main)


def main(options: argparse.Namespace) -> int:
    return int(options.model(options))
