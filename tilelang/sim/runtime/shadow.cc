// SPDX-License-Identifier: Apache-2.0
#include "shadow.h"

namespace sim {

namespace {

// Bytes of a cell at each level.
constexpr size_t kBytes[3] = {16, 4, 1};

}  // namespace

void Shadow::reset(size_t shared_bytes) {
  global_.clear();
  latest_ = nullptr;
  used_pages_ = 0;
  shared_.clear();
  grow(shared_bytes);
  crowds_.clear();
  free_crowds_.clear();
}

void Shadow::grow(size_t shared_bytes) {
  while (shared_.size() * kPageBytes < shared_bytes) shared_.push_back(new_page());
}

Shadow::Page* Shadow::new_page() {
  if (used_pages_ == pages_.size()) pages_.push_back(std::make_unique<Page>());
  Page* page = pages_[used_pages_++].get();
  memset(page->quads, 0, sizeof page->quads);  // words and bytes are filled in when a cell is split
  return page;
}

Conflict Shadow::shared(size_t offset, size_t bytes, bool writes, const Actor& actor) {
  Access access{actor, writes, !writes, {}};
  for (size_t done = 0; done < bytes && access.conflict.fault == Fault::kNone;) {
    const size_t begin = (offset + done) % kPageBytes;
    const size_t end = std::min(kPageBytes, begin + bytes - done);
    range(*shared_[(offset + done) / kPageBytes], begin, end, done, access);
    done += end - begin;
  }
  return verdict(access);
}

// A read of what nobody wrote is the least of faults: it may turn out that the write comes later,
// unordered.
Conflict Shadow::verdict(const Access& access) {
  if (access.conflict.fault == Fault::kNone && access.uninitialised)
    return {Fault::kUninitialised, 0, 0, access.conflict.byte};
  return access.conflict;
}

Conflict Shadow::global(uintptr_t address, size_t bytes, bool writes, const Actor& actor) {
  Access access{actor, writes, false, {}};
  for (size_t done = 0; done < bytes && access.conflict.fault == Fault::kNone;) {
    const size_t begin = (address + done) % kPageBytes;
    const size_t end = std::min(kPageBytes, begin + bytes - done);
    const uintptr_t number = (address + done) / kPageBytes;
    if (!latest_ || number != latest_number_) {
      Page*& page = global_[number];
      if (!page) page = new_page();
      latest_ = page;
      latest_number_ = number;
    }
    range(*latest_, begin, end, done, access);
    done += end - begin;
  }
  return access.conflict;
}

void Shadow::range(Page& page, size_t begin, size_t end, size_t done, Access& access) {
  for (size_t at = begin; at < end;) {
    const size_t stop = std::min(end, (at | 15) + 1);
    const bool known = access.uninitialised;
    const bool fine = piece<0>(page, at, stop, access);
    if (!fine || access.uninitialised != known) access.conflict.byte = done + at - begin;
    if (!fine) return;
    at = stop;
  }
}

template <int kLevel>
Shadow::Cell& Shadow::cell_at(Page& page, size_t begin) {
  if constexpr (kLevel == 0) return page.quads[begin / 16];
  if constexpr (kLevel == 1) return page.words[begin / 4];
  return page.bytes[begin];
}

// The access of bytes [begin, end), which lie in one cell of this level. False on a conflict.
template <int kLevel>
bool Shadow::piece(Page& page, size_t begin, size_t end, Access& access) {
  Cell& cell = cell_at<kLevel>(page, begin);
  const bool whole = end - begin == kBytes[kLevel];
  if constexpr (kLevel < 2) {
    if (!whole || cell.split) {
      if (!cell.split) split<kLevel>(page, begin);
      constexpr size_t kStep = kBytes[kLevel + 1];
      for (size_t at = begin; at < end;) {
        const size_t stop = std::min(end, at / kStep * kStep + kStep);
        if (!piece<kLevel + 1>(page, at, stop, access)) return false;
        at = stop;
      }
      if (whole && access.writes) {  // all parts are equal now
        cell = cell_at<kLevel + 1>(page, begin);
        cell.split = false;
      }
      return true;
    }
  }
  return touch(cell, access);
}

template <int kLevel>
void Shadow::split(Page& page, size_t begin) {
  constexpr size_t kCount = kBytes[kLevel] / kBytes[kLevel + 1];
  auto& parts = kLevel == 0 ? page.words : page.bytes;
  if (!parts) parts.reset(new Cell[kPageBytes / kBytes[kLevel + 1]]);
  begin = begin / kBytes[kLevel] * kBytes[kLevel];
  Cell& cell = cell_at<kLevel>(page, begin);
  for (size_t i = 0; i < kCount; ++i) {
    Cell& part = cell_at<kLevel + 1>(page, begin + i * kBytes[kLevel + 1]);
    part = cell;
    if (cell.crowd && i > 0) {  // each part needs its own
      part.crowd = new_crowd() & 0xffffff;
      crowds_[part.crowd - 1] = crowds_[cell.crowd - 1];
    }
  }
  cell.crowd = 0;
  cell.split = true;
}

Shadow::Crowd::Reads& Shadow::Crowd::other(unsigned block) {
  auto at = std::find_if(others.begin(), others.end(),
                         [&](const auto& entry) { return entry.first == block; });
  if (at == others.end()) at = others.insert(at, {block, {}});
  return at->second;
}

Shadow::Reader Shadow::Crowd::unordered(const Actor& actor) const {
  const auto search = [&](unsigned block, const Reads& of_block) {
    for (unsigned local = 0; local < of_block.size(); ++local) {
      const Agent agent = block << kLocalBits | local;
      const Read& read = of_block[local];
      if (read.tick && !actor.relies_on(agent, read.tick))
        return Reader{read.tick, read.site, agent};
    }
    return Reader{};
  };
  Reader found = search(slot, reads);
  for (size_t i = 0; i < others.size() && !found.tick; ++i)
    found = search(others[i].first, others[i].second);
  return found;
}

uint32_t Shadow::new_crowd() {
  if (free_crowds_.empty()) {
    crowds_.emplace_back();
    return static_cast<uint32_t>(crowds_.size());
  }
  const uint32_t crowd = free_crowds_.back();
  free_crowds_.pop_back();
  crowds_[crowd - 1].reads.clear();  // their memory is kept
  crowds_[crowd - 1].others.clear();
  return crowd;
}

void Shadow::drop_crowd(Cell& cell) {
  if (cell.crowd) free_crowds_.push_back(cell.crowd);
  cell.crowd = 0;
}

bool Shadow::touch(Cell& cell, Access& access) {
  return access.writes ? touch_write(cell, access) : touch_read(cell, access);
}

bool Shadow::touch_read(Cell& cell, Access& access) {
  const Actor& actor = access.actor;
  if (actor.remembered) {
    add_reader(cell, actor);
    return true;
  }
  if (cell.writer == 0) {
    if (access.needs_init) access.uninitialised = true;
  } else {
    const Agent writer = cell.writer - 1;
    if (!(cell.write_atomic && actor.atomic) && !actor.relies_on(writer, cell.write_tick)) {
      access.conflict = {Fault::kReadAfterWrite, writer, cell.write_site, 0};
      return false;
    }
    if (actor.async_proxy && !cell.write_async && actor.fenced(writer) < cell.write_tick) {
      access.conflict = {Fault::kNoProxyFence, writer, cell.write_site, 0};
      return false;
    }
  }
  if (!actor.atomic) add_reader(cell, actor);
  return true;
}

// Keeps the readers that a later write must be ordered after. One that happened before this read
// need not be kept: whatever is ordered after this read is ordered after it.
void Shadow::add_reader(Cell& cell, const Actor& actor) {
  if (cell.crowd) {
    crowds_[cell.crowd - 1].put(actor.agent, actor.tick, actor.site);
    return;
  }
  int kept = 0;
  for (int i = 0; i < cell.readers; ++i) {
    const Reader& reader = cell.reader[i];
    if (reader.agent != actor.agent && !actor.relies_on(reader.agent, reader.tick))
      cell.reader[kept++] = reader;
  }
  if (kept < kReaders) {
    cell.reader[kept] = {actor.tick, actor.site, actor.agent};
    cell.readers = static_cast<unsigned>(kept + 1) & 15;
    return;
  }
  cell.crowd = new_crowd() & 0xffffff;
  Crowd& crowd = crowds_[cell.crowd - 1];
  crowd.slot = slot_of(actor.agent);
  for (const Reader& reader : cell.reader) crowd.put(reader.agent, reader.tick, reader.site);
  add_reader(cell, actor);
}

bool Shadow::touch_write(Cell& cell, Access& access) {
  const Actor& actor = access.actor;
  if (cell.writer) {
    const Agent writer = cell.writer - 1;
    if (!(cell.write_atomic && actor.atomic) && !actor.relies_on(writer, cell.write_tick)) {
      access.conflict = {Fault::kWriteAfterWrite, writer, cell.write_site, 0};
      return false;
    }
  }
  if (cell.crowd) {
    const Reader reader = crowds_[cell.crowd - 1].unordered(actor);
    if (reader.tick) {
      access.conflict = {Fault::kWriteAfterRead, reader.agent, reader.site, 0};
      return false;
    }
    drop_crowd(cell);
  } else {
    for (int i = 0; i < cell.readers; ++i) {
      const Reader& reader = cell.reader[i];
      if (!actor.relies_on(reader.agent, reader.tick)) {
        access.conflict = {Fault::kWriteAfterRead, reader.agent, reader.site, 0};
        return false;
      }
    }
  }
  cell.readers = 0;
  cell.write_tick = actor.tick;
  cell.write_site = actor.site;
  cell.writer = actor.agent + 1;
  cell.write_async = actor.async_proxy;
  cell.write_atomic = actor.atomic;
  return true;
}

}  // namespace sim
