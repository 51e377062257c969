#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "tnt/comm/capi/arguments.hpp"
#include "tnt/comm/capi/guard.hpp"
#include "tnt/comm/capi/registry.hpp"
#include "tnt/comm/communicator/gatherer.hpp"

using namespace tnt::comm;  // NOLINT: a file of C functions

namespace {

std::uint64_t total_of(const std::vector<std::size_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
}

}  // namespace

extern "C" {

tnt_comm_status tnt_gatherer_create(int64_t group, const char* name, int64_t* gatherer) {
  return guard([&] {
    require_pointer(name, "name");
    require_pointer(gatherer, "gatherer");
    *gatherer = gatherers().add(std::make_shared<Gatherer>(group_of(group), name));
  });
}

tnt_comm_status tnt_gatherer_close(int64_t gatherer) {
  return guard([&] { gatherers().close(gatherer); });
}

tnt_comm_status tnt_gatherer_set_timeout(int64_t gatherer, double timeout_s) {
  return guard([&] { gatherers().find(gatherer)->set_timeout(checked_timeout(timeout_s)); });
}

tnt_comm_status tnt_gatherer_size(int64_t gatherer, int32_t* size) {
  return guard([&] {
    require_pointer(size, "size");
    *size = gatherers().find(gatherer)->size();
  });
}

tnt_comm_status tnt_gatherer_start(int64_t gatherer, const void* data, uint64_t num_bytes) {
  return guard([&] {
    checked_bytes(data, num_bytes, DType::uint8, "data");
    gatherers().find(gatherer)->start(data, num_bytes);
  });
}

tnt_comm_status tnt_gatherer_wait(int64_t gatherer, uint64_t* num_bytes_of_rank,
                                  uint64_t* num_bytes_total) {
  return guard([&] {
    const std::vector<std::size_t> sizes = gatherers().find(gatherer)->wait();
    if (num_bytes_of_rank != nullptr) std::copy(sizes.begin(), sizes.end(), num_bytes_of_rank);
    if (num_bytes_total != nullptr) *num_bytes_total = total_of(sizes);
  });
}

tnt_comm_status tnt_gatherer_finish(int64_t gatherer, void* out) {
  return guard([&] {
    const auto found = gatherers().find(gatherer);
    if (out == nullptr && total_of(found->wait()) > 0) require_pointer(out, "out");
    found->finish(out);
  });
}

}  // extern "C"
