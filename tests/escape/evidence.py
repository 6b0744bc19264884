"""What became of each case: one JSON line per attack and control, for the table."""
import contextlib
import json
import os
import re
import time

from .harness import Escaped, NotOffered, Untestable, kind_of, situation

untestable = []


def write(row):
    where = os.environ.get("COTO_TEST_EVIDENCE")
    if where:
        with open(os.path.join(where, situation() + ".jsonl"), "a") as file:
            file.write(json.dumps({"situation": situation(), **row}) + "\n")


def record(case, part, outcome, text, seconds, kind):
    write({"id": case.ID, "part": part, "outcome": outcome, "kind": kind,
           "text": " ".join(str(text).split())[:200], "seconds": round(seconds, 2)})


@contextlib.contextmanager
def judged(case, part, box, different=None):
    """Runs a part of a case in a box and writes down how it ended. Yields a list for its words. With
    (words, why) it must end otherwise than held, and say these words: a list of what ends
    differently that has grown old is a failure."""
    began, words = time.monotonic(), []

    def note(outcome, text):
        kind = kind_of(case, box) if outcome == "seen" else None
        record(case, part, outcome, text, time.monotonic() - began, kind)

    try:
        yield words
        assert words and isinstance(words[0], str) and words[0], f"{case.ID}: {part} said nothing"
        assert not different, f"{case.ID} holds now: take it off the list in levels.py"
        met = "not offered" if isinstance(words[0], NotOffered) else "held"
        note(met if part == "attack" else "seen", words[0])
    except Untestable as reason:
        untestable.append((case.ID, part, str(reason)))
        note("untestable", reason)
    except Exception as failure:
        text = failure.text if isinstance(failure, Escaped) else f"{type(failure).__name__}: {failure}"
        if different and re.search(different[0], text):
            note("differs", f"{different[1]}: {text}")
            return
        note(failure.kind if isinstance(failure, Escaped) and part == "attack" else "FAILED", text)
        raise
    except BaseException as failure:
        note("FAILED", f"{type(failure).__name__}: {failure}")
        raise
