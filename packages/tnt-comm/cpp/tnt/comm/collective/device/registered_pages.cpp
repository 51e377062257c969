#include "tnt/comm/collective/device/registered_pages.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "tnt/comm/base/process.hpp"

namespace tnt::comm {

RegisteredPages::Range::Range(const std::shared_ptr<Device>& device, void* begin,
                              std::size_t num_bytes)
    : begin_(begin), num_bytes_(num_bytes), pinned_(device, begin, num_bytes) {
  ::madvise(begin_, num_bytes_, MADV_DONTFORK);
}

RegisteredPages::Range::~Range() {
  ::madvise(begin_, num_bytes_, MADV_DOFORK);
}

RegisteredPages::RegisteredPages(const std::shared_ptr<Device>& device,
                                 std::vector<HostMemory> pieces)
    : pieces_(std::move(pieces)) {
  const std::uintptr_t page = page_bytes();
  std::vector<std::pair<std::uintptr_t, std::uintptr_t>> ranges;
  for (const HostMemory& piece : pieces_) {
    const auto begin = reinterpret_cast<std::uintptr_t>(piece.begin);
    if (piece.num_bytes == 0) continue;
    ranges.emplace_back(begin / page * page, (begin + piece.num_bytes + page - 1) / page * page);
  }
  std::sort(ranges.begin(), ranges.end());
  // What shares a page is registered at once: the driver takes none twice. What only touches may
  // be another mapping.
  for (std::size_t i = 0; i < ranges.size();) {
    auto [begin, end] = ranges[i];
    for (++i; i < ranges.size() && ranges[i].first < end; ++i) {
      end = std::max(end, ranges[i].second);
    }
    registered_.emplace_back(device, reinterpret_cast<void*>(begin), end - begin);
  }
}

}  // namespace tnt::comm
