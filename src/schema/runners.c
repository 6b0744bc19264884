#include "schema/runners.h"

#include <string.h>

/* HOME is the submission's: what tools look for there (GOENV, Python's -s) is not read.
 * Where the workspace itself is read-only, builds happen in a copy. Where /tmp
 * is not the sandbox's own, temporary files go below the workspace, but not into
 * it: go takes no module from the directory of temporary files. */
const char coto_runner_prelude[] =
    "exec 2>&1\n"
    "if ! [ -w . ]; then\n"
    "    cp -R . " COTO_RUNNER_COPY " && cd " COTO_RUNNER_COPY " || exit 2\n"
    "    export HOME=" COTO_RUNNER_COPY "\n"
    "fi\n"
    "[ \"$TMPDIR\" != \"$HOME\" ] || { mkdir -p .tmp && export TMPDIR=\"$HOME/.tmp\"; }\n"
    "export PYTHONDONTWRITEBYTECODE=1 GOTOOLCHAIN=local GOPROXY=off GOTELEMETRY=off GOENV=off\n"
    "export NO_COLOR=1 TERM=dumb\n";

/* As python3 -m would, except that the module is imported before the workspace
 * is on the path: a submission's own pytest.py must not stand in for pytest. Nor
 * may compiled files it brings stand in for the tests. */
#define IMPORT_FIRST(module)                                                                       \
    "import sys; del sys.path[0]; import os, shutil, " module "; "                                 \
    "[shutil.rmtree(p + \"/__pycache__\") for p, d, f in os.walk(\".\") if \"__pycache__\" in d]; "   \
    "sys.path.insert(0, \"\"); "

const struct coto_runner coto_runners[] = {
    {
        .name = "go",
        .files = " go.mod *_test.go ",
        .tool = "go",
        .package = "golang-go",
        .script = "[ -f go.mod ] || go mod init submission >/dev/null 2>&1\n"
                  "exec go test -v -timeout 30s ./...\n",
        .format = COTO_FORMAT_GO,
    },
    {
        .name = "pytest",
        .files = " test_*.py *_test.py ",
        .module = "/usr/lib/python3*/dist-packages/pytest/__init__.py "
                  "/usr/lib/python3*/site-packages/pytest/__init__.py "
                  "/usr/local/lib/python3*/dist-packages/pytest/__init__.py "
                  "/usr/local/lib/python3*/site-packages/pytest/__init__.py",
        .tool = "python3",
        .package = "python3-pytest",
        /* Without --durations no case would have a time. */
        .script = "exec python3 -s -c '" IMPORT_FIRST("pytest") "sys.exit(pytest.main(sys.argv[1:]))' "
                  "-v --tb=short -p no:cacheprovider --color=no --durations=0 --durations-min=0\n",
        .format = COTO_FORMAT_PYTEST,
    },
    {
        .name = "unittest",
        .files = " *test*.py ",
        .tool = "python3",
        .package = "python3",
        /* -b keeps what the tests print out of the lines that tell results. */
        .script = "exec python3 -s -c '" IMPORT_FIRST("unittest")
                  "unittest.main(module=None)' discover -v -b -p '*test*.py'\n",
        .format = COTO_FORMAT_UNITTEST,
    },
    {
        .name = "node",
        .files = " *.test.js *.test.mjs *.test.cjs *-test.js *_test.js test-*.js test.js ",
        .tool = "node",
        .package = "nodejs",
        .script = "exec node --test --test-reporter=tap\n",
        .format = COTO_FORMAT_TAP,
    },
    {
        .name = "ctest",
        .files = " CMakeLists.txt ",
        .tool = "cmake",
        .package = "cmake",
        /* What the submission has left in a build directory would be believed. */
        .script = "b=build; [ ! -e $b ] || b=$(mktemp -d ./build.XXXXXX) || exit 2\n"
                  "cmake -S . -B $b && cmake --build $b && "
                  "ctest --test-dir $b --output-on-failure\n",
        .format = COTO_FORMAT_CTEST,
    },
    {
        .name = "make",
        .files = " Makefile makefile GNUmakefile ",
        .target = "test",
        .tool = "make",
        .package = "make",
        .script = "exec make test\n",
        .format = COTO_FORMAT_MAKE,
    },
};

const size_t coto_runner_count = sizeof coto_runners / sizeof coto_runners[0];

const struct coto_runner *coto_runner_find(const char *name)
{
    for (size_t i = 0; i < coto_runner_count; i++)
        if (strcmp(coto_runners[i].name, name) == 0)
            return &coto_runners[i];
    return NULL;
}
