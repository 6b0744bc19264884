"""SC-09: keyrings are shared by uid, across namespaces."""
from escape.lib_calls import answers, expect, row, summary

TITLE = "kernel keyrings"
TRIED = "add_key to the user and session keyrings, request_key, keyctl read, link, join, search, describe"
WALLS = ["seccomp"]
ROWS = [row("add_user", 248, "s:user", "s:coto-test", "s:secret", 6, -4),
        row("add_session", 248, "s:user", "s:coto-test", "s:secret", 6, -3),
        row("add_process", 248, "s:user", "s:coto-test", "s:secret", 6, -2),
        row("request", 249, "s:user", "s:coto-none", 0, -3),
        row("get_session", 250, 0, -3, 1), row("get_user", 250, 0, -4, 1), row("join", 250, 1, "s:coto-test"),
        row("describe", 250, 6, -3, "b:256", 256), row("link", 250, 8, -4, -3),
        row("search", 250, 10, -3, "s:user", "s:coto-none", 0), row("read", 250, 11, -3, "b:256", 256),
        row("persistent", 250, 22, -1, -3), row("add_high", 248, "s:keyring", "s:coto", 0, 0, 0x123fffffffe)]


def attack(box):
    found = answers(box, ROWS)
    expect(found, {name: {"EPERM", "ENOSYS"} for name in found})
    return summary(found)


def control(box):
    found = answers(box, ROWS, without=["seccomp"])
    assert found["add_process"] == found["get_session"] == found["join"] == "ok", found
    return f"a key is added and a session keyring joined ({summary(found)})"
