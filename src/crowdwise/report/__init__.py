"""A fit as one HTML page for people: `write_report` tells all, `write_page` is short; and the picture of annotators."""

from crowdwise.report.answers import Intervals, write_answers
from crowdwise.report.full import write_report
from crowdwise.report.page import write_page
from crowdwise.report.picture import annotators_picture

__all__ = ["Intervals", "annotators_picture", "write_answers", "write_page", "write_report"]
