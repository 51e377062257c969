#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "tnt/comm/base/waiting.hpp"
#include "tnt/comm/collective/device/device_bucket.hpp"
#include "tnt/comm/collective/host_bucket.hpp"
#include "tnt/comm/reducer/plan.hpp"

namespace tnt::comm {

class BucketTrack;
struct FusedTensors;

/// A tensor of a bucket, and where it is between start and finish.
struct FusedTensor {
  enum class State : int { idle, packing, started, finishing };

  TensorSpec spec;
  std::optional<DType> narrow;  ///< as what it travels, if that is not its own dtype
  FusedTensors* bucket = nullptr;
  std::size_t index = 0;             ///< in the bucket
  std::size_t offset = 0;            ///< likewise, in bytes
  std::optional<std::size_t> large;  ///< its index among those that can be summed in place
  std::byte* into = nullptr;         ///< of the step at hand, if its sum is to be there
  std::shared_ptr<void> owner;       ///< of `into`, if the bucket does not have it
  std::atomic<State> state{State::idle};
  std::atomic<std::uint64_t> step{0};  ///< written by finish() only, which start() follows

  bool is_in_place() const { return large && into != nullptr; }  ///< in the step at hand
  DeviceTensor on_device() const { return {index, offset, spec.num_elements, spec.dtype, narrow}; }

  /// From and to the memory of the host, wherever the bucket is.
  void pack(const void* data, double scale) const;
  void copy_out(void* out, const Deadline& deadline) const;

 private:
  std::size_t wire_bytes() const {
    return spec.num_elements * size_of(narrow.value_or(spec.dtype));
  }
  void pack_to(std::byte* target, const void* data, double scale) const;
  void unpack_from(const std::byte* sum, void* out) const;
};

/// The tensors of a bucket, and its allreduce, in the memory of the host or of a GPU.
struct FusedTensors {
  std::shared_ptr<HostBucket> on_host;         ///< null if it is on a GPU
  std::shared_ptr<DeviceBucket> on_device;     ///< else null
  std::shared_ptr<BucketOperation> allreduce;  ///< whichever it is
  std::shared_ptr<BucketTrack> track;          ///< null without a timeline
  std::shared_ptr<Stream> stream = std::make_shared<Stream>();
  std::deque<FusedTensor> tensors;         ///< which cannot be moved
  std::atomic<std::size_t> num_packed{0};  ///< of the step that is being packed

  /// Which tensors the next step waits for, as the end of a sentence.
  std::string names_of_missing() const;
};

}  // namespace tnt::comm
