"""What a whole run of the faults came to, for docs/FAULTS.md: one row per scenario and caller."""
import json
import os
import pathlib

BEGIN, END = "<!-- faults -->\n", "<!-- /faults -->\n"
HEAD = ("| as | scenario | faults | happened | worked | clear error | findings |\n"
        "|---|---|---|---|---|---|---|\n")
SCENARIOS = 13 # in a whole run: those of faults.py, the library and those of service.py
COLUMNS = ("faults", "happened", "worked", "told", "findings")


def keep(row):
    """Beside the evidence of the attacks, where the caller of all situations finds it."""
    where = os.environ.get("COTO_TEST_EVIDENCE")
    if where:
        situation = os.environ.get("COTO_TEST_SITUATION", "here")
        with open(pathlib.Path(where, f"faults-{situation}"), "a") as file:
            file.write(json.dumps({"as": situation, **row}) + "\n")


def rows_of(folder):
    """Of a scenario that was tried again the last."""
    rows = [json.loads(line) for path in sorted(pathlib.Path(folder).glob("faults-*"))
            for line in path.read_text().splitlines()]
    return list({(row["as"], row["scenario"]): row for row in rows}.values())


def table(rows):
    text = HEAD
    for row in rows:
        text += f"| {row['as']} | {row['scenario']} | {' | '.join(str(row[key]) for key in COLUMNS)} |\n"
    total = " | ".join(f"**{sum(row[key] for row in rows)}**" for key in COLUMNS)
    return text + f"| | **all** | {total} |\n"


def write(folder, page):
    head, rest = page.read_text().split(BEGIN)
    page.write_text(head + BEGIN + table(rows_of(folder)) + END + rest.split(END)[1])
