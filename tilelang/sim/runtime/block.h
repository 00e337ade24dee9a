// SPDX-License-Identifier: Apache-2.0
// The state of one simulated thread block, and of the threads in it.
//
// A CUDA thread is a fiber. It runs until it has to wait, then the next ready one goes on; whoever
// completes what it waits for makes it ready again. Nothing here is global but the current fiber of
// each host thread, so that blocks run on several host threads, and several blocks can share one.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "../include/tlsim/api.h"
#include "clock.h"
#include "fiber.h"
#include "footprint.h"
#include "report.h"
#include "shadow.h"

namespace sim {

struct Block;
struct Fiber;
class Group;
struct GlobalRange;
struct Launch;

// A store that is looked at once it has happened. If it changes nothing, no thread can tell the
// order, and it is no race: two threads may set the same flag.
struct StoreInDoubt {
  const unsigned char* place = nullptr;  // null: none
  size_t bytes = 0;
  Site site = 0;
  unsigned char before[32];
  bool noted = false;   // in the footprint, as what it turns out to be
  std::string verdict;  // of a conflict, if it turns out to change something
};

struct CopyAsync {  // one cp.async that has not been waited for
  unsigned char* dst;
  const unsigned char* src;
  int bytes;
  bool pred;
};

// Arrives at an mbarrier when the copies have been made: when somebody waits for it.
struct CopyArrival {
  Fiber* fiber;
  uint64_t barrier;  // shared offset
  Site site;
  Tick tick;
  std::vector<CopyAsync> copies;
};

struct StackRange {  // registers of a thread that an unfinished wgmma still uses
  uintptr_t begin, end;
  Site site;
  bool written;        // an accumulator: even reading it is too early
  unsigned operation;  // counts the thread's wgmmas
};

// One CUDA thread.
struct Fiber {
  Context context;
  Block* block;
  Fiber* next_ready;
  TlsimDim3 index;
  unsigned id, lane, warp;
  uintptr_t stack;
  bool done;

  Tick tick;  // of its accesses until it next releases something
  View view;

  StoreInDoubt doubt;

  const char* waits_for;  // what it is blocked on, for the deadlock report
  uint64_t wait_detail;
  Site wait_site;
  const struct MBarrier* waits_on;

  Agent copy_agent;  // the agent of its cp.async copies, 0 until it makes one
  Tick copy_tick;    // of the group that is open
  Tick copies_seen;  // of the last group that it has waited for
  std::vector<CopyAsync> open_copies;
  std::deque<std::vector<CopyAsync>> copy_groups;

  Past released;    // by its last fence: what its atomic writes since tell their readers
  Past acquirable;  // from its atomic reads: what its next fence learns
  bool cluster_arrived;  // and has not waited yet
  unsigned wide_phase;   // of its last arrival at a barrier of several blocks

  std::vector<StackRange> in_flight;  // empty unless wgmmas are
  std::vector<StackRange> operands;   // registers that some wgmma has used so far
  unsigned wgmmas;                    // issued so far
  Tick wgmma_groups;                  // committed so far
  bool needs_wgmma_fence;
};

struct LaneOperand {  // what one lane brings to a collective; points into its stack
  const void* in = nullptr;
  void* out = nullptr;
  const void* more = nullptr;
  uint64_t value = 0;
};

// A warp collective that some lanes have reached. Disjoint masks may be under way together.
struct Collective {
  unsigned mask, arrived;
  int op, line;
  void (*compute)(Block&, Collective&, unsigned warp) = nullptr;
  ViewSum views;  // of sync_warp
  LaneOperand lane[32];
};

// One instruction of a warp: the lanes that have come to it, and their addresses.
struct LaneGroup {
  uint32_t lanes;
  uint8_t bytes;
  bool shared, writes;
  uintptr_t address[32];
};
struct SiteGroups {
  uint32_t closed = 0;  // instructions that are counted already
  uint32_t passed[32] = {};
  std::deque<LaneGroup> open;
};

struct Warp {
  std::unordered_map<uint64_t, SiteGroups> groups;     // site << 1 | writes
  std::pair<uint64_t, SiteGroups*> latest[64] = {};    // of groups, found without a search
  unsigned alive;                                   // lanes that exist and have not returned
  std::vector<std::unique_ptr<Collective>> open;
  std::unique_ptr<Collective> spare;  // the last one that was completed, to be used again
};

struct Barrier {  // one of the sixteen hardware barriers of a block
  unsigned arrived = 0, expected = 0;
  int line = 0;
  std::vector<Fiber*> waiting;
  ViewSum views;
};

struct MBarrier {
  unsigned count = 0, pending = 0;
  int64_t bytes = 0;  // announced and not yet arrived
  unsigned phase = 0;
  unsigned initialiser = 0;
  bool visible = false;  // to the async proxy: a fence followed the init
  ViewSum arriving;
  View completed;  // of the latest completed phase
  std::vector<Fiber*> waiting;
};

// What a TMA operation does.
enum class TmaKind : uint8_t { kLoad, kStore, kReduce, kCopy };  // kCopy: shared to shared memory

struct TmaOperation {
  TmaKind kind;
  TlsimTensorMap map;
  unsigned char* shared;
  const unsigned char* from;  // of a copy between blocks of a cluster
  size_t bytes;                // that it moves
  uint64_t barrier;  // shared offset of its mbarrier (loads)
  int coords[5];
  Agent agent;
  Tick tick;
  Fiber* issuer;
  Site site;

  bool stores() const { return kind == TmaKind::kStore || kind == TmaKind::kReduce; }
};

struct WgmmaOperation {
  TlsimWgmma shape;
  uint64_t desc_a, desc_b;
  int scale_d, line;
  unsigned lanes;  // threads that have issued it
  void* d[128];
  const void* a[128];
  View checked;  // with which the shared operands have been checked last
};

struct Warpgroup {
  std::deque<WgmmaOperation> operations;
  unsigned first = 0;           // index of operations.front()
  std::deque<unsigned> groups;  // end index of each committed group
  std::vector<Fiber*> waiting;
  Agent agent = 0;  // 0: none yet
  Tick tick = 0;    // of the last committed group
  Clock done;       // of the last group that was waited for
};

// Runs ready fibers of any number of blocks on one host thread.
class Scheduler {
 public:
  void ready(Fiber* fiber);
  // Runs until no fiber is ready.
  void run();
  // Suspends the current fiber; somebody has to make it ready.
  void suspend();
  // Lets other ready fibers run first.
  void yield();
  // Leaves the fibers for good, back to the caller of run().
  void abandon();
  // Back to the caller of run(), for a fiber that has ended; the others stay ready.
  void leave();
  bool idle() const { return !head_; }

 private:
  Fiber* pop();
  Fiber* head_ = nullptr;
  Fiber* tail_ = nullptr;
  Context main_;
};

struct Block {
  explicit Block(Group& group);

  // Makes the threads of the block with this index ready. `slot`: its place in the group.
  void start(TlsimDim3 index, unsigned slot, unsigned rank);
  // After its last thread has returned.
  void finish();
  void drop_threads();  // and what they know
  void collect();       // adds what was counted to the launch

  // ---- used by the units
  bool is_shared(const void* p) const {
    return reinterpret_cast<uintptr_t>(p) - shared_base < shared_bytes;
  }
  size_t shared_offset(const void* p) const { return reinterpret_cast<uintptr_t>(p) - shared_base; }
  bool checks() const { return check; }
  unsigned thread_count() const { return static_cast<unsigned>(threads.size()); }
  Agent new_agent(const char* what, unsigned owner);
  Agent agent_of(const Fiber& fiber) const { return slot << kLocalBits | fiber.id; }
  bool is_unit(Agent agent) const { return local_of(agent) >= thread_count(); }
  std::string name_of(Agent agent) const;
  std::string full_name() const;
  Actor actor_of(Fiber& fiber, Site site) const {
    const Agent id = agent_of(fiber);
    return Actor{id, fiber.tick, &fiber.view, site, id, fiber.copy_agent, fiber.copies_seen};
  }
  // What the fiber has done so far, for somebody to acquire; later accesses get a new tick.
  void release(Fiber& fiber, ViewSum& into);
  // The same for somebody in any block.
  Past release(Fiber& fiber);
  // Checks an access of shared or global memory by `actor`, which acts for `fiber`.
  // `plain_store`: the access is a store that the thread is about to make.
  void access(Fiber& fiber, const void* p, size_t bytes, bool writes, const Actor& actor,
              bool plain_store = false);
  void check_shared(Fiber& fiber, size_t offset, size_t bytes, bool writes, const Actor& actor,
                    bool plain_store = false);
  void check_peer(Fiber& fiber, Block& peer, const void* p, size_t bytes, bool writes,
                  const Actor& actor);
  void check_defined(const GlobalRange& range, uintptr_t address, size_t bytes, bool writes,
                     const Actor& actor);
  void check_global(Fiber& fiber, uintptr_t address, size_t bytes, bool writes, const Actor& actor,
                    bool plain_store = false);
  // Records the first error and leaves the block. Does not return.
  [[noreturn]] void fail(const Fiber& fiber, const char* kind, const std::string& text);
  // The same for an unordered access; only notes a read of what nobody has written.
  void conflict(Fiber& fiber, const Actor& actor, const Conflict& found, bool writes,
                const std::string& place);
  // Puts a conflicting store in doubt, if it is one that may change nothing.
  bool doubt(Fiber& fiber, const Actor& actor, const Conflict& found, const void* p, size_t bytes);
  void remember(Fiber& fiber, const void* p, size_t bytes, Site site);
  // For the comparison with blocks that are not ordered with this one.
  bool leaves_footprint() const;
  void note(const Fiber& fiber, uintptr_t address, size_t bytes, Use use, Site site);
  // Decides about the fiber's store in doubt: before anybody else runs, and before its next access.
  void settle(Fiber& fiber);
  // The same from outside the fibers.
  void report(const char* kind, const std::string& text);
  // Suspends the fiber; `what` and `detail` say in a deadlock report what it waits for.
  void wait(Fiber& fiber, const char* what, uint64_t detail, int line);
  void wake(std::vector<Fiber*>& waiting);
  // The fiber looks again and again at memory that another thread changes.
  void poll(Fiber& fiber, Site site);

  // Counting of ordinary accesses, if the launch wants it.
  void count_access(Fiber& fiber, const void* p, size_t bytes, bool writes, Site site);
  void close_group(Site site, const LaneGroup& group);
  void close_groups();
  SiteTraffic& traffic(Site site, unsigned kind) {
    return sites[static_cast<uint64_t>(site) << 4 | kind];
  }
  // Something other than an access that the report names by its line.
  void count_event(Site site, SiteKind kind, uint64_t bytes = 0) {
    if (!count_traffic) return;
    SiteTraffic& into = traffic(site, kind);
    ++into.requests;
    into.bytes += bytes;
  }

  // ---- units that need a hook at the end of a thread or of the block
  void barrier_exit(Fiber& fiber);
  void warp_exit(Fiber& fiber);
  // Makes one queued load towards this mbarrier happen. False if there is none.
  bool tma_advance(Fiber& fiber, uint64_t barrier);
  bool copies_advance(uint64_t barrier);  // the same of cp.async
  void tma_load_arrives(Fiber& fiber, const TmaOperation& op);
  void move(const TmaOperation& op);
  Agent take_unit(bool store, unsigned owner, Tick& tick);
  void give_back_unit(Agent agent);
  void tma_finish();
  // The initialised mbarrier at an address that `what` uses.
  MBarrier& mbarrier_at(Fiber& fiber, void* bar, const char* what, int line);
  // `fiber`, of any block, arrives at one of this block's barriers.
  void mbarrier_arrive(Fiber& fiber, void* bar, const char* what, int line);
  // Ends the phase if everything has arrived.
  void mbarrier_settle(Fiber& fiber, MBarrier& barrier, Site site);
  // Adds what the threads wait for to a deadlock report.
  struct Waiters {
    std::string what;
    unsigned first, last;
  };
  std::vector<Waiters> waiters() const;
  // A static shared array: placed behind the dynamic ones on first use.
  void* place_static(const char* name, size_t bytes, size_t alignment);

  Group& group;
  Launch& launch;
  Scheduler& scheduler;
  unsigned slot = 0, rank = 0;  // in the group, in the cluster
  bool ended = false, finished = false;
  Stacks stacks;
  std::vector<Fiber> threads;
  std::vector<Warp> warps;
  unsigned alive = 0;
  TlsimDim3 index{};
  std::string error, error_kind;
  std::string uninitialised;  // the first such read, to be reported unless something explains it
  bool failed = false, check = false, count_traffic = false;

  std::unique_ptr<unsigned char[]> shared_memory;
  uintptr_t shared_base = 0;
  size_t shared_bytes = 0;  // dynamic, and static ones from their first use on
  std::map<std::string, size_t> static_shared;
  Shadow shadow;
  Joiner joiner;
  struct AgentInfo {
    const char* what;
    unsigned owner;
  };
  std::vector<AgentInfo> units;  // agents beyond the threads

  Barrier barriers[16];
  std::unordered_map<uint64_t, MBarrier> mbarriers;  // by shared offset
  std::deque<CopyArrival> copy_arrivals;
  std::deque<TmaOperation> tma_queue;                // loads that have not happened
  struct TmaUnit {
    Agent agent;
    Tick tick;
    bool busy, store;
  };
  std::vector<TmaUnit> tma_units;
  struct StoreGroups {
    std::vector<TmaOperation> open;
    std::deque<std::vector<TmaOperation>> committed;
  };
  std::map<unsigned, StoreGroups> stores;  // by issuing thread
  std::vector<Warpgroup> warpgroups;
  Counters counters{};
  TrafficTable sites;
  uint64_t polls = 0;
  uint64_t polls_at_signal = 0;  // the watchdog's last look at them

 private:
  static void thread_main();
  void prepare_threads();
};

constexpr uint64_t kNoDetail = ~0ull;
constexpr uint64_t kPollsPerLook = 4096;    // polls between looks at the clock
constexpr size_t kMostWaiters = 8;          // in a deadlock report
constexpr size_t kStaticShared = 48 << 10;  // CUDA's limit for static shared arrays

// The fiber that runs on this host thread, or null.
extern thread_local Fiber* current __attribute__((tls_model("initial-exec")));

}  // namespace sim
