#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tnt/comm/base/waiting.hpp"
#include "tnt/comm/collective/bucket_operation.hpp"
#include "tnt/comm/device/device.hpp"
#include "tnt/comm/progress/engine.hpp"

namespace tnt::comm {

/// A tensor of a bucket on a GPU: what is packed is scale * data, and handed out is the sum.
struct DeviceTensor {
  std::size_t index = 0;   ///< among the tensors of the bucket
  std::size_t offset = 0;  ///< in the bucket, bytes
  std::size_t count = 0;   ///< elements
  DType dtype = DType::float32;
  std::optional<DType> narrow = {};  ///< as what it travels, if that is not its own dtype

  std::size_t num_bytes() const { return count * size_of(dtype); }
};

/// What the buckets of a reducer share on a GPU. A GPU serves few streams at once, eight by
/// default; with one for each bucket, some would wait for others by chance.
struct DeviceWork {
  DeviceWork(std::shared_ptr<Device> its_device, std::shared_ptr<EngineBell> its_bell)
      : device(std::move(its_device)), bell(std::move(its_bell)) {}

  std::shared_ptr<Device> device;
  std::shared_ptr<EngineBell> bell;
  DeviceStream packing{device};  ///< waits for tensors, in the order in which they come
  DeviceStream summing{device};  ///< what follows; nothing in it waits for a tensor
};

/// A bucket in the memory of a GPU, whichever way its allreduce takes.
///
/// The host does not wait for the GPU here, unless copies go from and to memory that the driver
/// does not know: tensors are packed and handed out in the stream of whoever computes them, and our
/// own streams wait for events in it. So a tensor's memory is used in the order of that stream, as
/// its allocator assumes, and copies between GPU and host are not behind what else is in it. The
/// engine looks at events, and is woken when one is there.
class DeviceBucket : public BucketOperation {
 public:
  DeviceBucket(std::shared_ptr<AbortState> abort_state, const BucketSpec& spec,
               std::shared_ptr<DeviceWork> work);

  /// Packs scale * data after what is in the stream, and nothing later in it before.
  void pack(std::uint64_t step, const DeviceTensor& tensor, DevicePointer data, double scale,
            ForeignStream stream);
  /// The same for a tensor in the memory of the host, as it is to be in the bucket.
  void pack_from_host(std::uint64_t step, const DeviceTensor& tensor,
                      std::vector<std::byte> packed);

  /// The completed step's sum of a tensor, likewise.
  void hand_out(std::uint64_t step, const DeviceTensor& tensor, DevicePointer out,
                ForeignStream stream);
  /// The same into the memory of the host, as it is in the bucket. Waits for the GPU.
  void hand_out_to_host(std::uint64_t step, const DeviceTensor& tensor, std::span<std::byte> out,
                        const Deadline& deadline);

 protected:
  /// Where the bucket of a step lies, before and after its allreduce.
  virtual DevicePointer data(std::uint64_t step) const = 0;

  /// Part of post(), when the stream of packing waits for all tensors of the bucket.
  void announce(std::uint64_t step) final;
  /// What follows the last tensor in that stream before others can have the bucket.
  virtual void follow_packing(std::uint64_t /*step*/) {}
  bool is_packed() const { return packed_.is_complete(); }

  /// The sum is there when what is in the stream now is done.
  void mark_result(DeviceStream& stream) { stream.record(summed_); }
  /// Lets the engine look again when what is in the stream now is done.
  void wake_engine(DeviceStream& stream) {
    stream.call([bell = work_->bell] { bell->ring(); });
  }

  /// To be called by destructors, before memory goes that our streams copy from or to.
  void drain() noexcept {
    static_cast<void>(packing().drain());
    static_cast<void>(summing().drain());
  }

  DeviceStream& packing() { return work_->packing; }
  DeviceStream& summing() { return work_->summing; }
  std::size_t num_bytes() const { return num_bytes_; }

  std::string own_part() const override;

 private:
  std::shared_ptr<DeviceWork> work_;
  std::size_t num_bytes_;
  DeviceEvent packed_{work_->device};
  DeviceEvent summed_{work_->device};
  std::deque<DeviceEvent> used_;  // by tensor: what its place was used for last
};

/// Ends a bucket, which waits for its GPU. The last who has it may be an engine, after its reducer:
/// that has others to serve, so it leaves the end to a thread.
void end_bucket(const DeviceBucket* bucket) noexcept;

template <typename Bucket, typename... Arguments>
std::shared_ptr<Bucket> make_device_bucket(Arguments&&... arguments) {
  return {new Bucket(std::forward<Arguments>(arguments)...), end_bucket};
}

/// The bucket of a rank that is alone: its sum is what it packs.
class SoloDeviceBucket final : public DeviceBucket {
 public:
  SoloDeviceBucket(std::shared_ptr<AbortState> abort_state, const BucketSpec& spec,
                   const std::shared_ptr<DeviceWork>& work)
      : DeviceBucket(std::move(abort_state), spec, work), memory_(work->device, spec.num_bytes()) {}

 protected:
  DevicePointer data(std::uint64_t) const override { return memory_.data(); }
  void follow_packing(std::uint64_t) override { mark_result(packing()); }
  bool try_begin() override { return true; }
  Progress advance_step() override { return Progress::done; }
  std::vector<int> missing() const override { return {}; }

 private:
  DeviceBuffer memory_;
};

}  // namespace tnt::comm
