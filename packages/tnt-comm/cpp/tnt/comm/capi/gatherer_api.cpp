#include <algorithm>
#include <numeric>

#include "tnt/comm/capi/guard.hpp"
#include "tnt/comm/capi/registry.hpp"
#include "tnt/comm/group/gatherer.hpp"

using namespace tnt::comm;  // NOLINT: a file of C functions

extern "C" {

tnt_comm_status tnt_gatherer_start(int64_t gatherer, const void* data, uint64_t num_bytes) {
  return guard([&] { gatherers().find(gatherer)->start(data, num_bytes); });
}

tnt_comm_status tnt_gatherer_wait(int64_t gatherer, uint64_t* num_bytes_of_rank,
                                  uint64_t* num_bytes_total) {
  return guard([&] {
    const std::vector<std::size_t> sizes = gatherers().find(gatherer)->wait();
    if (num_bytes_of_rank != nullptr) std::copy(sizes.begin(), sizes.end(), num_bytes_of_rank);
    if (num_bytes_total != nullptr) {
      *num_bytes_total = std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
    }
  });
}

tnt_comm_status tnt_gatherer_finish(int64_t gatherer, void* out) {
  return guard([&] { gatherers().find(gatherer)->finish(out); });
}

}  // extern "C"
