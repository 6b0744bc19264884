import unittest

from stack import Stack


class StackTest(unittest.TestCase):
    def test_starts_empty(self):
        self.assertEqual(len(Stack()), 0)

    def test_counts(self):
        stack = Stack()
        stack.push("a")
        stack.push("b")
        self.assertEqual(len(stack), 2)

    def test_last_in_first_out(self):
        stack = Stack()
        stack.push("a")
        stack.push("b")
        self.assertEqual(stack.pop(), "b")


if __name__ == "__main__":
    unittest.main()
