"""``crowdwise demo``: the main job on data that come with the library."""

from __future__ import annotations

from pathlib import Path

from crowdwise import report
from crowdwise.cli.declare import SAVE, group, option
from crowdwise.cli.job import Job

EXAMPLES = "Example: crowdwise demo -o demo-output"


@group
class Options:
    """What is written."""

    output: Path = option("-o --output", "DIR", "Folder to write into.", Path("demo-output"), place=SAVE)


def run(options: Options) -> None:
    """Aggregate the votes of a small simulated campaign and write all results into a folder.

    Nine honest annotators, one who answers at random, one who always gives the same answer and one
    adversary label 120 photos of animals. Nothing is downloaded.
    """
    Job(options)
    print(report.write_demo(options.output))
