// SPDX-License-Identifier: Apache-2.0
#include "footprint.h"

namespace sim {

void Footprint::clear() {
  pages_.clear();
  last_ = nullptr;
}

Footprint::Page& Footprint::page_at(uintptr_t number) {
  if (last_ && number == last_number_) return *last_;
  std::unique_ptr<Page>& page = pages_[number];
  if (!page) page = std::make_unique<Page>();
  last_number_ = number;
  last_ = page.get();
  return *page;
}

Footprint::Mark* Footprint::split(Page& page, size_t quad) {
  if (!page.bytes) page.bytes.reset(new Mark[kPageBytes]);
  Mark* bytes = &page.bytes[quad * 16];
  if (page.split >> quad & 1) return bytes;
  for (size_t i = 0; i < 16; ++i) bytes[i] = page.quads[quad];
  page.split |= 1ull << quad;
  return bytes;
}

void Footprint::note(uintptr_t address, size_t bytes, Use use, const Touch& touch) {
  const auto put = [&](Mark& mark) {
    Touch& place = mark.touches[static_cast<unsigned>(use)];
    if (!place.block) place = touch;
  };
  for (uintptr_t at = address, end = address + bytes; at < end;) {
    const uintptr_t stop = std::min(end, (at | 15) + 1);
    Page& page = page_at(at / kPageBytes);
    const size_t quad = at % kPageBytes / 16;
    if (stop - at == 16 && !(page.split >> quad & 1)) {
      put(page.quads[quad]);
    } else {
      Mark* parts = split(page, quad);
      for (uintptr_t b = at; b < stop; ++b) put(parts[b % 16]);
    }
    at = stop;
  }
}

void Footprint::conflict(const Mark& before, const Mark& added, uintptr_t address,
                         FootprintConflict& out) {
  // For each use of the later block, what it must not meet.
  static constexpr struct {
    Use here, there;
  } kPairs[] = {
      {Use::kStore, Use::kStore},        {Use::kStore, Use::kRead},  {Use::kRead, Use::kStore},
      {Use::kStore, Use::kAtomic},       {Use::kAtomic, Use::kStore}, {Use::kRead, Use::kAtomic},
      {Use::kAtomic, Use::kRead},        {Use::kStore, Use::kSilentStore},
      {Use::kAtomic, Use::kSilentStore}, {Use::kSilentStore, Use::kAtomic},
  };
  for (const auto& pair : kPairs) {
    const Touch& here = added.touches[static_cast<unsigned>(pair.here)];
    const Touch& there = before.touches[static_cast<unsigned>(pair.there)];
    if (!here.block || !there.block) continue;
    out = {true, pair.here, pair.there, there, here, address};
    return;
  }
}

void Footprint::unite(Mark& mark, const Mark& added) {
  for (unsigned use = 0; use < kUses; ++use)
    if (!mark.touches[use].block) mark.touches[use] = added.touches[use];
}

void Footprint::merge_page(uintptr_t base, Page& mine, const Page& other, FootprintConflict& out) {
  for (size_t quad = 0; quad < kQuads; ++quad) {
    const uintptr_t address = base + quad * 16;
    if (!((mine.split | other.split) >> quad & 1)) {
      if (!out.found) conflict(mine.quads[quad], other.quads[quad], address, out);
      unite(mine.quads[quad], other.quads[quad]);
      continue;
    }
    Mark* parts = split(mine, quad);
    for (size_t i = 0; i < 16; ++i) {
      const Mark& added =
          other.split >> quad & 1 ? other.bytes[quad * 16 + i] : other.quads[quad];
      if (!out.found) conflict(parts[i], added, address + i, out);
      unite(parts[i], added);
    }
  }
}

FootprintConflict Footprint::merge(const Footprint& other) {
  std::vector<uintptr_t> numbers;  // in order, so that the report names the first byte
  for (const auto& [number, page] : other.pages_) numbers.push_back(number);
  std::sort(numbers.begin(), numbers.end());
  FootprintConflict out;
  for (uintptr_t number : numbers)
    merge_page(number * kPageBytes, page_at(number), *other.pages_.at(number), out);
  return out;
}

}  // namespace sim
