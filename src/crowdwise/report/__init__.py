"""A `Result` as one HTML page for people: `write_page`, and the picture of annotators that opens it."""

from crowdwise.report.page import write_page
from crowdwise.report.picture import annotators_picture

__all__ = ["annotators_picture", "write_page"]
