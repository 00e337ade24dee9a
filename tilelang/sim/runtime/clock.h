// SPDX-License-Identifier: Apache-2.0
// Happens-before as vector clocks.
//
// Everything that accesses memory is an *agent*: the threads of a block, and asynchronous units
// acting for them (a thread's cp.async copies, each TMA operation, a warpgroup's wgmma reads).
// Agent a's accesses carry its tick; another agent may rely on them once its own clock has clock[a]
// >= tick. Clocks are immutable and shared: after a block barrier all threads hold one object.
#pragma once
#include <stdint.h>
#include <string.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

namespace sim {

using Tick = uint32_t;
using Agent = uint16_t;

// A shared immutable vector of ticks; agents beyond its size have tick 0. Used by one host thread
// only.
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

  Tick operator[](Agent agent) const {
    return data_ && agent < data_->ticks.size() ? data_->ticks[agent] : 0;
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
  void add(Agent agent, Tick tick) {
    if (ticks_.size() <= agent) ticks_.resize(agent + 1u);
    ticks_[agent] = std::max(ticks_[agent], tick);
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

// What an agent may rely on. `seen`: accesses that happened before. `fenced`: those of them that a
// proxy fence has made visible to the async proxy (empty until a kernel uses such fences).
struct View {
  Clock seen, fenced;
};

struct ViewSum {
  ClockSum seen, fenced;
  void add(const View& view) {
    seen.add(view.seen);
    fenced.add(view.fenced);
  }
  View take() { return View{seen.take(), fenced.take()}; }
};

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
  void join(View& view, const View& other) {
    view.seen = join(view.seen, other.seen);
    view.fenced = join(view.fenced, other.fenced);
  }
  void clear() {
    for (Entry& entry : recent_) entry = Entry{};
  }

 private:
  static constexpr unsigned kEntries = 8;
  struct Entry {
    Clock a, b, result;
  };
  Entry recent_[kEntries];
  unsigned next_ = 0;
};

}  // namespace sim
