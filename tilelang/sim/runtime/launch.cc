// SPDX-License-Identifier: Apache-2.0
// Running a grid, on one or several host threads, and the entry point that Python calls.
#include "launch.h"

#include <link.h>
#include <string.h>
#include <time.h>

#include <memory>
#include <thread>

#include "block.h"
#include "watchdog.h"

namespace sim {

double now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

namespace {

void add(Counters& total, const Counters& part) {
  auto* to = reinterpret_cast<uint64_t*>(&total);
  auto* from = reinterpret_cast<const uint64_t*>(&part);
  for (size_t i = 0; i < sizeof(Counters) / sizeof(uint64_t); ++i) to[i] += from[i];
}

// Takes blocks off the launch until none is left or one has failed.
void work(Launch& launch, Watchdog& watchdog) {
  watchdog.watch(pthread_self());
  Scheduler scheduler;
  Block block(launch, scheduler);
  const uint64_t columns = launch.grid.x, rows = launch.grid.y;
  const uint64_t count = columns * rows * launch.grid.z;
  while (!launch.stop) {
    const uint64_t i = launch.next_block++;
    if (i >= count) break;
    const TlsimDim3 index = {static_cast<unsigned>(i % columns),
                             static_cast<unsigned>(i / columns % rows),
                             static_cast<unsigned>(i / columns / rows)};
    const bool fine = block.run(index);
    __atomic_add_fetch(launch.progress, 1, __ATOMIC_RELAXED);
    if (fine) continue;
    std::lock_guard<std::mutex> guard(launch.mutex);
    if (launch.error.empty()) launch.error = block.error, launch.error_kind = block.error_kind;
    launch.stop = true;
  }
  watchdog.forget(pthread_self());
  std::lock_guard<std::mutex> guard(launch.mutex);
  add(launch.total, block.counters);
  for (const auto& [key, traffic] : block.sites) {
    SiteTraffic& total = launch.sites[key];
    total.requests += traffic.requests;
    total.bytes += traffic.bytes;
    total.units += traffic.units;
    total.ideal += traffic.ideal;
  }
}

// Words of a bit per sector that a range of these bytes may touch, wherever it begins.
size_t words_of(size_t bytes) { return (bytes / kSectorBytes + 2) / 64 + 1; }

uint64_t touched_bytes(const GlobalRange& range, int writes) {
  uint64_t sectors = 0;
  for (size_t i = 0; i < words_of(range.bytes); ++i)
    sectors += static_cast<uint64_t>(__builtin_popcountll(range.touched[writes][i].load()));
  return sectors * kSectorBytes;
}

// Finds the loaded object that holds the entry.
int find_code(dl_phdr_info* info, size_t, void* data) {
  Launch& launch = *static_cast<Launch*>(data);
  const uintptr_t entry = reinterpret_cast<uintptr_t>(launch.entry);
  uintptr_t end = 0;
  bool inside = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD) continue;
    const uintptr_t begin = info->dlpi_addr + segment.p_vaddr;
    inside = inside || entry - begin < segment.p_memsz;
    end = begin + segment.p_memsz;
  }
  if (inside) launch.code_begin = info->dlpi_addr, launch.code_end = end;
  return inside;
}

}  // namespace
}  // namespace sim

extern "C" {

struct TlsimRange {
  void* begin;
  uint64_t bytes;
  const char* name;
  int writable;
  uint64_t read, written;  // results: bytes of distinct sectors
};

struct TlsimSite {
  uint32_t site;   // as in shadow.h
  uint32_t kind;   // SiteKind
  sim::SiteTraffic traffic;
};

// Filled in by `sim/library.py`, which repeats these layouts.
struct TlsimRequest {
  void (*entry)(void* const*);
  void* const* args;
  unsigned grid[3], block[3];
  uint64_t shared_bytes;
  int check, count_traffic, host_threads;
  double time_limit;
  TlsimRange* ranges;
  int range_count;
  char* error;  // text, cut to error_size
  char* error_kind;
  int error_size;
  uint64_t* counters;
  TlsimSite* sites;
  int site_capacity, site_count;
  uint64_t blocks_done;  // grows while the kernel runs
};

int tlsim_counter_count() { return static_cast<int>(sizeof(sim::Counters) / sizeof(uint64_t)); }

int tlsim_launch(TlsimRequest* request) {
  sim::Launch launch;
  launch.entry = request->entry;
  launch.args = request->args;
  launch.grid = {request->grid[0], request->grid[1], request->grid[2]};
  launch.block = {request->block[0], request->block[1], request->block[2]};
  launch.shared_bytes = request->shared_bytes;
  launch.check = request->check != 0;
  launch.count_traffic = request->count_traffic != 0;
  launch.time_limit = request->time_limit;
  launch.deadline = request->time_limit > 0 ? sim::now() + request->time_limit : 0;
  dl_iterate_phdr(sim::find_code, &launch);
  for (int i = 0; i < request->range_count; ++i) {
    const TlsimRange& range = request->ranges[i];
    launch.ranges.push_back({reinterpret_cast<uintptr_t>(range.begin), range.bytes, range.name,
                             range.writable != 0, {}});
    if (!launch.count_traffic) continue;
    for (sim::Bits& bits : launch.ranges.back().touched)
      bits.reset(new std::atomic<uint64_t>[sim::words_of(range.bytes)]());
  }
  launch.progress = &request->blocks_done;
  {
    sim::Watchdog watchdog(launch);
    std::vector<std::thread> helpers;
    for (int i = 1; i < request->host_threads; ++i)
      helpers.emplace_back(sim::work, std::ref(launch), std::ref(watchdog));
    sim::work(launch, watchdog);
    for (std::thread& helper : helpers) helper.join();
  }
  memcpy(request->counters, &launch.total, sizeof(sim::Counters));
  for (const auto& [key, traffic] : launch.sites) {
    if (request->site_count == request->site_capacity) break;
    request->sites[request->site_count++] = {static_cast<uint32_t>(key >> 4),
                                             static_cast<uint32_t>(key & 15), traffic};
  }
  for (int i = 0; i < request->range_count && launch.count_traffic; ++i) {
    request->ranges[i].read = sim::touched_bytes(launch.ranges[static_cast<size_t>(i)], 0);
    request->ranges[i].written = sim::touched_bytes(launch.ranges[static_cast<size_t>(i)], 1);
  }
  strncpy(request->error, launch.error.c_str(), static_cast<size_t>(request->error_size - 1));
  strncpy(request->error_kind, launch.error_kind.c_str(),
          static_cast<size_t>(request->error_size - 1));
  return launch.error.empty() ? 0 : 1;
}
}
