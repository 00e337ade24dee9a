// SPDX-License-Identifier: Apache-2.0
// Running a grid, on one or several host threads, and the entry point that Python calls.
#include "launch.h"

#include <link.h>
#include <string.h>
#include <time.h>

#include <memory>
#include <thread>

#include "group.h"
#include "text.h"
#include "watchdog.h"

namespace sim {

double now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

void Block::collect() {
  auto* to = reinterpret_cast<uint64_t*>(&launch.total);
  auto* from = reinterpret_cast<const uint64_t*>(&counters);
  for (size_t i = 0; i < sizeof(Counters) / sizeof(uint64_t); ++i) to[i] += from[i];
  for (const auto& [key, traffic] : sites) {
    SiteTraffic& total = launch.sites[key];
    total.requests += traffic.requests;
    total.bytes += traffic.bytes;
    total.units += traffic.units;
    total.ideal += traffic.ideal;
  }
}

namespace {

std::string name_of(const Launch& launch, const Touch& touch) {
  const unsigned linear = touch.block, x = launch.grid.x, y = launch.grid.y;
  return format("thread %u of block (%u, %u, %u)", touch.thread, linear % x, linear / x % y,
                linear / x / y);
}

// Two blocks that nothing orders have touched one byte.
void report_race(Launch& launch, const FootprintConflict& found) {
  std::string place = format("address 0x%llx", static_cast<unsigned long long>(found.address));
  for (const GlobalRange& range : launch.ranges)
    if (found.address - range.begin < range.bytes)
      place = format("%s+%llu", range.name.c_str(),
                     static_cast<unsigned long long>(found.address - range.begin));
  static const char* const kNow[] = {"reads", "writes", "writes", "updates"};
  static const char* const kThen[] = {"read", "wrote", "wrote", "updated"};
  launch.error_kind = "race";
  launch.error =
      "data race between blocks on " + place + ": " + name_of(launch, found.second) + " " +
      kNow[static_cast<unsigned>(found.here)] + " it" + site_text(found.second.site) + ", and " +
      name_of(launch, found.first) + " " + kThen[static_cast<unsigned>(found.there)] + " it" +
      site_text(found.first.site) + ", with nothing that orders the two";
}

// Takes groups of blocks off the launch until none is left or one has failed.
void work(Launch& launch, Watchdog& watchdog) {
  watchdog.watch(pthread_self());
  Group group(launch);
  while (!launch.stop) {
    const uint64_t i = launch.next_group++;
    if (i >= launch.groups) break;
    const bool fine = group.run(i * launch.group_blocks);
    __atomic_add_fetch(launch.progress, launch.group_blocks, __ATOMIC_RELAXED);
    if (fine && (launch.groups == 1 || !launch.check)) continue;
    std::lock_guard<std::mutex> guard(launch.mutex);
    if (!launch.error.empty()) break;
    if (!fine) {
      launch.error = group.error, launch.error_kind = group.error_kind;
    } else {
      const FootprintConflict found = launch.footprint.merge(group.footprint);
      if (!found.found) continue;
      report_race(launch, found);
    }
    launch.stop = true;
  }
  watchdog.forget(pthread_self());
  std::lock_guard<std::mutex> guard(launch.mutex);
  group.collect();
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
  unsigned char* defined;
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
  unsigned grid[3], block[3], cluster[3];
  int cooperative, together;  // together: blocks may wait for each other
  uint64_t shared_bytes;
  int check, count_traffic;
  unsigned host_threads;
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
  launch.cluster = {request->cluster[0], request->cluster[1], request->cluster[2]};
  launch.cooperative = request->cooperative != 0;
  launch.cluster_blocks = launch.cluster.x * launch.cluster.y * launch.cluster.z;
  const uint64_t blocks = uint64_t{launch.grid.x} * launch.grid.y * launch.grid.z;
  launch.group_blocks = launch.cooperative || request->together ? blocks : launch.cluster_blocks;
  launch.groups = blocks / launch.group_blocks;
  launch.shared_bytes = request->shared_bytes;
  launch.check = request->check != 0;
  launch.count_traffic = request->count_traffic != 0;
  launch.time_limit = request->time_limit;
  launch.deadline = request->time_limit > 0 ? sim::now() + request->time_limit : 0;
  dl_iterate_phdr(sim::find_code, &launch);
  for (int i = 0; i < request->range_count; ++i) {
    const TlsimRange& range = request->ranges[i];
    launch.ranges.push_back({reinterpret_cast<uintptr_t>(range.begin), range.bytes, range.name,
                             range.writable != 0, range.defined, {}});
    if (!launch.count_traffic) continue;
    for (sim::Bits& bits : launch.ranges.back().touched)
      bits.reset(new std::atomic<uint64_t>[sim::words_of(range.bytes)]());
  }
  launch.progress = &request->blocks_done;
  {
    sim::Watchdog watchdog(launch);
    std::vector<std::thread> helpers;
    for (uint64_t i = 1; i < std::min<uint64_t>(launch.groups, request->host_threads); ++i)
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
