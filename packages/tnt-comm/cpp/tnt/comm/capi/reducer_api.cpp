#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "tnt/comm/capi/arguments.hpp"
#include "tnt/comm/communicator/gatherer.hpp"
#include "tnt/comm/reducer/gradient_reducer.hpp"

using namespace tnt::comm;  // NOLINT: a file of C functions

namespace {

std::vector<TensorSpec> specs_of(const tnt_tensor_spec* tensors, std::uint64_t num_tensors) {
  if (num_tensors > 0) require_pointer(tensors, "tensors");
  std::vector<TensorSpec> specs;
  for (std::uint64_t i = 0; i < num_tensors; ++i) {
    const tnt_tensor_spec& tensor = tensors[i];
    specs.push_back({tensor.name != nullptr ? tensor.name : text("tensor ", i),
                     checked_dtype(tensor.dtype, "tensors[].dtype"), tensor.count});
  }
  return specs;
}

// A negative id becomes a huge one, which is refused like any unknown id.
std::size_t id_of(std::int64_t tensor) {
  return static_cast<std::size_t>(tensor);
}

DevicePointer device_pointer(const void* data) {
  return reinterpret_cast<DevicePointer>(data);
}

std::shared_ptr<GradientReducer> reducer_to_start(std::int64_t reducer, std::int64_t tensor,
                                                  const void* data) {
  auto found = reducers().find(reducer);
  if (data == nullptr && found->tensor(id_of(tensor)).num_elements > 0) {
    require_pointer(data, "data");
  }
  return found;
}

FusionPlan plan_of(const tnt_tensor_spec* tensors, std::uint64_t num_tensors,
                   std::uint64_t threshold_bytes, tnt_comm_dtype wire_dtype) {
  std::optional<DType> wire;
  if (wire_dtype != TNT_COMM_FLOAT32) wire = checked_dtype(wire_dtype, "wire_dtype");
  return {specs_of(tensors, num_tensors), threshold_bytes, wire};
}

const char* name_or_default(const char* name) {
  return name != nullptr ? name : "gradients";
}

std::uint64_t total_of(const std::vector<std::size_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
}

}  // namespace

extern "C" {

tnt_comm_status tnt_reducer_create(int64_t group, const tnt_tensor_spec* tensors,
                                   uint64_t num_tensors, uint64_t threshold_bytes,
                                   tnt_comm_dtype wire_dtype, const char* name, int64_t* reducer) {
  return guard([&] {
    require_pointer(reducer, "reducer");
    const FusionPlan plan = plan_of(tensors, num_tensors, threshold_bytes, wire_dtype);
    *reducer = reducers().add(
        std::make_shared<GradientReducer>(group_of(group), plan, name_or_default(name)));
  });
}

tnt_comm_status tnt_reducer_create_on_device(int64_t group, const tnt_tensor_spec* tensors,
                                             uint64_t num_tensors, uint64_t threshold_bytes,
                                             tnt_comm_dtype wire_dtype, const char* name,
                                             int32_t device, int64_t* reducer) {
  return guard([&] {
    require_pointer(reducer, "reducer");
    const FusionPlan plan = plan_of(tensors, num_tensors, threshold_bytes, wire_dtype);
    *reducer = reducers().add(std::make_shared<GradientReducer>(
        group_of(group), plan, name_or_default(name), device_finder(checked_device(device))));
  });
}

tnt_comm_status tnt_reducer_is_on_device(int64_t reducer, int32_t* is_on_device) {
  return give(is_on_device, "is_on_device",
              [&] { return reducers().find(reducer)->is_on_device(); });
}

tnt_comm_status tnt_reducer_start_on_device(int64_t reducer, int64_t tensor, const void* data,
                                            double scale, void* stream) {
  return guard([&] {
    reducers().find(reducer)->start_on_device(id_of(tensor), device_pointer(data), scale, stream);
  });
}

tnt_comm_status tnt_reducer_finish_on_device(int64_t reducer, int64_t tensor, void* out,
                                             void* stream) {
  return guard([&] {
    reducers().find(reducer)->finish_on_device(id_of(tensor), device_pointer(out), stream);
  });
}

tnt_comm_status tnt_reducer_close(int64_t reducer) {
  return guard([&] { reducers().close(reducer); });
}

tnt_comm_status tnt_reducer_set_timeout(int64_t reducer, double timeout_s) {
  return guard([&] { reducers().find(reducer)->set_timeout(checked_timeout(timeout_s)); });
}

tnt_comm_status tnt_reducer_num_tensors(int64_t reducer, uint64_t* num_tensors) {
  return give(num_tensors, "num_tensors", [&] { return reducers().find(reducer)->num_tensors(); });
}

tnt_comm_status tnt_reducer_num_buckets(int64_t reducer, uint64_t* num_buckets) {
  return give(num_buckets, "num_buckets", [&] { return reducers().find(reducer)->num_buckets(); });
}

tnt_comm_status tnt_reducer_num_bytes(int64_t reducer, uint64_t* num_bytes) {
  return give(num_bytes, "num_bytes", [&] {
    const auto found = reducers().find(reducer);
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < found->num_tensors(); ++i) sum += found->tensor(i).num_bytes();
    return sum;
  });
}

tnt_comm_status tnt_reducer_tensor_bytes(int64_t reducer, int64_t tensor, uint64_t* num_bytes) {
  return give(num_bytes, "num_bytes",
              [&] { return reducers().find(reducer)->tensor(id_of(tensor)).num_bytes(); });
}

tnt_comm_status tnt_reducer_start(int64_t reducer, int64_t tensor, const void* data, double scale) {
  return guard([&] { reducer_to_start(reducer, tensor, data)->start(id_of(tensor), data, scale); });
}

tnt_comm_status tnt_reducer_start_into(int64_t reducer, int64_t tensor, const void* data, void* out,
                                       double scale, void (*release)(void* owner), void* owner) {
  return guard([&] {
    std::shared_ptr<void> kept;
    if (release != nullptr) kept = std::shared_ptr<void>(owner, release);
    reducer_to_start(reducer, tensor, data)
        ->start_into(id_of(tensor), data, out, scale, std::move(kept));
  });
}

tnt_comm_status tnt_reducer_is_in_place(int64_t reducer, int64_t tensor, int32_t* is_in_place) {
  return give(is_in_place, "is_in_place",
              [&] { return reducers().find(reducer)->is_summed_in_place(id_of(tensor)); });
}

tnt_comm_status tnt_reducer_finish(int64_t reducer, int64_t tensor, void* out) {
  return guard([&] { reducers().find(reducer)->finish(id_of(tensor), out); });
}

tnt_comm_status tnt_reducer_lend(int64_t reducer, int64_t tensor, const void** data, void** view) {
  return guard([&] {
    require_pointer(data, "data");
    require_pointer(view, "view");
    *data = nullptr;
    *view = nullptr;
    auto kept = std::make_unique<BorrowedView>();  // first: what is lent must be returned
    *kept = reducers().find(reducer)->lend(id_of(tensor));
    if (!*kept) return;
    *data = kept->get();
    *view = kept.release();
  });
}

void tnt_reducer_return(void* view) {
  delete static_cast<BorrowedView*>(view);
}

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
  return give(size, "size", [&] { return gatherers().find(gatherer)->size(); });
}

tnt_comm_status tnt_gatherer_start(int64_t gatherer, const void* data, uint64_t num_bytes) {
  return guard([&] {
    checked_bytes(data, num_bytes, DType::uint8, "data");
    gatherers().find(gatherer)->start(data, num_bytes, call_label());
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
