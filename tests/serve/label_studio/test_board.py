"""What every task should look like: by hand, on a handful of tasks."""

from __future__ import annotations

from crowdwise.serve.label_studio.board import Rules, Task, View, Write, front_of, writes

RULES = Rules(sure=0.9, least=1, front=2, explore=0.0)
NEW, DOUBTFUL, SURE = View(None, 0.0, 0, False), View("yes", 0.6, 1, False), View("no", 0.97, 2, False)


def kinds(tasks: dict[int, Task], views: dict[int, View], ranked: list[int], rules: Rules = RULES) -> list[tuple[str, int]]:
    return [(one.kind, one.task) for one in writes(tasks, views, ranked, rules)]


def test_certain_tasks_are_closed_first_and_doubtful_ones_get_one_more_answer() -> None:
    tasks = {1: Task(annotations=1, overlap=1, labelled=True), 2: Task(annotations=2, overlap=3), 3: Task()}
    found = list(writes(tasks, {1: DOUBTFUL, 2: SURE, 3: NEW}, [1, 3], RULES))
    assert found[0] == Write("overlap", 2, overlap=2, labelled=True)
    assert found[1] == Write("overlap", 1, overlap=2, labelled=False)
    assert [(one.kind, one.task, one.score) for one in found[2:4]] == [("ask", 1, 0.0), ("ask", 3, 0.5)]
    # A new task is open by itself; labels come last.
    assert [(one.kind, one.task, one.label, one.score) for one in found[4:]] == [
        ("label", 1, "yes", 0.6),
        ("label", 2, "no", 0.97),
    ]


def test_nothing_is_written_twice() -> None:
    tasks = {
        1: Task(annotations=1, overlap=2, queue=(5, 0.0), consensus=(6, "yes", 0.61)),
        2: Task(annotations=2, labelled=True),
    }
    tasks[2].consensus = 7, "no", 0.96
    assert kinds(tasks, {1: DOUBTFUL, 2: SURE}, [1]) == []
    # A label that changed, or a confidence that moved.
    assert kinds(tasks, {1: View("no", 0.6, 1, False), 2: View("no", 0.99, 2, False)}, [1]) == [("label", 1), ("label", 2)]


def test_who_left_the_front_is_asked_about_no_more() -> None:
    tasks = {1: Task(annotations=2, overlap=2, labelled=True, queue=(5, 0.0), consensus=(6, "no", 0.97)), 2: Task(extra=[9])}
    assert kinds(tasks, {1: SURE, 2: NEW}, [2]) == [("ask", 2), ("drop", 1), ("remove", 2)]


def test_limits_skips_and_the_end() -> None:
    many = View("yes", 0.5, 3, False)
    assert Rules(sure=0.9, most=3).open(many) is False
    assert Rules(sure=0.9, least=4).open(View("yes", 0.99, 3, False)) is True
    assert Rules(sure=0.9).open(View("yes", 0.5, 1, True)) is False
    assert Rules(sure=0.9, over=True).open(NEW) is False
    # Nobody has answered, and nobody is to be asked.
    assert Rules(sure=0.9, over=True).overlap(Task(), NEW, False) == 0
    assert Rules(sure=0.9, least=3).overlap(Task(), NEW, True) == 3
    assert Rules(sure=0.9, together=2).overlap(Task(annotations=4), many, True) == 6
    # There is room for as many as may answer, and never for more than the limit.
    for n_votes, together, overlap in ((0, 2, 2), (0, 9, 5), (4, 1, 5), (4, 2, 5), (3, 9, 5)):
        view = View("yes", 0.5, n_votes, False)
        assert Rules(sure=0.9, most=5, together=together).overlap(Task(annotations=n_votes), view, True) == overlap
    assert Rules(sure=0.9, most=2, least=4).overlap(Task(), NEW, True) == 2
    assert Rules(sure=0.9, skipped_count=True).overlap(Task(annotations=1, skipped=2), DOUBTFUL, True) == 4
    # Somebody annotated twice: Label Studio counts them once.
    assert RULES.overlap(Task(annotations=3), View("yes", 0.95, 2, False), False) == 2


def test_the_front_keeps_whom_it_had_while_not_far_behind() -> None:
    rules = Rules(sure=0.9, front=4, explore=0.0)
    opened = set(range(10))
    assert front_of(range(10), opened, set(), rules) == [0, 1, 2, 3]
    assert front_of(range(10), opened, {6, 7, 9}, rules) == [0, 1, 6, 7]
    assert front_of(range(10), opened - {0, 1}, {6, 7}, rules) == [2, 3, 6, 7]
    # A drawn one stays while it is open.
    drawn = [front_of(range(100), set(range(100)), set(), Rules(sure=0.9, front=4, explore=0.25)) for _ in range(2)]
    assert drawn[0] == drawn[1]
    assert len(set(drawn[0]) - {0, 1, 2, 3}) == 1
