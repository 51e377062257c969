#include "tnt/comm/reducer/fused_tensors.hpp"

#include <cstring>
#include <utility>
#include <vector>

#include "tnt/comm/kernel/kernels.hpp"

namespace tnt::comm {

void FusedTensor::pack(const void* data, double scale) const {
  if (bucket->on_host) return pack_to(bucket->on_host->input(step) + offset, data, scale);
  std::vector<std::byte> packed(wire_bytes());
  pack_to(packed.data(), data, scale);
  bucket->on_device->pack_from_host(step, on_device(), std::move(packed));
}

void FusedTensor::copy_out(void* out, const Deadline& deadline) const {
  if (is_in_place()) return unpack_from(into, out);
  if (bucket->on_host) return unpack_from(bucket->on_host->result(step) + offset, out);
  std::vector<std::byte> sum(wire_bytes());
  bucket->on_device->hand_out_to_host(step, on_device(), sum, deadline);
  unpack_from(sum.data(), out);
}

void FusedTensor::pack_to(std::byte* target, const void* data, double scale) const {
  if (narrow) {
    pack_narrowed(target, data, spec.num_elements, *narrow, scale);
  } else {
    pack_scaled(target, data, spec.num_elements, spec.dtype, scale);
  }
}

void FusedTensor::unpack_from(const std::byte* sum, void* out) const {
  if (narrow) {
    unpack_widened(out, sum, spec.num_elements, *narrow);
  } else if (out != sum) {
    std::memcpy(out, sum, spec.num_bytes());
  }
}

std::string FusedTensors::names_of_missing() const {
  std::vector<std::string> missing;
  const std::uint64_t awaited = allreduce->num_posted();
  for (const FusedTensor& tensor : tensors) {
    const auto state = tensor.state.load();
    const bool is_started =
        state == FusedTensor::State::started || state == FusedTensor::State::finishing;
    if (!is_started || tensor.step.load() != awaited) missing.push_back(tensor.spec.name);
  }
  if (missing.empty()) return "";
  return text(": ", listed_tensors(missing), missing.size() == 1 ? " is missing" : " are missing");
}

}  // namespace tnt::comm
