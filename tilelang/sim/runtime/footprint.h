// SPDX-License-Identifier: Apache-2.0
// What blocks that nothing orders do to global memory: for every byte, one access of each kind.
//
// Blocks of a launch are unordered unless they run together (group.h), so two of them conflict
// wherever they touch a byte and one changes it, whatever the order of this run. A block notes its
// accesses; at its end they are compared with those of the blocks before it.
#pragma once
#include <memory>
#include <unordered_map>

#include "shadow.h"

namespace sim {

// A store that leaves the value as it is conflicts with those that change it, as a read does, but
// not with one before it: two blocks may store the same value.
enum class Use : unsigned { kRead, kSilentStore, kStore, kAtomic };
constexpr unsigned kUses = 4;

struct Touch {
  Site site;
  uint32_t thread, block;  // linear indices; block + 1, 0: none
};

struct FootprintConflict {
  bool found = false;
  Use here, there;
  Touch first, second;
  uintptr_t address;
};

class Footprint {
 public:
  void clear();
  void note(uintptr_t address, size_t bytes, Use use, const Touch& touch);
  // Adds what another block did; the first conflict between the two.
  FootprintConflict merge(const Footprint& other);

 private:
  static constexpr size_t kPageBytes = 1024, kQuads = kPageBytes / 16;
  struct Mark {
    Touch touches[kUses];
  };
  struct Page {
    Mark quads[kQuads] = {};
    std::unique_ptr<Mark[]> bytes;  // of quads that are split
    uint64_t split = 0;
  };
  static Mark* split(Page& page, size_t quad);
  static void conflict(const Mark& before, const Mark& added, uintptr_t address,
                       FootprintConflict& out);
  static void unite(Mark& mark, const Mark& added);
  void merge_page(uintptr_t base, Page& mine, const Page& other, FootprintConflict& out);
  Page& page_at(uintptr_t number);

  std::unordered_map<uintptr_t, std::unique_ptr<Page>> pages_;
  uintptr_t last_number_ = 0;
  Page* last_ = nullptr;
};

}  // namespace sim
