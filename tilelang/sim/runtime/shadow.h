// SPDX-License-Identifier: Apache-2.0
// Shadow memory: for every byte, who wrote it last and who has read it since.
//
// Most accesses are whole aligned 16-byte pieces, so one cell stands for 16 bytes until a smaller
// access splits it into four cells of 4 bytes, and those into cells of one byte. A write of the
// whole piece joins them again. Verdicts are therefore exact per byte at a fraction of the cost.
#pragma once
#include <memory>
#include <unordered_map>
#include <vector>

#include "clock.h"

namespace sim {

// Where an access is in the program: a generated line (top bit set) or an offset into the kernel's
// code, which the Python side maps to a line.
using Site = uint32_t;
constexpr Site kLineSite = 0x80000000u;
constexpr Site at_line(int line) { return kLineSite | static_cast<Site>(line); }

// Who accesses, and what it may rely on: all that `owner` did (a thread is its own owner; a unit
// acts for one), what its view has seen, and the work of its copy unit that it has waited for.
struct Actor {
  Agent agent;
  Tick tick;
  const View* view;
  Site site;
  Agent owner;
  Agent copy_agent = 0;  // 0: none
  Tick copy_tick = 0;
  bool async_proxy = false;  // goes through the async proxy (TMA, wgmma)
  bool atomic = false;       // does not race with other atomic accesses
  bool remembered = false;   // only notes a read: nothing is checked

  bool relies_on(Agent other, Tick its_tick) const {
    if (slot_of(other) != slot_of(agent)) {
      const Past::Entry* entry = view->others.find(slot_of(other));
      return entry && entry->seen[local_of(other)] >= its_tick;
    }
    if (other == owner || view->seen[local_of(other)] >= its_tick) return true;
    return copy_agent && other == copy_agent && copy_tick >= its_tick;
  }
  // The accesses of `other` that a proxy fence has covered.
  Tick fenced(Agent other) const {
    if (slot_of(other) == slot_of(agent)) return view->fenced[local_of(other)];
    const Past::Entry* entry = view->others.find(slot_of(other));
    return entry ? entry->fenced[local_of(other)] : 0;
  }
};

enum class Fault : uint8_t {
  kNone,
  kReadAfterWrite,
  kWriteAfterWrite,
  kWriteAfterRead,
  kUninitialised,
  kNoProxyFence
};

// The first thing wrong with an access: the earlier access it conflicts with, and at which byte.
struct Conflict {
  Fault fault = Fault::kNone;
  Agent other = 0;
  Site site = 0;
  size_t byte = 0;  // from the start of the access
};

class Shadow {
 public:
  // Forgets everything; shared memory has `shared_bytes` from now on.
  void reset(size_t shared_bytes);
  // Shared memory becomes larger.
  void grow(size_t shared_bytes);

  Conflict shared(size_t offset, size_t bytes, bool writes, const Actor& actor);
  // Accesses of global memory that some thread may write. Keyed by address.
  Conflict global(uintptr_t address, size_t bytes, bool writes, const Actor& actor);

 private:
  static constexpr size_t kPageBytes = 1024, kQuads = kPageBytes / 16;
  static constexpr int kReaders = 4;
  struct Reader {
    Tick tick;
    Site site;
    Agent agent;
  };
  struct Cell {
    Tick write_tick;
    Site write_site;
    Agent writer;         // agent + 1; 0: never written
    uint32_t crowd : 24;  // index + 1 into crowds_ once there are more readers than fit here
    uint32_t readers : 4, split : 1, write_async : 1, write_atomic : 1;
    Reader reader[kReaders];
  };
  struct Page {
    Cell quads[kQuads];
    std::unique_ptr<Cell[]> words, bytes;
  };
  // Accesses of one call share these.
  struct Access {
    const Actor& actor;
    bool writes, needs_init;
    Conflict conflict;
    bool uninitialised = false;
  };

  void range(Page& page, size_t begin, size_t end, size_t done, Access& access);
  static Conflict verdict(const Access& access);
  template <int kLevel>
  bool piece(Page& page, size_t begin, size_t end, Access& access);
  bool touch(Cell& cell, Access& access);
  bool touch_read(Cell& cell, Access& access);
  bool touch_write(Cell& cell, Access& access);
  void add_reader(Cell& cell, const Actor& actor);
  uint32_t new_crowd();
  void drop_crowd(Cell& cell);
  template <int kLevel>
  void split(Page& page, size_t begin);
  template <int kLevel>
  static Cell& cell_at(Page& page, size_t begin);
  Page* new_page();

  std::vector<Page*> shared_;
  std::unordered_map<uintptr_t, Page*> global_;
  Page* latest_ = nullptr;  // of global_
  uintptr_t latest_number_ = 0;
  std::vector<std::unique_ptr<Page>> pages_;
  size_t used_pages_ = 0;
  // Readers of a cell, by block and number in it.
  struct Crowd {
    struct Read {
      Tick tick;
      Site site;
    };
    using Reads = std::vector<Read>;
    unsigned slot = 0;  // of most readers
    Reads reads;
    std::vector<std::pair<unsigned, Reads>> others;

    void put(Agent agent, Tick tick, Site site) {
      Reads& of_block = slot_of(agent) == slot ? reads : other(slot_of(agent));
      const unsigned local = local_of(agent);
      if (of_block.size() <= local) of_block.resize((local | 31) + 1u);
      of_block[local] = {tick, site};
    }
    Reads& other(unsigned block);
    // A reader that the actor does not rely on; tick 0 if there is none.
    Reader unordered(const Actor& actor) const;
  };
  std::vector<Crowd> crowds_;
  std::vector<uint32_t> free_crowds_;
};

}  // namespace sim
