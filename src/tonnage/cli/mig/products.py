"""`tonnage mig profiles` and `tonnage mig layouts`: what a product can be divided into, without any GPU."""

from __future__ import annotations

import click

from tonnage.cli.options import Common, common_options, examples
from tonnage.cli.terminal.output import emit, say
from tonnage.cli.terminal.tables import table

_PRODUCT = click.option(
    "--product", required=True, metavar="PRODUCT", help="A100-80, A30, or the driver's name of a GPU."
)


@click.command(
    help="Show the MIG profiles of a product: compute and memory slices, memory and placements.",
    epilog=examples("tonnage mig profiles --product A100-80", "tonnage mig profiles --product A30 -o json"),
)
@_PRODUCT
@common_options(output=("text", "json", "yaml"))
def profiles(common: Common, product: str) -> int:
    """Exit status 2 for a product that nobody knows, or that cannot be divided."""
    from tonnage.diagnose.mig.products import HEAD, model_of, product_named, profiles_json, profiles_rows

    family = product_named(product)
    if common.output != "text":
        emit(profiles_json(family), common.output)
        return 0
    model = model_of(family)
    say(f"{family.name}: {model.compute} compute slices, {model.memory} memory slices")
    say(table(HEAD, profiles_rows(family)))
    if model.media:
        say(f"All share {model.media} sets of media engines and {model.flow} for optical flow.")
    return 0


@click.command(
    help="Show every full MIG layout of a product: layouts that have no room left.",
    epilog=examples(
        "tonnage mig layouts --product A100-80", "tonnage mig layouts --product A30 --media -o json"
    ),
)
@_PRODUCT
@click.option("--media", is_flag=True, help="Include the variants with and without media engines.")
@common_options(output=("text", "json", "yaml"))
def layouts(common: Common, product: str, media: bool) -> int:
    """Exit status as of `profiles`."""
    from tonnage.diagnose.mig.products import layouts_json, layouts_rows, product_named

    family = product_named(product)
    if common.output != "text":
        emit(layouts_json(family, media=media), common.output)
    else:
        say(table(("LAYOUT", "PLACES"), layouts_rows(family, media=media)))
    return 0
