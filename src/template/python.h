/* The part of Python's C interface that the template uses, declared by hand: these are functions of its
 * stable interface, and the build needs no Python. Reference counts are left alone where a
 * copy lives only until its program has ended. */
#pragma once

#include <stddef.h>

typedef struct python_object PyObject;
typedef PyObject *(*python_function)(PyObject *self, PyObject *args);

struct python_method {
    const char *name;
    python_function function;
    int flags; /* 1: takes a tuple */
    const char *doc;
};

struct python_module_def {
    struct {
        size_t references;
        void *type;
        void *init;
        ptrdiff_t index;
        void *copy;
    } base;
    const char *name, *doc;
    ptrdiff_t size;
    struct python_method *methods;
    void *slots, *traverse, *clear, *free;
};

struct python_arenas {
    void *ctx;
    void *(*alloc)(void *ctx, size_t size);
    void (*free)(void *ctx, void *data, size_t size);
};

/* Not of the stable interface: looked up when it is there. The first field is const in the interpreter's header. */
struct python_hash {
    long (*hash)(const void *data, ptrdiff_t size);
    const char *name;
    int hash_bits, seed_bits;
};

extern PyObject _Py_NoneStruct;
#define PYTHON_API_VERSION 1013
#define PYTHON_FILE_INPUT 257

PyObject *PyModule_Create2(struct python_module_def *def, int api_version);
PyObject *PyModule_New(const char *name);
PyObject *PyModule_GetDict(PyObject *module);
PyObject *PyImport_GetModuleDict(void);
PyObject *PyEval_EvalCode(PyObject *code, PyObject *globals, PyObject *locals);
PyObject *PyObject_Call(PyObject *callable, PyObject *args, PyObject *kwargs);
PyObject *PyObject_CallFunctionObjArgs(PyObject *callable, ...);
PyObject *PyObject_CallMethodObjArgs(PyObject *object, PyObject *name, ...);
int PyObject_SetAttr(PyObject *object, PyObject *name, PyObject *value);
PyObject *PySys_GetObject(const char *name);
int PySys_SetObject(const char *name, PyObject *value);
PyObject *PyUnicode_InternFromString(const char *text);
PyObject *PyUnicode_DecodeFSDefault(const char *text);
PyObject *PyUnicode_DecodeFSDefaultAndSize(const char *text, ptrdiff_t size);
PyObject *PyUnicode_EncodeFSDefault(PyObject *text);
char *PyBytes_AsString(PyObject *bytes);
PyObject *PyBytes_FromStringAndSize(const char *data, ptrdiff_t size);
PyObject *PyLong_FromLong(long value);
long PyLong_AsLong(PyObject *object);
PyObject *PyList_New(ptrdiff_t size);
int PyList_SetItem(PyObject *list, ptrdiff_t index, PyObject *item);
int PyList_Append(PyObject *list, PyObject *item);
ptrdiff_t PyList_Size(PyObject *list);
int PyList_SetSlice(PyObject *list, ptrdiff_t from, ptrdiff_t to, PyObject *items);
PyObject *PyTuple_GetItem(PyObject *tuple, ptrdiff_t index);
ptrdiff_t PyTuple_Size(PyObject *tuple);
int PyDict_SetItem(PyObject *dict, PyObject *key, PyObject *value);
void PyDict_Clear(PyObject *dict);
void PyErr_Fetch(PyObject **ret_type, PyObject **ret_value, PyObject **ret_trace);
void PyErr_NormalizeException(PyObject **type, PyObject **value, PyObject **trace);
void PyErr_Clear(void);
ptrdiff_t PyGC_Collect(void);
int PyException_SetTraceback(PyObject *error, PyObject *trace);
void Py_IncRef(PyObject *object);
void Py_DecRef(PyObject *object);
void *PyObject_Malloc(size_t size);
void PyObject_GetArenaAllocator(struct python_arenas *ret_arenas);
void PyObject_SetArenaAllocator(struct python_arenas *arenas);
