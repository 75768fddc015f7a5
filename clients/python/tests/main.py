"""main.py REPORT [PATTERN]: runs the tests, and writes "N passed, N failed" into a file."""
import pathlib
import sys
import unittest


def main():
    loader = unittest.TestLoader()
    if len(sys.argv) > 2 and sys.argv[2]:
        loader.testNamePatterns = [f"*{sys.argv[2]}*"]
    suite = loader.discover(str(pathlib.Path(__file__).resolve().parent))
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(suite)
    failed = len(result.failures) + len(result.errors) + len(result.skipped)
    pathlib.Path(sys.argv[1]).write_text(f"{result.testsRun - failed} passed, {failed} failed\n",
                                         encoding="utf-8")


main()
