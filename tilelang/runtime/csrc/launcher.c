// SPDX-License-Identifier: Apache-2.0
// The launcher of execution backend `cython`: one extension for all kernels. What a call checks, computes and
// launches is data (a Plan, written by jit/adapter/plan.py, whose tables follow the structures here word by word).
//
// It declares the few functions of the stable ABI that it calls, so that neither Python's nor CUDA's headers are
// needed, and one build serves every CPython >= 3.11. Whatever is not as it should be (another framework's tensor, a
// wrong shape, a device on which nothing is loaded yet) is not handled here: the call goes to a Python function,
// which does it or says what is wrong. On CUDA the interpreter's lock is held throughout; it guards the descriptors.

typedef long long i64;
typedef unsigned u32;
typedef void* Obj;

typedef struct {
  void* buf;
  Obj obj;
  i64 len, itemsize;
  int readonly, ndim;
  char* format;
  i64 *shape, *strides, *suboffsets;
  void* internal;
} Buffer;  // Py_buffer

typedef struct {
  char* data;
  int device_type, device_id, ndim;
  u32 dtype;  // code | bits << 8 | lanes << 16
  i64 *shape, *strides;
  i64 byte_offset;
} Tensor;  // DLTensor

typedef struct {
  u32 grid[3], block[3], shared_bytes;
  void *stream, *attributes;
  u32 attribute_count;
} LaunchConfig;  // CUlaunchConfig

extern char* PyBytes_AsString(Obj);
extern Obj PyObject_Vectorcall(Obj, Obj const*, unsigned long, Obj);
extern Obj PyObject_CallFunction(Obj, const char*, ...);
extern int PyObject_GetBuffer(Obj, Buffer*, int);
extern void PyBuffer_Release(Buffer*);
extern i64 PyLong_AsLongLong(Obj);
extern double PyFloat_AsDouble(Obj);
extern Obj PyBool_FromLong(long);
extern Obj PyErr_Occurred(void);
extern void PyErr_Clear(void);
extern void Py_IncRef(Obj);
extern void Py_DecRef(Obj);
extern void* PyEval_SaveThread(void);
extern void PyEval_RestoreThread(void*);

enum { MAX_PARAMS = 64, MAX_SYMBOLS = 64, MAX_NDIM = 16, MAX_ARGS = 128, MAX_DTYPES = 4, MAX_STACK = 32 };
enum { CPU = 1, CUDA = 2, READ_STRIDED = 0x11C };  // PyBUF_RECORDS_RO: format and strides, not necessarily writable
enum { MAP_BYTES = 128, MAP_WAYS = 8, MAP_KEY = 12, MAP_SLOT = MAP_BYTES + 128 };
enum { DONE = 0, SLOW = 1, FAILED = -1 };

// What all kernels share; filled in from Python, when there is a torch or a numpy to fill it in from.
struct {
  void *tensor_type, *parameter_type, *array_type, *int_type, *float_type, *bool_type;
  int (*tensor_of)(Obj, Tensor*);
  int (*stream_of)(int, int, void**);
  i64 type_offset;
  Obj none;
} tl_shared;

// A size: 0 a constant, 1 a symbol, 2 code at `value`.
typedef struct { i64 tag, value; } Size;
typedef struct { i64 param, is_stride, dim, symbol, limit; } Bind;

enum { TENSOR, INT, BOOL, FLOAT32, FLOAT64, POINTER };
typedef struct {
  i64 kind, symbol, low, high;
  i64 ndim, dims, strides, align, written;  // dims, strides: of their Sizes; strides is 0 for row-major
  i64 num_dtypes, dtypes[MAX_DTYPES];
} Param;

enum { ARG_PARAM, ARG_SYMBOL, ARG_MAP };
typedef struct { i64 kind, index; } Arg;

typedef struct {
  i64 param, dtype, bytes, rank, dims, strides, swizzle, promotion;
  u32 *box, *ones;
  char* cache;
} Map;

typedef struct {
  i64 num_args, args, num_grid, grid, maps;
  i64 block[3], smem;
  void* attributes;
  i64 attribute_count;
  const char* (*run)(i64 const*, i64, i64);  // on a CPU: blocks begin to end, of arguments in slots of 8 bytes
} Kernel;

typedef struct {
  int (*launch)(LaunchConfig*, void*, void**, void**);
  int (*encode)(void*, int, u32, void*, i64*, i64*, u32*, u32*, int, int, int, int);
  int (*get_device)(int*);
  int (*push)(void*);
  int (*pop)(void**);
  void *strerror, *loader, *pad;
  char ready[64];
  void* contexts[64];
  void* kernels[];
} State;  // codegen.host_cuda.STATE

typedef struct {
  i64 num_params, params, num_binds, binds, num_kernels, kernels, num_asserts, asserts, device_type;
  State* state;
  Obj slow, named, failed;
} Plan;

#define AT(plan, type, offset) ((type*)((char*)(plan) + (offset)))
#define TYPE(o) (*(void**)((char*)(o) + tl_shared.type_offset))
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

// One call: what was read from its arguments.
typedef struct {
  Plan const* plan;
  Tensor tensors[MAX_PARAMS];
  i64 symbols[MAX_SYMBOLS];
  Buffer buffers[MAX_PARAMS];
  i64 shapes[MAX_PARAMS][MAX_NDIM];  // strides, in elements, of what came by a buffer
  int num_buffers;
} Call;

// ---------------------------------------------------------------------------------------------------- sizes

static i64 floor_div(i64 a, i64 b) {
  if (b == 0) return a;
  if (b == -1) return (i64)(0 - (unsigned long long)a);
  i64 q = a / b;
  return q - (a % b != 0 && (a < 0) != (b < 0));
}

static i64 trunc_div(i64 a, i64 b) { return b == 0 ? 0 : b == -1 ? (i64)(0 - (unsigned long long)a) : a / b; }

static i64 binary(int op, i64 a, i64 b) {
  switch (op) {
    case 0: return a + b;
    case 1: return a - b;
    case 2: return a * b;
    case 3: return floor_div(a, b);
    case 4: return b ? a - b * floor_div(a, b) : 0;
    case 5: return trunc_div(a, b);
    case 6: return a - b * trunc_div(a, b);
    case 7: return b < a ? b : a;
    case 8: return b > a ? b : a;
    case 9: return a & b;
    case 10: return a | b;
    case 11: return a ^ b;
    case 12: return a << (b & 63);
    case 13: return a >> (b & 63);
    case 14: return a == b;
    case 15: return a != b;
    case 16: return a < b;
    case 17: return a <= b;
    case 18: return a > b;
    case 19: return a >= b;
    case 20: return a ? b : a;
    default: return a ? a : b;
  }
}

enum { OP_CONST = 100, OP_SYMBOL, OP_NOT, OP_NEG, OP_SELECT };

static i64 evaluate(Call const* call, i64 const* code) {
  i64 stack[MAX_STACK], *top = stack;
  for (i64 n = *code++; n > 0; --n, code += 2) {
    int op = (int)code[0];
    if (op == OP_CONST) *top++ = code[1];
    else if (op == OP_SYMBOL) *top++ = call->symbols[code[1]];
    else if (op == OP_NOT) top[-1] = !top[-1];
    else if (op == OP_NEG) top[-1] = -top[-1];
    else if (op == OP_SELECT) top -= 2, top[-1] = top[-1] ? top[0] : top[1];
    else --top, top[-1] = binary(op, top[-1], top[0]);
  }
  return top[-1];
}

static inline i64 size(Call const* call, Size const* s) {
  if (s->tag == 0) return s->value;
  if (s->tag == 1) return call->symbols[s->value];
  return evaluate(call, AT(call->plan, i64, s->value));
}

// ---------------------------------------------------------------------------------------------------- arguments

static u32 dtype_of(Buffer const* b) {
  char const* f = b->format;
  int code;
  if (!f || !f[0] || f[1]) return 0;
  switch (f[0]) {
    case '?': code = 6; break;
    case 'b': case 'h': case 'i': case 'l': case 'q': code = 0; break;
    case 'B': case 'H': case 'I': case 'L': case 'Q': code = 1; break;
    case 'e': case 'f': case 'd': code = 2; break;
    default: return 0;
  }
  return code | (u32)(b->itemsize * 8) << 8 | 1u << 16;
}

// A numpy array; its memory is held until the call ends.
static int read_array(Call* call, Obj o, Tensor* t, int written) {
  Buffer* b = &call->buffers[call->num_buffers];
  if (PyObject_GetBuffer(o, b, READ_STRIDED)) {
    PyErr_Clear();
    return SLOW;
  }
  i64* strides = call->shapes[call->num_buffers++];
  if ((written && b->readonly) || b->ndim > MAX_NDIM) return SLOW;
  for (int d = 0; d < b->ndim; ++d) {
    if (b->strides[d] % b->itemsize) return SLOW;
    strides[d] = b->strides[d] / b->itemsize;
  }
  *t = (Tensor){b->buf, CPU, 0, b->ndim, dtype_of(b), b->shape, strides, 0};
  return DONE;
}

static int read_tensor(Call* call, Obj o, Param const* p, Tensor* t, int trusted) {
  void* type = TYPE(o);
  if (type == tl_shared.tensor_type || type == tl_shared.parameter_type) {
    if (UNLIKELY(!type || tl_shared.tensor_of(o, t))) {
      PyErr_Clear();
      return SLOW;
    }
    t->data += t->byte_offset;
  } else if (type == tl_shared.array_type) {
    if (read_array(call, o, t, (int)p->written)) return SLOW;
  } else {
    return SLOW;
  }
  if (UNLIKELY(t->ndim != p->ndim)) return SLOW;
  if (trusted) return DONE;
  for (int i = 0; i < p->num_dtypes; ++i)
    if (t->dtype == (u32)p->dtypes[i]) return DONE;
  return SLOW;
}

static int read_scalar(Call* call, Obj o, Param const* p) {
  void* type = TYPE(o);
  i64* place = &call->symbols[p->symbol];
  int is_int = type == tl_shared.int_type, is_bool = type == tl_shared.bool_type;
  if (p->kind == FLOAT32 || p->kind == FLOAT64) {
    if (!is_int && !is_bool && type != tl_shared.float_type) return SLOW;
    double value = PyFloat_AsDouble(o);
    if (value == -1.0 && PyErr_Occurred()) goto refused;
    if (p->kind == FLOAT64) __builtin_memcpy(place, &value, 8);
    else {
      float narrow = (float)value;
      *place = 0;
      __builtin_memcpy(place, &narrow, 4);
    }
    return DONE;
  }
  if (!is_int && !is_bool) return SLOW;
  i64 value = PyLong_AsLongLong(o);
  if (value == -1 && PyErr_Occurred()) goto refused;
  if (p->kind == BOOL) value = value != 0;
  if (value < p->low || value > p->high) return SLOW;
  *place = value;
  return DONE;
refused:
  PyErr_Clear();
  return SLOW;
}

static int fits(Call const* call, Param const* p, Tensor const* t, int device_id) {
  Size const* dims = AT(call->plan, Size, p->dims);
  i64 step = 1, elements = 1;
  for (int d = 0; d < t->ndim; ++d) {
    if (UNLIKELY(t->shape[d] != size(call, &dims[d]))) return 0;
    elements *= t->shape[d];
  }
  Size const* strides = p->strides ? AT(call->plan, Size, p->strides) : 0;
  for (int d = t->ndim - 1; elements && t->strides && d >= 0; --d) {
    i64 expected = strides ? size(call, &strides[d]) : step;
    if (UNLIKELY(t->shape[d] != 1 && t->strides[d] != expected)) return 0;
    step *= t->shape[d];
  }
  if (t->device_type != call->plan->device_type || t->device_id != device_id) return 0;
  return !((unsigned long long)t->data & (p->align - 1)) && (t->data || !elements);
}

static int read_arguments(Call* call, Obj const* args, int trusted, int* device_id) {
  Plan const* plan = call->plan;
  Param const* params = AT(plan, Param, plan->params);
  *device_id = -1;
  for (int i = 0; i < plan->num_params; ++i) {
    Param const* p = &params[i];
    int bad = p->kind == TENSOR ? read_tensor(call, args[i], p, &call->tensors[i], trusted)
                                : read_scalar(call, args[i], p);
    if (UNLIKELY(bad)) return SLOW;
    if (p->kind == TENSOR && *device_id < 0) *device_id = call->tensors[i].device_id;
  }
  Bind const* binds = AT(plan, Bind, plan->binds);
  for (int i = 0; i < plan->num_binds; ++i) {
    Tensor const* t = &call->tensors[binds[i].param];
    if (binds[i].is_stride && !t->strides) return SLOW;
    i64 value = (binds[i].is_stride ? t->strides : t->shape)[binds[i].dim];
    if (UNLIKELY(value > binds[i].limit)) return SLOW;
    call->symbols[binds[i].symbol] = value;
  }
  for (int i = 0; !trusted && i < plan->num_params; ++i)
    if (params[i].kind == TENSOR && UNLIKELY(!fits(call, &params[i], &call->tensors[i], *device_id))) return SLOW;
  Size const* asserts = AT(plan, Size, plan->asserts);
  for (int i = 0; i < plan->num_asserts; ++i)
    if (UNLIKELY(!size(call, &asserts[i]))) return SLOW;
  return DONE;
}

// ---------------------------------------------------------------------------------------------------- launches

// Grid of a kernel; 0 if it is empty.
static int grid_of(Call const* call, Kernel const* k, i64* grid) {
  Size const* sizes = AT(call->plan, Size, k->grid);
  for (int d = 0; d < 3; ++d) {
    grid[d] = d < k->num_grid ? size(call, &sizes[d]) : 1;
    if (grid[d] <= 0) return 0;
  }
  return 1;
}

static i64 slot_of(Call const* call, Arg const* a) {
  return a->kind == ARG_PARAM ? (i64)call->tensors[a->index].data : call->symbols[a->index];
}

static int run_cpu(Call const* call) {
  Plan const* plan = call->plan;
  Kernel const* kernels = AT(plan, Kernel, plan->kernels);
  const char* message = 0;
  int n;
  void* thread = PyEval_SaveThread();
  for (n = 0; n < plan->num_kernels; ++n) {
    Kernel const* k = &kernels[n];
    Arg const* args = AT(plan, Arg, k->args);
    i64 slots[MAX_ARGS], grid[3];
    if (!grid_of(call, k, grid)) continue;
    for (int i = 0; i < k->num_args; ++i) slots[i] = slot_of(call, &args[i]);
    message = k->run(slots, 0, grid[0] * grid[1] * grid[2]);
    if (message) break;
  }
  PyEval_RestoreThread(thread);
  if (!message) return DONE;
  Py_DecRef(PyObject_CallFunction(plan->failed, "iLs", n, (i64)0, message));
  return FAILED;
}

// The place of a TMA descriptor, which is encoded when address, shape or strides are new. The driver cannot describe
// an empty tensor: a kernel that is launched with one has no tile of it to copy, and is given zeros.
static int describe(Call const* call, Map const* m, char* copy) {
  Tensor const* t = &call->tensors[m->param];
  Size const *dims = AT(call->plan, Size, m->dims), *strides = AT(call->plan, Size, m->strides);
  i64 key[MAP_KEY] = {(i64)t->data};
  i64 *extents = key + 1, *steps = key + 1 + m->rank;
  for (int i = 0; i < m->rank; ++i) {
    extents[i] = size(call, &dims[i]);
    if (!extents[i]) {
      __builtin_memset(copy, 0, MAP_BYTES);
      return DONE;
    }
    if (i) steps[i - 1] = size(call, &strides[i]) * m->bytes;
  }
  char* slot = m->cache + MAP_SLOT * ((key[0] >> 9) & (MAP_WAYS - 1));
  if (__builtin_memcmp(slot + MAP_BYTES, key, sizeof key)) {
    if (call->plan->state->encode(slot, (int)m->dtype, (u32)m->rank, t->data, extents, steps, m->box, m->ones, 0,
                                  (int)m->swizzle, (int)m->promotion, 0)) {
      __builtin_memset(slot + MAP_BYTES, 0, sizeof key);
      return SLOW;  // Python says which
    }
    __builtin_memcpy(slot + MAP_BYTES, key, sizeof key);
  }
  __builtin_memcpy(copy, slot, MAP_BYTES);
  return DONE;
}

static int launch(Call const* call, int n, void* stream) {
  Plan const* plan = call->plan;
  Kernel const* k = AT(plan, Kernel, plan->kernels) + n;
  Arg const* args = AT(plan, Arg, k->args);
  i64 slots[MAX_ARGS], grid[3];
  void* pointers[MAX_ARGS];
  char maps[MAX_NDIM][MAP_BYTES] __attribute__((aligned(64)));
  if (!grid_of(call, k, grid)) return DONE;
  for (int i = 0, used = 0; i < k->num_args; ++i) {
    if (args[i].kind == ARG_MAP) {
      if (describe(call, AT(plan, Map, k->maps) + args[i].index, maps[used])) return SLOW;
      pointers[i] = maps[used++];
    } else {
      slots[i] = slot_of(call, &args[i]);
      pointers[i] = &slots[i];
    }
  }
  LaunchConfig config = {{(u32)grid[0], (u32)grid[1], (u32)grid[2]},
                         {(u32)k->block[0], (u32)k->block[1], (u32)k->block[2]},
                         (u32)k->smem, stream, k->attributes, (u32)k->attribute_count};
  int code = plan->state->launch(&config, plan->state->kernels[n], pointers, 0);
  if (!code) return DONE;
  Py_DecRef(PyObject_CallFunction(plan->failed, "iLs", n, (i64)code, ""));
  return FAILED;
}

// given: the stream to launch on; 0 for the current one of torch.
static int run_cuda(Call const* call, int device, void** given) {
  Plan const* plan = call->plan;
  State* state = plan->state;
  void *stream = 0, *previous;
  int current = -1, result = DONE;
  if (device < 0 || device >= 64 || !state->ready[device]) return SLOW;
  if (given) stream = *given;
  else if (!tl_shared.stream_of || tl_shared.stream_of(CUDA, device, &stream)) return SLOW;
  state->get_device(&current);
  if (UNLIKELY(current != device)) state->push(state->contexts[device]);
  // A later kernel is never handed to Python: the earlier ones would run twice.
  for (int n = 0; n < plan->num_kernels && result == DONE; ++n) {
    result = launch(call, n, stream);
    if (result == SLOW && n > 0) {
      Py_DecRef(PyObject_CallFunction(plan->failed, "iLs", n, (i64)-1, ""));
      result = FAILED;
    }
  }
  if (UNLIKELY(current != device)) state->pop(&previous);
  return result;
}

static int run(Plan const* plan, Obj const* args, int trusted, void** stream) {
  Call call;
  int device;
  call.plan = plan;
  call.num_buffers = 0;
  int result = read_arguments(&call, args, trusted, &device);
  if (!result) result = plan->device_type == CPU ? run_cpu(&call) : run_cuda(&call, device, stream);
  for (int i = 0; i < call.num_buffers; ++i) PyBuffer_Release(&call.buffers[i]);
  return result;
}

// ---------------------------------------------------------------------------------------------------- entries

// METH_FASTCALL | METH_KEYWORDS: all parameters, outputs included, by position.
Obj tl_call(Obj self, Obj const* args, i64 count, Obj names) {
  Plan const* plan = (Plan const*)PyBytes_AsString(self);
  if (UNLIKELY(names || count != plan->num_params)) return PyObject_Vectorcall(plan->named, args, count, names);
  int result = run(plan, args, 0, 0);
  if (UNLIKELY(result == SLOW)) return PyObject_Vectorcall(plan->slow, args, count, 0);
  if (UNLIKELY(result == FAILED)) return 0;
  Py_IncRef(tl_shared.none);
  return tl_shared.none;
}

// METH_FASTCALL: a stream's handle or None, whether to trust the tensors, and all parameters. False if it was not
// done.
Obj tl_call_on(Obj self, Obj const* args, i64 count) {
  Plan const* plan = (Plan const*)PyBytes_AsString(self);
  if (count != plan->num_params + 2) return PyBool_FromLong(0);
  void* stream = args[0] == tl_shared.none ? 0 : (void*)PyLong_AsLongLong(args[0]);
  int result = run(plan, args + 2, PyLong_AsLongLong(args[1]) != 0, args[0] == tl_shared.none ? 0 : &stream);
  return result == FAILED ? 0 : PyBool_FromLong(result == DONE);
}
