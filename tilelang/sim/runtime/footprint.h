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
  uint32_t thread, block;  // linear indices
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
  // Adds what another block did, which has no further use for it; the first conflict of the two.
  FootprintConflict merge(Footprint& other);

 private:
  static constexpr size_t kPageBytes = 1024, kQuads = kPageBytes / 16;
  // One kind of access of 16 bytes: which of them, and of each word by whom and where.
  struct Mark {
    uint32_t who[4];  // block, thread
    Site site[4];
    uint32_t bytes;
  };
  static constexpr unsigned kThreadBits = 10;
  struct Quad {
    Mark marks[kUses];
    unsigned bytes() const {
      return marks[0].bytes | marks[1].bytes | marks[2].bytes | marks[3].bytes;
    }
  };
  struct Page {
    Quad quads[kQuads];
    uint64_t used;  // quads that have been touched; the others hold anything
  };
  static bool conflict(const Quad& before, const Quad& added, uintptr_t address,
                       FootprintConflict& out);
  static void unite(Quad& quad, const Quad& added);
  Page& page_at(uintptr_t number);

  std::unordered_map<uintptr_t, std::unique_ptr<Page>> pages_;
  std::vector<std::unique_ptr<Page>> spare_;
  uintptr_t last_number_ = 0;
  Page* last_ = nullptr;
};

}  // namespace sim
