"""TO-08: a program without streams looks as if it had ended."""
from escape.lib_ends import goes_on, is_timed_out

TITLE = "closes stdio and runs on"
TRIED = "stdin, stdout and stderr closed, then everything up to 1024; then sleeps"
WALLS = ["timeout"]
CODE = "os.closerange(0, 1024)\nrest()"


def attack(box):
    return is_timed_out(box, CODE)


def control(box):
    return goes_on(box, CODE)
