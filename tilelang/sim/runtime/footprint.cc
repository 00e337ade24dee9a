// SPDX-License-Identifier: Apache-2.0
#include "footprint.h"

namespace sim {

void Footprint::clear() {
  for (auto& [number, page] : pages_)
    if (page) spare_.push_back(std::move(page));
  pages_.clear();
  last_ = nullptr;
}

Footprint::Page& Footprint::page_at(uintptr_t number) {
  if (last_ && number == last_number_) return *last_;
  std::unique_ptr<Page>& page = pages_[number];
  if (!page) {
    if (spare_.empty()) spare_.emplace_back(new Page);
    page = std::move(spare_.back());
    spare_.pop_back();
    page->used = 0;
  }
  last_number_ = number;
  last_ = page.get();
  return *page;
}

void Footprint::note(uintptr_t address, size_t bytes, Use use, const Touch& touch) {
  for (uintptr_t at = address, end = address + bytes; at < end;) {
    const uintptr_t stop = std::min(end, (at | 15) + 1);
    Page& page = page_at(at / kPageBytes);
    const size_t quad = at % kPageBytes / 16;
    if (!(page.used >> quad & 1)) page.quads[quad] = Quad{};  // only those in use are set
    Mark& mark = page.quads[quad].marks[static_cast<unsigned>(use)];
    const unsigned first = at % 16, last = static_cast<unsigned>((stop - 1) % 16);
    for (unsigned word = first / 4; word <= last / 4; ++word) {
      if (mark.bytes >> (4 * word) & 15) continue;
      mark.who[word] = touch.block << kThreadBits | touch.thread;
      mark.site[word] = touch.site;
    }
    mark.bytes |= (2u << last) - (1u << first);
    page.used |= 1ull << quad;
    at = stop;
  }
}

bool Footprint::conflict(const Quad& before, const Quad& added, uintptr_t address,
                         FootprintConflict& out) {
  if (!(before.bytes() & added.bytes())) return false;
  static constexpr struct {
    Use here, there;
  } kPairs[] = {
      {Use::kStore, Use::kStore},        {Use::kStore, Use::kRead},   {Use::kRead, Use::kStore},
      {Use::kStore, Use::kAtomic},       {Use::kAtomic, Use::kStore}, {Use::kRead, Use::kAtomic},
      {Use::kAtomic, Use::kRead},        {Use::kStore, Use::kSilentStore},
      {Use::kAtomic, Use::kSilentStore}, {Use::kSilentStore, Use::kAtomic},
  };
  for (const auto& pair : kPairs) {
    const Mark& here = added.marks[static_cast<unsigned>(pair.here)];
    const Mark& there = before.marks[static_cast<unsigned>(pair.there)];
    const unsigned both = here.bytes & there.bytes;
    if (!both) continue;
    const auto byte = static_cast<unsigned>(__builtin_ctz(both));
    const auto touch = [&](const Mark& mark) {
      const uint32_t who = mark.who[byte / 4];
      return Touch{mark.site[byte / 4], who % (1u << kThreadBits), who >> kThreadBits};
    };
    out = {true, pair.here, pair.there, touch(there), touch(here), address + byte};
    return true;
  }
  return false;
}

void Footprint::unite(Quad& quad, const Quad& added) {
  for (unsigned use = 0; use < kUses; ++use) {
    Mark& mark = quad.marks[use];
    const Mark& more = added.marks[use];
    if (!more.bytes) continue;
    if (!mark.bytes) {
      mark = more;
      continue;
    }
    for (unsigned word = 0; word < 4; ++word)
      if (!(mark.bytes >> (4 * word) & 15)) {
        mark.who[word] = more.who[word];
        mark.site[word] = more.site[word];
      }
    mark.bytes |= more.bytes;
  }
}

FootprintConflict Footprint::merge(Footprint& other) {
  std::vector<uintptr_t> numbers;  // in order, so that the report names the first byte
  for (const auto& [number, page] : other.pages_) numbers.push_back(number);
  std::sort(numbers.begin(), numbers.end());
  FootprintConflict out;
  for (uintptr_t number : numbers) {
    std::unique_ptr<Page>& mine = pages_[number];
    std::unique_ptr<Page>& theirs = other.pages_[number];
    if (!mine) {
      mine = std::move(theirs);
      continue;
    }
    for (uint64_t left = theirs->used; left; left &= left - 1) {
      const auto quad = static_cast<size_t>(__builtin_ctzll(left));
      if (!(mine->used >> quad & 1)) mine->quads[quad] = Quad{};
      if (conflict(mine->quads[quad], theirs->quads[quad], number * kPageBytes + quad * 16, out))
        return out;
      unite(mine->quads[quad], theirs->quads[quad]);
    }
    mine->used |= theirs->used;
  }
  return out;
}

}  // namespace sim
