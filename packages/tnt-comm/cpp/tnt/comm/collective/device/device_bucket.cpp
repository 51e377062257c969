#include "tnt/comm/collective/device/device_bucket.hpp"

#include <exception>

#include "tnt/comm/base/process.hpp"

namespace tnt::comm {
namespace {

/// Work between what is in somebody's stream and what comes into it later: in that stream, or, if
/// it is not known, in ours, for which all streams of the context wait and are waited for.
class Place {
 public:
  Place(std::shared_ptr<Device> device, ForeignStream theirs, DeviceStream& ours,
        DeviceEvent& event)
      : ours_(ours), event_(event) {
    if (theirs != nullptr) {
      theirs_.emplace(std::move(device), theirs);
    } else {
      event_.record(nullptr);
      ours_.wait_for(event_);
    }
  }
  /// Marks the end of the work by the event.
  void end() {
    stream().record(event_);
    if (!theirs_) event_.hold_up(nullptr);
  }
  DeviceStream& stream() { return theirs_ ? *theirs_ : ours_; }

 private:
  DeviceStream& ours_;
  DeviceEvent& event_;
  std::optional<DeviceStream> theirs_;
};

}  // namespace

DeviceBucket::DeviceBucket(std::shared_ptr<AbortState> abort_state, const BucketSpec& spec,
                           std::shared_ptr<DeviceWork> work)
    : BucketOperation(std::move(abort_state), spec.name),
      work_(std::move(work)),
      num_bytes_(spec.num_bytes()) {
  while (used_.size() < spec.num_tensors) used_.emplace_back(work_->device);
}

void DeviceBucket::pack(std::uint64_t step, const DeviceTensor& tensor, DevicePointer data,
                        double scale, ForeignStream stream) {
  if (tensor.count == 0) return;
  DeviceEvent& used = used_[tensor.index];
  // It was handed out in another stream, perhaps.
  if (stream != nullptr) used.hold_up(stream);
  Place place(work_->device, stream, packing(), used);
  const DevicePointer to = this->data(step) + tensor.offset;
  if (tensor.narrow) {
    place.stream().pack_narrowed(to, data, tensor.count, *tensor.narrow, scale);
  } else {
    place.stream().pack_scaled(to, data, tensor.count, tensor.dtype, scale);
  }
  place.end();
  packing().wait_for(used);
}

void DeviceBucket::pack_from_host(std::uint64_t step, const DeviceTensor& tensor,
                                  std::vector<std::byte> packed) {
  if (packed.empty()) return;
  packing().wait_for(used_[tensor.index]);
  const auto kept = std::make_shared<const std::vector<std::byte>>(std::move(packed));
  packing().copy_from_host(data(step) + tensor.offset, kept->data(), kept->size());
  packing().call([kept] {});  // some drivers copy later
}

void DeviceBucket::hand_out(std::uint64_t step, const DeviceTensor& tensor, DevicePointer out,
                            ForeignStream stream) {
  if (tensor.count == 0) return;
  Place place(work_->device, stream, summing(), used_[tensor.index]);
  place.stream().wait_for(summed_);
  const DevicePointer from = data(step) + tensor.offset;
  if (tensor.narrow) {
    place.stream().unpack_widened(out, from, tensor.count, *tensor.narrow);
  } else {
    place.stream().copy(out, from, tensor.num_bytes());
  }
  place.end();
}

void DeviceBucket::hand_out_to_host(std::uint64_t step, const DeviceTensor& tensor,
                                    std::span<std::byte> out, const Deadline& deadline) {
  if (out.empty()) return;
  DeviceStream own(work_->device);
  own.wait_for(summed_);
  own.synchronize(deadline);  // the copy holds the caller until it is made
  own.copy_to_host(out.data(), data(step) + tensor.offset, out.size());
  own.synchronize(deadline);
}

void DeviceBucket::announce(std::uint64_t step) {
  packing().wait_for(summed_);  // of the last step, and with it for all that this step replaces
  follow_packing(step);
  packing().record(packed_);
  wake_engine(packing());
}

std::string DeviceBucket::own_part() const {
  if (awaits_this_rank()) return BucketOperation::own_part();
  return text("this rank itself: its GPU, ", work_->device->name(), ", is still at work");
}

void end_bucket(const DeviceBucket* bucket) noexcept {
  const auto end = [bucket] { delete bucket; };
  if (!Engine::has_turn()) return end();
  try {
    start_without_signals("gpu-release", end).detach();
  } catch (const std::exception&) {  // no more threads
    end();
  }
}

}  // namespace tnt::comm
