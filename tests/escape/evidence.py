"""What became of each case: one JSON line per attack and control, for the table."""
import contextlib
import json
import os
import time

from .harness import Escaped, Untestable, situation

untestable = []


def write(row):
    where = os.environ.get("COTO_TEST_EVIDENCE")
    if where:
        with open(os.path.join(where, situation() + ".jsonl"), "a") as file:
            file.write(json.dumps({"situation": situation(), **row}) + "\n")


def record(case, part, outcome, text, seconds):
    write({"id": case.ID, "part": part, "outcome": outcome,
           "text": " ".join(str(text).split())[:200], "seconds": round(seconds, 2)})


@contextlib.contextmanager
def judged(case, part):
    """Runs a part of a case and writes down how it ended. Yields a list for its words."""
    began, words = time.monotonic(), []

    def note(outcome, text):
        record(case, part, outcome, text, time.monotonic() - began)

    try:
        yield words
        assert words and isinstance(words[0], str) and words[0], f"{case.ID}: {part} said nothing"
        note("held" if part == "attack" else "seen", words[0])
    except Untestable as reason:
        untestable.append((case.ID, part, str(reason)))
        note("untestable", reason)
    except Escaped as escape:
        note(escape.kind if part == "attack" else "FAILED", escape.text)
        raise
    except BaseException as failure:
        note("FAILED", f"{type(failure).__name__}: {failure}")
        raise
