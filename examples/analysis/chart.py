"""A tool that reads a table and leaves a plot."""

import csv
from statistics import mean
from typing import TypedDict

import haft
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt


class Summary(TypedDict):
    rows: int
    mean: float
    best: str


def chart(table: haft.File, column: str) -> Summary:
    """Summarise a column of a table and draw it, by month.

    Args:
        table: A CSV file with a column named month.
        column: The column to look at.
    """
    with open(table) as f:
        rows = list(csv.DictReader(f))
    if column not in rows[0]:
        raise ValueError(f"the table has no such column; it has: {', '.join(rows[0])}")
    months, values = [row["month"] for row in rows], [float(row[column]) for row in rows]
    plt.figure(figsize=(5, 3))
    plt.bar(months, values)
    plt.title(column)
    plt.savefig(f"{column}.png", dpi=100)
    return {"rows": len(rows), "mean": round(mean(values), 2), "best": months[values.index(max(values))]}
