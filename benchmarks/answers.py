"""The tables of the evidence's start page, cut out of those of the rooms: at most eight rows and eight columns each."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

from benchmarks.declaration import scripts
from benchmarks.page import block, put, table
from benchmarks.places import DOCS, EVIDENCE, HOW_FAST, ROOT
from benchmarks.provenance import measured_in

sys.path.insert(0, str(DOCS / "hooks"))
from measured import Table, anchor, tables_of

INDEX = EVIDENCE / "index.md"
LABEL_METHODS = ("majority", "wawa", "dawid-skene", "mace", "glad", "ebcc", "consensus")
CLASSIFIERS = ("two-stage majority", "raykar", "aggnet", "crowd-layer-mw", "ccem", "bayes-dgc", "svgpcr", "gold")
SETS = ("labelme", "rte", "sentence_polarity", "cifar10n", "convarg_pairs", "ner_mturk")
POLICIES = (
    "RD: random+random", "AD: entropy+random", "AC: random+accuracy", "entropy+ucb", "entropy+thompson", "error-reduction",
    "information", "warm-information",
)  # fmt: skip


def tables(room: str, marker: str, label: str = "") -> list[Table]:
    """Tables of a block, those below a bold label only where one is given."""
    path = HOW_FAST if room == "how-fast" else EVIDENCE / f"{room}.md"
    found = [one for one in tables_of(path) if one.marker == marker and one.label.startswith(label)]
    if not found:
        raise LookupError(f"no table {label!r} in block {marker!r} of {path.name}")
    return found


def column(one: Table, name: str) -> dict[str, str]:
    """First column -> another one, without remarks in brackets and bold type."""
    place = one.header.index(name)
    return {row[0].partition(" (")[0]: row[place].strip("*") for row in one.rows}


def number(cell: str) -> float:
    return float(cell.split()[0].replace(",", ""))


def label_sources() -> tuple[list[tuple[str, dict[str, str], dict[str, float]]], list[Table]]:
    """Methods with their accuracies and, set by set, how far these are above majority vote, whose ties count in parts."""
    real, chosen = tables("accuracy", "real data")[0], tables("accuracy", "auto", "17")[0]
    found = [
        (name.replace("consensus", "consensus, the default"), column(real, name), column(real, "majority"))
        for name in LABEL_METHODS
    ]
    found.append(("auto, chooses by held-out votes", column(chosen, "auto"), column(chosen, "majority")))
    sources = []
    for name, own, majority in found:
        sources.append((name, own, {key: number(own[key]) - number(majority[key]) for key in own if key != "*mean*"}))
    return sources, [real, chosen]


def label_methods() -> tuple[str, list[Table]]:
    """Mean accuracy on the 17 sets, and how each does beside majority vote on single ones."""
    sources, found = label_sources()
    rows = []
    for name, own, gaps in sources:
        ahead, least = sum(gap > 0 for gap in gaps.values()), min(gaps, key=gaps.__getitem__)
        beside = ["", ""] if name == "majority" else [f"{ahead} of {len(gaps)}", f"{gaps[least]:+.1f} ({least})"]
        rows.append([name, own["*mean*"], *beside])
    head = ["method", "mean accuracy", "sets above majority vote", "worst beside majority vote"]
    return table(head, rows), found


def classifiers() -> tuple[str, list[Table]]:
    """Test accuracy on six sets."""
    sources = [tables("classifiers", f"learn {name}")[0] for name in SETS]
    found = {name: column(one, "test accuracy") for name, one in zip(SETS, sources, strict=True)}
    rows = [[method, *(found[name].get(method, "-") for name in SETS)] for method in CLASSIFIERS]
    return table(["method", *SETS], rows), sources


def confidence() -> tuple[str, list[Table]]:
    """Calibration of the default: as the model says, as printed, and with known labels."""
    without = tables("calibration", "calibration", "Without gold")[0]
    of_gold = tables("calibration", "calibration", "With gold")
    rows = []
    for place, measure in enumerate(("ECE", "log-loss", "Brier")):
        cells = [column(without, f"{measure}, {how}")["*mean*"] for how in ("none", "experience")]
        rows.append([f"{measure}, mean of 17 sets", *cells, column(of_gold[place], "temperature")["*mean*"]])
    accepted = tables("calibration", "calibration", "Accepted")[0]
    for rate in ("1%", "5%", "10%"):
        cells = [column(accepted, f"{rate}, {how}")["*above the rate*"] for how in ("none", "experience", "gold")]
        rows.append([f"more than {rate} wrong where {rate} was stated", *cells])
    return table(["consensus", "the model alone", "as printed", "with half of the true labels"], rows), [without]


def libraries() -> tuple[str, list[Table]]:
    """A million votes in six libraries."""
    found = tables("how-fast", "neighbours")[0]
    rows = [list(row[1:]) for row in found.rows if row[0] == "1,000,000"]
    return table(list(found.header[1:]), rows), [found]


def questions() -> tuple[str, list[Table]]:
    """Answers that policies need, on three recorded crowds."""
    head, columns = ["policy"], []
    for name in ("rte", "dog", "web"):
        one = next(found for found in tables("campaigns", "active curves", name) if found.label == name)
        head += [f"{name}: answers needed", f"{name}: saving (%)"]
        columns += [column(one, "answers needed"), column(one, "saving (%)")]
    rows = [[policy, *(cells.get(policy, "-") for cells in columns)] for policy in POLICIES]
    return table(head, rows), [one]


ANSWERS: dict[str, Callable[[], tuple[str, list[Table]]]] = {
    "which label method": label_methods,
    "which classifier": classifiers,
    "can I believe the confidence": confidence,
    "how fast and how large": libraries,
    "whom to ask next": questions,
}


def beside_libraries() -> tuple[list[str], Table]:
    """The default's labels beside those of other libraries, as a row."""
    one = tables("versus", "versus labels")[0]
    right = {name: column(one, name) for name in one.header[1:]}
    ours, best_of = right.pop("crowdwise: consensus"), {}
    for name, cells in right.items():
        library, _, method = name.partition(": ")
        if library != "crowdwise" and cells["*mean*"] != "-":
            best_of[library] = max(best_of.get(library, (0.0, "")), (number(cells["*mean*"]), method.partition(" ")[0]))
    sets = [name for name in ours if not name.startswith("*")]
    best = {name: max(number(cells[name]) for cells in right.values() if cells[name][0].isdigit()) for name in sets}
    behind = {name: best[name] - number(ours[name]) for name in sets}
    worst = max(behind, key=behind.__getitem__)
    row = [
        f"the same on {len(sets)} of them, beside other libraries as they come",
        f"{number(ours['*mean*']):.1f} %",
        "best of each: " + ", ".join(f"{name} {mean:.1f} % ({method})" for name, (mean, method) in best_of.items()),
        f"behind the best of a crowd on {sum(gap > 0 for gap in behind.values())} of {len(sets)}, "
        f"at worst by {behind[worst]:.1f} points ({worst})",
    ]
    return row, one


def asking() -> tuple[list[str], list[Table]]:
    """What choosing questions saves, as a row."""
    found = {
        name: next(one for one in tables("campaigns", "active curves", name) if one.label == name)
        for name in ("rte", "web", "sentence_polarity, recorded")
    }
    rte, web, recorded = (column(one, "saving (%)") for one in found.values())
    saved = f"{rte['warm-information']} % on rte, {web['warm-information']} % on web"
    lacking = f"{recorded['DALC: predictive-entropy+expertise']} % with features on sentence_polarity"
    return ["answers saved by choosing questions", saved, "random questions", lacking], list(found.values())


def in_short() -> str:
    """What a newcomer should know of each question, good or bad, in a line each."""
    sources, _ = label_sources()
    _, own, gaps = next(one for one in sources if one[0].startswith("consensus"))
    mean = tables("accuracy", "real data")[0]
    worst = min(gaps, key=gaps.__getitem__)
    accepted = tables("calibration", "calibration", "Accepted")[0]
    stated, alone = (column(accepted, f"5%, {how}")["*above the rate*"] for how in ("experience", "none"))
    timed = tables("how-fast", "neighbours")[0]
    million = {(row[1].split()[0], row[2]): row for row in timed.rows if row[0] == "1,000,000"}
    ours, theirs = million["crowdwise", "dawid-skene"], million["crowd-kit", "DawidSkene"]
    default = million["crowdwise", "consensus"]
    asked, curves = asking()
    classified = {name: tables("classifiers", f"learn {name}")[0] for name in SETS}
    learn = {name: column(one, "test accuracy") for name, one in classified.items()}
    gained = {name: number(by["aggnet"]) - number(by["two-stage majority"]) for name, by in learn.items()}
    lost, majority = sum(gap < 0 for gap in gaps.values()), column(mean, "majority")["*mean*"]
    libraries, labels_of_libraries = beside_libraries()
    rows = [
        [
            "right labels on 17 real crowds, mean",
            f"{number(own['*mean*']):.1f} %",
            f"majority vote {number(majority):.1f} % (a tie counts in parts)",
            f"behind it on {lost} of {len(gaps)}, at worst by {-gaps[worst]:.1f} points ({worst})",
        ],
        libraries,
        [
            "crowds where more of the accepted labels are wrong than the 5 % that was stated",
            stated,
            f"the model alone {alone}",
            "a certificate takes an audit",
        ],
        [
            f"a million votes, {ours[2]}",
            f"{ours[3]} s",
            f"crowd-kit {theirs[3]} s",
            f"the default, consensus, takes {default[3]} s",
        ],
        asked,
        [
            "test accuracy of a network that learns from votes (aggnet)",
            f"{max(gained.values()):+.1f} points at best",
            "two stages with majority vote",
            f"{min(gained.values()):+.1f} at worst, of {len(gained)} sets",
        ],
    ]
    measured = days([mean, labels_of_libraries, accepted, timed, *curves, *classified.values()])
    short = table(["", "crowdwise", "beside", "where it loses"], rows).replace("---:", "---")
    return f"{short}\n\nMeasured from {measured[0]} to {measured[-1]}."


def without_data() -> str:
    """Which benchmarks need no set, which need sets of scikit-learn or simulated ones beside them, and what the others need."""
    rooms: dict[str, list[str]] = {}
    found = scripts()
    for script in found.values():
        if not script.declared.data:
            beside = script.declared.packages
            rooms.setdefault(script.room, []).append(f"`{script.name}`" + (f" ({', '.join(beside)})" if beside else ""))
    number = sum(map(len, rooms.values()))
    rows = [[room, ", ".join(names)] for room, names in rooms.items()]
    return (
        f"{number} of {len(found)} benchmarks simulate all their data or take those of scikit-learn; in brackets, the packages "
        "that they need beyond the library. With `--quick`, the others run on small simulated sets.\n\n"
        + table(["room", "benchmarks without data"], rows).replace("---:", "---")
    )


def source_line(sources: list[Table]) -> str:
    """Where the rows were cut out, and when those were measured."""
    links = dict.fromkeys(f"[{one.heading}]({page_of(one)}#{anchor(one.heading)})" for one in sources)
    return f"From {', '.join(links)}; measured on {', '.join(days(sources))}."


def days(sources: list[Table]) -> list[str]:
    """On which days tables were measured, in order."""
    return sorted({day for one in sources for day, _ in measured_in(block(one.marker, DOCS / page_of(one)))})


def page_of(one: Table) -> str:
    return "how-fast.md" if one.page == "how-fast" else f"evidence/{one.page}.md"


def answer() -> Iterator[str]:
    """Write every table of the start page."""
    for question, cut in ANSWERS.items():
        text, sources = cut()
        put(question, f"{text}\n\n{source_line(sources)}", INDEX)
        yield f"{question}: cut out of the rooms"
    for page in (DOCS / "index.md", ROOT / "README.md"):
        put("in short", in_short(), page)
        yield f"in short: into {page.name}"
    put("without data", without_data())
    yield "without data: from the declarations"
