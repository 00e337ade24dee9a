// SPDX-License-Identifier: Apache-2.0
// Happens-before as vector clocks.
//
// Everything that accesses memory is an *agent*: the threads of a block, and asynchronous units
// acting for them (a thread's cp.async copies, each TMA operation, a warpgroup's wgmma reads).
// Agent a's accesses carry its tick; another agent may rely on them once its own clock has clock[a]
// >= tick. Clocks are immutable and shared: after a block barrier all threads hold one object.
//
// A clock is of the agents of one block. What is known of other blocks, which only clusters, grid
// barriers and atomics tell, is a `Past`: a clock for each of them.
#pragma once
#include <stdint.h>
#include <string.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

namespace sim {

using Tick = uint32_t;
// A number within its block below that of the block among those that run together.
using Agent = uint32_t;
constexpr unsigned kLocalBits = 12;
constexpr unsigned kLocalAgents = 1u << kLocalBits;
inline unsigned local_of(Agent agent) { return agent % kLocalAgents; }
inline unsigned slot_of(Agent agent) { return agent >> kLocalBits; }

// A shared immutable vector of ticks by local number; agents beyond its size have tick 0. Used by
// one host thread only.
class Clock {
 public:
  Clock() = default;
  explicit Clock(std::vector<Tick> ticks) : data_(new Data{std::move(ticks), 1}) {}
  Clock(const Clock& other) : data_(other.data_) {
    if (data_) ++data_->references;
  }
  Clock(Clock&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  Clock& operator=(Clock other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }
  ~Clock() {
    if (data_ && --data_->references == 0) delete data_;
  }

  Tick operator[](unsigned local) const {
    return data_ && local < data_->ticks.size() ? data_->ticks[local] : 0;
  }
  bool empty() const { return !data_; }
  bool same(const Clock& other) const { return data_ == other.data_; }
  const std::vector<Tick>& ticks() const { return data_->ticks; }

 private:
  struct Data {
    std::vector<Tick> ticks;
    uint32_t references;
  };
  Data* data_ = nullptr;
};

// A clock under construction: the least upper bound of what is added.
class ClockSum {
 public:
  void add(const Clock& clock) {
    if (clock.empty() || clock.same(last_)) return;
    const std::vector<Tick>& other = clock.ticks();
    if (ticks_.size() < other.size()) ticks_.resize(other.size());
    for (size_t i = 0; i < other.size(); ++i) ticks_[i] = std::max(ticks_[i], other[i]);
    last_ = clock;
  }
  void add(unsigned local, Tick tick) {
    if (ticks_.size() <= local) ticks_.resize(local + 1u);
    ticks_[local] = std::max(ticks_[local], tick);
  }
  bool empty() const { return ticks_.empty(); }
  // The sum; this object is empty afterwards.
  Clock take() {
    last_ = Clock();
    return ticks_.empty() ? Clock() : Clock(std::exchange(ticks_, {}));
  }

 private:
  std::vector<Tick> ticks_;
  Clock last_;
};

// What is known of each of several blocks: a shared immutable list, ordered by slot. `fenced`: what
// a proxy fence has made visible to the async proxy.
class Past {
 public:
  struct Entry {
    unsigned slot;
    Clock seen, fenced;
  };
  using Entries = std::vector<Entry>;

  Past() = default;
  explicit Past(Entries entries)
      : data_(entries.empty() ? nullptr : new Data{std::move(entries), 1}) {}
  Past(const Past& other) : data_(other.data_) {
    if (data_) ++data_->references;
  }
  Past(Past&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  Past& operator=(Past other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }
  ~Past() {
    if (data_ && --data_->references == 0) delete data_;
  }

  bool empty() const { return !data_; }
  bool same(const Past& other) const { return data_ == other.data_; }
  const Entries& entries() const { return data_->entries; }
  const Entry* find(unsigned slot) const {
    if (!data_) return nullptr;
    const auto at = std::lower_bound(data_->entries.begin(), data_->entries.end(), slot,
                                     [](const Entry& e, unsigned s) { return e.slot < s; });
    return at == data_->entries.end() || at->slot != slot ? nullptr : &*at;
  }

 private:
  struct Data {
    Entries entries;
    uint32_t references;
  };
  Data* data_ = nullptr;
};

// What an agent may rely on. `seen`: accesses of its block that happened before. `fenced`: those of
// them that are visible to the async proxy (empty until a kernel uses such fences). `others`: the
// same of other blocks.
struct View {
  Clock seen, fenced;
  Past others;
};

// A past under construction.
class PastSum {
 public:
  void add(unsigned slot, const Clock& seen, const Clock& fenced) {
    if (seen.empty() && fenced.empty()) return;
    auto at = std::lower_bound(rows_.begin(), rows_.end(), slot,
                               [](const Row& row, unsigned s) { return row.slot < s; });
    if (at == rows_.end() || at->slot != slot) at = rows_.insert(at, Row{slot, {}, {}});
    at->seen.add(seen);
    at->fenced.add(fenced);
  }
  void add(const Past& past) {
    if (past.empty() || past.same(last_)) return;
    for (const Past::Entry& e : past.entries()) add(e.slot, e.seen, e.fenced);
    last_ = past;
  }
  bool empty() const { return rows_.empty(); }
  Past take() {
    last_ = Past();
    Past::Entries entries;
    for (Row& row : rows_) entries.push_back({row.slot, row.seen.take(), row.fenced.take()});
    rows_.clear();
    return Past(std::move(entries));
  }

 private:
  struct Row {
    unsigned slot;
    ClockSum seen, fenced;
  };
  std::vector<Row> rows_;
  Past last_;
};

struct ViewSum {
  ClockSum seen, fenced;
  PastSum others;
  void add(const View& view) {
    seen.add(view.seen);
    fenced.add(view.fenced);
    others.add(view.others);
  }
  // What somebody in another block, or a barrier of several, knows. `mine`: this sum's block.
  void add(const Past& past, unsigned mine) {
    if (past.empty()) return;
    for (const Past::Entry& e : past.entries()) {
      if (e.slot == mine) {
        seen.add(e.seen);
        fenced.add(e.fenced);
      } else {
        others.add(e.slot, e.seen, e.fenced);
      }
    }
  }
  View take() { return View{seen.take(), fenced.take(), others.take()}; }
};

// A view of block `slot` as a past of all blocks.
inline Past past_of(const View& view, unsigned slot) {
  PastSum sum;
  sum.add(view.others);
  sum.add(slot, view.seen, view.fenced);
  return sum.take();
}

// Joins clocks, remembering the latest results: many threads join the same pair.
class Joiner {
 public:
  Clock join(const Clock& a, const Clock& b) {
    if (b.empty() || a.same(b)) return a;
    if (a.empty()) return b;
    for (const Entry& entry : recent_)
      if (entry.a.same(a) && entry.b.same(b)) return entry.result;
    ClockSum sum;
    sum.add(a);
    sum.add(b);
    Entry& entry = recent_[next_++ % kEntries];
    entry = Entry{a, b, sum.take()};
    return entry.result;
  }
  Past join(const Past& a, const Past& b) {
    if (b.empty() || a.same(b)) return a;
    if (a.empty()) return b;
    if (a.same(past_a_) && b.same(past_b_)) return past_;
    PastSum sum;
    sum.add(a);
    sum.add(b);
    past_a_ = a;
    past_b_ = b;
    return past_ = sum.take();
  }
  void join(View& view, const View& other) {
    view.seen = join(view.seen, other.seen);
    view.fenced = join(view.fenced, other.fenced);
    view.others = join(view.others, other.others);
  }
  // The view of a thread of block `mine` learns a past.
  void join(View& view, const Past& past, unsigned mine) {
    if (past.empty()) return;
    ViewSum sum;
    sum.add(past, mine);
    join(view, sum.take());
  }
  void clear() { *this = Joiner(); }

 private:
  static constexpr unsigned kEntries = 8;
  struct Entry {
    Clock a, b, result;
  };
  Entry recent_[kEntries];
  Past past_a_, past_b_, past_;
  unsigned next_ = 0;
};

}  // namespace sim
