/* Programs, as the interpreter itself would run them: `python3 FILE` and `python3 -c CODE`.
 *
 * In C and not in Python: every object that is looked at has a reference count in it, and the page
 * that is in is then copied. What is rare (an environment of its own, an exception, threads or
 * exit handlers) is left to functions of python.py, which are handed over before the first fork.
 */
#include "template/python.h"
#include "template/template.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define END ((PyObject *)NULL) /* ends a list of arguments */
#define REHEARSALS 40
#define SETTLING 4 /* each leaves less of its own where others were */
#define USUAL_ID 3 /* of a copy: init is the first process of its sandbox, A' the second (template.c) */

/* In the order of python.py's TOOLS. */
enum tool {
    TOOL_COMPILE,
    TOOL_TAKE_ENVIRONMENT,
    TOOL_AFTER_FORK, /* None: only what is below */
    TOOL_MAIN_THREAD,
    TOOL_SEED,
    TOOL_RANDOM,
    TOOL_LOAD,
    TOOL_FAILED,
    TOOL_FLUSH,
    TOOL_WIND_UP,
    TOOL_BUILTINS,
    TOOL_THREAD_COUNT,
    TOOL_THREAD_EXITS,
    TOOL_EXIT_COUNT,
    TOOL_EXITS,
    TOOL_HANDLERS,
    TOOL_HANDLER_COUNT,
    TOOL_STDIN, /* None: it was started without one */
    TOOL_NEW_STDIN,
    TOOL_USE_USER_SITE,
    TOOL_USER_SITE, /* where those modules would be */
    TOOL_MOVE_STDOUT,
    TOOL_MOVE_RANDOM,
    TOOL_COUNT,
};

static PyObject *tools[TOOL_COUNT];
static char user_site[4096];
static struct {
    PyObject *main, *builtins, *file, *cached, *native_id, *flush, *read, *from_string, *exec, *zero, *one;
} words;

/* For the first program: made before, in memory that every copy writes to anyway. */
static struct {
    PyObject *argv, *orig_argv, *main;
} ready;

static bool is_none(enum tool tool)
{
    return tools[tool] == &_Py_NoneStruct;
}

static long count_of(enum tool tool)
{
    PyObject *number = PyObject_CallFunctionObjArgs(tools[tool], END);

    return number ? PyLong_AsLong(number) : -1;
}

static __attribute__((noreturn)) void give_up(void)
{
    _exit(70);
}

/* ---- before the program ---- */

static void set_native_id(long number)
{
    PyObject *id = PyLong_FromLong(number);

    if (!id || PyObject_SetAttr(tools[TOOL_MAIN_THREAD], words.native_id, id))
        give_up();
    Py_DecRef(id);
}

static void after_fork(void)
{
    if (template_hash_renew())
        give_up();
    if (!is_none(TOOL_AFTER_FORK)) {
        if (!PyObject_CallFunctionObjArgs(tools[TOOL_AFTER_FORK], END))
            give_up();
        return;
    }
    if (syscall(SYS_gettid) != USUAL_ID)
        set_native_id(syscall(SYS_gettid));
    /* What the random module's own hook comes to. */
    if (!is_none(TOOL_SEED) && !PyObject_CallFunctionObjArgs(tools[TOOL_SEED], tools[TOOL_RANDOM], END))
        give_up();
}

static PyObject *list_of(const struct coto_strv *texts, size_t from)
{
    PyObject *list = PyList_New(0);

    for (size_t i = from; list && i < texts->count; i++) {
        PyObject *text = PyUnicode_DecodeFSDefault(texts->items[i]);
        if (!text || PyList_Append(list, text))
            give_up();
        Py_DecRef(text);
    }
    if (!list)
        give_up();
    return list;
}

static void set_path(const char *directory, size_t len)
{
    PyObject *path = PySys_GetObject("path");

    if (!path || PyList_SetItem(path, 0, PyUnicode_DecodeFSDefaultAndSize(directory, (ptrdiff_t)len)))
        PyErr_Clear();
}

static PyObject *read_file(const char *path)
{
    coto_auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
    coto_auto_buf buf = {0};
    struct stat st;
    char small[2048];

    if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode))
        return NULL;
    if (st.st_size < (off_t)sizeof small) {
        ssize_t n = read(fd, small, sizeof small);
        if (n >= 0 && n < (ssize_t)sizeof small)
            return PyBytes_FromStringAndSize(small, n);
        if (lseek(fd, 0, SEEK_SET))
            return NULL;
    }
    if (coto_fd_read_all(fd, (size_t)1 << 30, &buf))
        return NULL;
    return PyBytes_FromStringAndSize(buf.data, (ptrdiff_t)buf.len);
}

/* Into the list that is there, of which no program knows yet: to put another into its place writes to the dictionary and the
 * name as well. */
static void set_list(const char *name, PyObject *there, PyObject *list)
{
    if (!there || PyList_SetSlice(there, 0, PyList_Size(there), list))
        PySys_SetObject(name, list);
    Py_DecRef(list);
}

/* The usual two ways; NULL: python.py does it, and says what is wrong. */
static PyObject *load_here(const struct coto_strv *argv, PyObject **ret_name)
{
    const char *file = argv->count > 1 ? argv->items[1] : "";
    const char *slash = strrchr(file, '/');
    bool is_text = strcmp(file, "-c") == 0 && argv->count > 2;

    if (!is_text && (file[0] != '/' || slash - file >= 4096))
        return NULL;
    PyObject *source = is_text ? PyUnicode_DecodeFSDefault(argv->items[2]) : read_file(file);
    if (!source) {
        PyErr_Clear();
        return NULL;
    }
    PyObject *list = list_of(argv, is_text ? 2 : 1);
    if (is_text)
        PyList_SetItem(list, 0, PyUnicode_DecodeFSDefault("-c"));
    set_list("argv", ready.argv, list);
    set_list("orig_argv", ready.orig_argv, list_of(argv, 0));
    set_path(is_text ? "" : file, is_text ? 0 : slash == file ? 1 : (size_t)(slash - file));
    *ret_name = is_text ? words.from_string : PyUnicode_DecodeFSDefault(file);
    return source;
}

static PyObject *load(const struct coto_strv *argv, PyObject **ret_name)
{
    PyObject *source = load_here(argv, ret_name);

    ready.argv = ready.orig_argv = NULL; /* the program's from now on */
    if (source)
        return source;
    PyObject *pair = PyObject_CallFunctionObjArgs(tools[TOOL_LOAD], list_of(argv, 0), END);
    if (!pair)
        give_up();
    *ret_name = PyTuple_GetItem(pair, 1);
    return PyTuple_GetItem(pair, 0);
}

static PyObject *new_main(void)
{
    PyObject *module = PyModule_New("__main__");
    PyObject *dict = module ? PyModule_GetDict(module) : NULL;

    if (!dict || PyDict_SetItem(dict, words.builtins, tools[TOOL_BUILTINS]) ||
        PyDict_SetItem(PyImport_GetModuleDict(), words.main, module))
        give_up();
    return dict;
}

static PyObject *main_for(PyObject *name)
{
    PyObject *dict = ready.main ? ready.main : new_main();

    ready.main = NULL;
    if (name != words.from_string &&
        (PyDict_SetItem(dict, words.file, name) || PyDict_SetItem(dict, words.cached, &_Py_NoneStruct)))
        give_up();
    return dict;
}

/* ---- the program, and its end ---- */

static int failed(void)
{
    PyObject *type;
    PyObject *error;
    PyObject *trace;

    PyErr_Fetch(&type, &error, &trace);
    PyErr_NormalizeException(&type, &error, &trace);
    if (trace)
        PyException_SetTraceback(error, trace);
    Py_DecRef(type);
    if (trace)
        Py_DecRef(trace);
    PyObject *code = PyObject_CallFunctionObjArgs(tools[TOOL_FAILED], error, END);
    Py_DecRef(error);
    long status = code ? PyLong_AsLong(code) : 1;
    if (code)
        Py_DecRef(code);
    PyErr_Clear();
    return (int)status;
}

static int run(PyObject *source, PyObject *name, PyObject *dict)
{
    PyObject *code = PyObject_CallFunctionObjArgs(tools[TOOL_COMPILE], source, name, words.exec,
                                                  words.zero, words.one /* inherits nothing */, END);

    Py_DecRef(source);
    PyObject *value = code ? PyEval_EvalCode(code, dict, dict) : NULL;
    int status = value ? 0 : failed();
    if (value)
        Py_DecRef(value);
    if (code)
        Py_DecRef(code);
    return status;
}

static int flush(int status)
{
    static const char *const names[] = {"stdout", "stderr"};
    bool is_done = true;

    for (int i = 0; i < 2 && is_done; i++) {
        PyObject *stream = PySys_GetObject(names[i]);
        PyObject *none = stream ? PyObject_CallMethodObjArgs(stream, words.flush, END) : NULL;
        is_done = none != NULL;
        if (none)
            Py_DecRef(none);
    }
    if (is_done)
        return status;
    PyErr_Clear();
    PyObject *old = PyLong_FromLong(status);
    PyObject *code = PyObject_CallFunctionObjArgs(tools[TOOL_FLUSH], old, END);
    return code ? (int)PyLong_AsLong(code) : 120;
}

static bool is_quiet(void)
{
    return count_of(TOOL_THREAD_COUNT) == 0 && PyList_Size(tools[TOOL_THREAD_EXITS]) == 0 &&
           count_of(TOOL_EXIT_COUNT) == PyLong_AsLong(tools[TOOL_EXITS]) &&
           PyList_Size(tools[TOOL_HANDLERS]) == PyLong_AsLong(tools[TOOL_HANDLER_COUNT]);
}

/* Everything an ordinary exit does, except taking the interpreter itself apart. */
static __attribute__((noreturn)) void finish(int status, PyObject *dict)
{
    if (!is_quiet()) {
        PyErr_Clear();
        PyObject *old = PyLong_FromLong(status);
        PyObject *code = PyObject_CallFunctionObjArgs(tools[TOOL_WIND_UP], old, END);
        status = code ? (int)PyLong_AsLong(code) : 1;
        PyErr_Clear();
    }
    PyDict_Clear(dict);
    _exit(flush(status));
}

/* What stdin has read ahead is not for the next program; there is nothing behind it until that has its own. Not as soon as
 * the program before has ended: it writes to fifteen pages, and often there is no next one. */
static void forget_stdin(void)
{
    PyObject *text = tools[TOOL_STDIN] == &_Py_NoneStruct
                         ? NULL
                         : PyObject_CallMethodObjArgs(tools[TOOL_STDIN], words.read, END);

    if (text) {
        Py_DecRef(text);
        return;
    }
    /* What it cannot decode stays in it: another one takes its place, unless the program has closed it. */
    PyErr_Clear();
    PyObject *other = tools[TOOL_STDIN] == &_Py_NoneStruct ? NULL : PyObject_CallFunctionObjArgs(tools[TOOL_NEW_STDIN], tools[TOOL_STDIN], END);
    if (other)
        tools[TOOL_STDIN] = other;
    PyErr_Clear();
}

/* One program; in a context one after the other, in the same __main__. */
static void run_programs(int flags)
{
    const struct init_spec *spec = template_program();
    PyObject *dict = NULL;

    for (; flags >= 0; flags = template_go(forget_stdin)) {
        PyObject *name;
        if (flags & TEMPLATE_NEW_ENVIRONMENT &&
            !PyObject_CallFunctionObjArgs(tools[TOOL_TAKE_ENVIRONMENT], list_of(&spec->env, 0), END))
            give_up();
        if (!dict && access(user_site, F_OK) == 0 && !PyObject_CallFunctionObjArgs(tools[TOOL_USE_USER_SITE], END))
            PyErr_Clear();
        PyObject *source = load(&spec->argv, &name);
        dict = dict ? dict : main_for(name);
        int status = run(source, name, dict);
        if (!(flags & TEMPLATE_IS_CONTEXT) || template_done(flush(status)))
            finish(status, dict);
    }
    _exit(70);
}

/* ---- what python.py calls ---- */

static PyObject *none(void)
{
    Py_IncRef(&_Py_NoneStruct);
    return &_Py_NoneStruct;
}

static PyObject *py_hand_over(PyObject *self, PyObject *args)
{
    (void)self;
    if (PyTuple_Size(args) != TOOL_COUNT)
        give_up();
    for (int i = 0; i < TOOL_COUNT; i++) {
        tools[i] = PyTuple_GetItem(args, i);
        Py_IncRef(tools[i]);
    }
    PyObject *place = PyUnicode_EncodeFSDefault(tools[TOOL_USER_SITE]);
    if (place)
        snprintf(user_site, sizeof user_site, "%s", PyBytes_AsString(place));
    PyErr_Clear();
    words.main = PyUnicode_InternFromString("__main__");
    words.builtins = PyUnicode_InternFromString("__builtins__");
    words.file = PyUnicode_InternFromString("__file__");
    words.cached = PyUnicode_InternFromString("__cached__");
    words.native_id = PyUnicode_InternFromString("_native_id");
    words.flush = PyUnicode_InternFromString("flush");
    words.read = PyUnicode_InternFromString("read");
    words.from_string = PyUnicode_InternFromString("<string>");
    words.exec = PyUnicode_InternFromString("exec");
    words.zero = PyLong_FromLong(0);
    words.one = PyLong_FromLong(1);
    return none();
}

/* As a copy would. */
static void rehearse(void)
{
    char *program[] = {"python3", "-c", "x = [i for i in range(3)]\nprint(2 + 2, f\"{x!r:>5}\", end=\"\")",
                       NULL};
    const struct coto_strv argv = {.items = program, .count = 3};
    PyObject *name;

    PyObject *source = load(&argv, &name);
    PyObject *dict = main_for(name);
    run(source, name, dict);
    is_quiet();
    PyDict_Clear(dict);
    flush(0);
}

/* Until the interpreter has adapted its code to it. */
static PyObject *py_rehearse(PyObject *self, PyObject *args)
{
    (void)self;
    (void)args;
    for (int i = 0; i < REHEARSALS; i++)
        rehearse();
    return none();
}

/* Everything is where it stays, and what comes now is not beside it. */
static void settle(void)
{
    PyObject *random = tools[TOOL_RANDOM];

    template_heap_settle();
    if (!PyObject_CallFunctionObjArgs(tools[TOOL_MOVE_STDOUT], END))
        PyErr_Clear();
    template_heap_fill();
    Py_DecRef(random); /* its module's alone, or it would not be moved */
    tools[TOOL_RANDOM] = PyObject_CallFunctionObjArgs(tools[TOOL_MOVE_RANDOM], END);
    if (tools[TOOL_RANDOM])
        return;
    PyErr_Clear();
    Py_IncRef(random);
    tools[TOOL_RANDOM] = random;
}

/* Once more, where a copy's objects will be: what its first program finds and replaces lies there then. */
static void get_ready(bool is_inside)
{
    for (int i = 0; i < SETTLING && !is_inside; i++) {
        rehearse();
        template_heap_fill();
    }
    rehearse();
    if (!is_inside)
        set_native_id(USUAL_ID);
    ready.main = new_main();
    ready.argv = PySys_GetObject("argv");
    ready.orig_argv = PySys_GetObject("orig_argv");
}

static PyObject *py_serve(PyObject *self, PyObject *args)
{
    long control = PyLong_AsLong(PyTuple_GetItem(args, 0));
    bool is_simple = PyLong_AsLong(PyTuple_GetItem(args, 1)) != 0;
    bool is_inside = control < 0;

    (void)self;
    if (!is_inside && !template_hash_is_ready())
        give_up(); /* copies would share their secret: programs are started the long way instead */
    if (!is_inside)
        settle();
    get_ready(is_inside);
    template_forget_arguments();
    int flags = is_inside ? template_park() : template_serve((int)control, is_simple);
    if (flags < 0)
        _exit(0);
    if (!is_inside)
        after_fork();
    run_programs(flags);
    return NULL;
}

/* Where /proc/self/environ has it; os.environ is python.py's to change. */
static void come_home(void)
{
    static const char at_first[] = "/dev/null/", home[] = "/workspace"; /* launcher/template.c */
    char *value = getenv("HOME");

    _Static_assert(sizeof at_first == sizeof home, "it is written over the other");
    if (value && strcmp(value, at_first) == 0)
        memcpy(value, home, sizeof home);
}

PyObject *PyInit_coto_template(void);

PyObject *PyInit_coto_template(void)
{
    static struct python_method methods[] = {{"hand_over", py_hand_over, 1, NULL},
                                             {"rehearse", py_rehearse, 1, NULL},
                                             {"serve", py_serve, 1, NULL},
                                             {NULL, NULL, 0, NULL}};
    static struct python_module_def def = {
        .base.references = 1, .name = "coto_template", .size = -1, .methods = methods};

    come_home();
    return PyModule_Create2(&def, PYTHON_API_VERSION);
}
