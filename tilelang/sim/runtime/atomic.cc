// SPDX-License-Identifier: Apache-2.0
// Atomic updates. Blocks may run on several host threads, so these are atomic on the host too.
#include <string.h>

#include <type_traits>

#include "atomic.h"
#include "group.h"
#include "number.h"
#include "text.h"

namespace sim {

namespace {

template <class T>
T combine(T old, T value, int op) {
  switch (op) {
    case TLSIM_ATOMIC_ADD: return static_cast<T>(old + value);
    case TLSIM_ATOMIC_MAX:
      return old != old ? value : value > old ? value : old;  // a NaN is ignored
    case TLSIM_ATOMIC_MIN: return old != old ? value : value < old ? value : old;
    case TLSIM_ATOMIC_OR:
      if constexpr (std::is_integral_v<T>) return static_cast<T>(old | value);
      return value;
    default: return value;
  }
}

// T: how the value is computed; Word: an unsigned integer of its size; the functions convert.
template <class T, class Word, class Load, class Store>
void update(void* p, const void* value, void* old, int op, Load load, Store store) {
  Word* word = static_cast<Word*>(p);
  Word operand, seen = __atomic_load_n(word, __ATOMIC_RELAXED);
  memcpy(&operand, value, sizeof operand);
  const T x = load(operand);
  while (op != TLSIM_ATOMIC_LOAD) {
    const Word next = op == TLSIM_ATOMIC_EXCHANGE ? operand : store(combine<T>(load(seen), x, op));
    if (__atomic_compare_exchange_n(word, &seen, next, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
      break;
  }
  memcpy(old, &seen, sizeof seen);
}

template <class T, class Word>
void update_plain(void* p, const void* value, void* old, int op) {
  update<T, Word>(
      p, value, old, op,
      [](Word w) {
        T x;
        memcpy(&x, &w, sizeof x);
        return x;
      },
      [](T x) {
        Word w;
        memcpy(&w, &x, sizeof w);
        return w;
      });
}

}  // namespace


bool update_atomically(void* p, const void* value, void* old, int op, TlsimType type) {
  switch (type) {
    case TLSIM_S8: update_plain<int8_t, uint8_t>(p, value, old, op); break;
    case TLSIM_U8: update_plain<uint8_t, uint8_t>(p, value, old, op); break;
    case TLSIM_S16: update_plain<int16_t, uint16_t>(p, value, old, op); break;
    case TLSIM_U16: update_plain<uint16_t, uint16_t>(p, value, old, op); break;
    case TLSIM_S32: update_plain<int32_t, uint32_t>(p, value, old, op); break;
    case TLSIM_U32: update_plain<uint32_t, uint32_t>(p, value, old, op); break;
    case TLSIM_S64: update_plain<int64_t, uint64_t>(p, value, old, op); break;
    case TLSIM_U64: update_plain<uint64_t, uint64_t>(p, value, old, op); break;
    case TLSIM_F32: update_plain<float, uint32_t>(p, value, old, op); break;
    case TLSIM_F64: update_plain<double, uint64_t>(p, value, old, op); break;
    case TLSIM_F16:
      update<float, uint16_t>(p, value, old, op, tlsim_f16_to_f32, tlsim_f32_to_f16);
      break;
    case TLSIM_BF16:
      update<float, uint16_t>(p, value, old, op, tlsim_bf16_to_f32, tlsim_f32_to_bf16);
      break;
    default: return false;
  }
  return true;
}

}  // namespace sim

using namespace sim;

extern "C" void tlsim_atomic(void* p, const void* value, void* old, int op, int type, int line) {
  Fiber& self = *current;
  Block& block = *self.block;
  const size_t bytes = static_cast<size_t>(element_bytes(static_cast<TlsimType>(type)));
  const bool reads = op != TLSIM_ATOMIC_STORE, writes = op != TLSIM_ATOMIC_LOAD;
  ++block.counters.atomics;
  block.count_event(at_line(line), kAtomicSite, bytes);
  if (reinterpret_cast<uintptr_t>(p) % bytes)
    block.fail(
        self, "misaligned",
        format(
            "thread %u: an atomic update of %zu bytes at an address that is not a multiple of it%s",
            self.id, bytes, site_text(at_line(line)).c_str()));
  if (block.check) {
    if (self.doubt.place) block.settle(self);
    Actor actor = block.actor_of(self, at_line(line));
    actor.atomic = true;
    // Where its value is used it must have been set.
    if (reads && op != TLSIM_ATOMIC_EXCHANGE) block.access(self, p, bytes, false, actor);
    if (writes) block.access(self, p, bytes, true, actor);
  }
  if (!writes) block.poll(self, at_line(line));
  if (!update_atomically(p, value, old, op, static_cast<TlsimType>(type)))
    block.fail(self, "unsupported", "an atomic update of this type");
  if (reads) block.group.atomic_read(self, p);
  if (writes) block.group.atomic_write(self, p, reads);
}
