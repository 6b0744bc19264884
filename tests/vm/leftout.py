"""A plugin of pytest in the machine: writes down what was left out, so that the run can name it."""
import os


def pytest_deselected(items):
    with open(os.environ["COTO_TEST_LEFT_OUT"], "a") as file:
        file.writelines(f"{os.environ['COTO_TEST_SITUATION']} {item.nodeid}\n" for item in items)
