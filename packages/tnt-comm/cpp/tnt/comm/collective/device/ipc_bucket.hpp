#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tnt/comm/collective/device/device_bucket.hpp"
#include "tnt/comm/kernel/sum_tree.hpp"
#include "tnt/comm/transport/transport.hpp"

namespace tnt::comm {

/// The buckets of a reducer in the memory of the GPUs of one host, each of which all ranks
/// have opened.
struct IpcMemory {
  IpcMemory(std::shared_ptr<Device> device, std::size_t num_bytes)
      : local(std::move(device), num_bytes) {}

  DeviceBuffer local;
  std::vector<std::unique_ptr<PeerBuffer>> peers;  // by member; null: this rank

  /// Where the part of a member begins.
  DevicePointer part_of(std::size_t member) const {
    return peers[member] ? peers[member]->data() : local.data();
  }
};

/// A bucket that GPUs sum, which reach each other's memory: the two-shot allreduce. Of the bucket,
/// each rank sums a chunk by a kernel, in the memory of all, and copies the others' chunks.
///
/// No kernel waits for another GPU: hosts tell each other what their GPUs have done, so that
/// deadlines and lost ranks are as of any other bucket. In step s a rank
///   1. has packed: it says so (`posted`);
///   2. when all have, sums its chunk of all parts into its own part, and says so (`reduced`);
///   3. when all have, copies the others' chunks into its own part.
///
/// Steps use two parts of memory in turn. A rank packs for step s + 2 when it has completed s + 1,
/// so all have posted s + 1, which their GPUs came to after they had copied everything of step s:
/// nobody reads that any more.
class IpcBucket final : public DeviceBucket {
 public:
  static constexpr std::size_t kNumParts = 2;
  static constexpr std::size_t kNumNotifications = 2;

  /// The bucket's parts begin at `offset` of the memory, `part_bytes` each; its notifications of
  /// the segment, all of whose members take part, at `first`.
  struct Layout {
    std::size_t offset = 0;
    std::size_t part_bytes = 0;
    NotificationId first = 0;
  };

  IpcBucket(std::shared_ptr<AbortState> abort_state, const BucketSpec& spec, SumTree tree,
            std::shared_ptr<Device> device, std::shared_ptr<EngineBell> bell,
            std::shared_ptr<IpcMemory> memory, std::shared_ptr<Segment> segment,
            const Layout& layout);

 protected:
  DevicePointer data(std::uint64_t step) const override { return data_of(rank(), step); }
  bool try_begin() override;
  Progress advance_step() override;
  std::vector<int> missing() const override;
  bool has_made_call(int member) const override { return has_said(member, Counter::posted); }

 private:
  enum class Counter : std::size_t { posted, reduced };
  enum class Phase { posted, summing, reduced };

  std::size_t rank() const { return static_cast<std::size_t>(segment_->rank()); }
  DevicePointer data_of(std::size_t member, std::uint64_t step) const {
    return memory_->part_of(member) + layout_.offset + step % kNumParts * layout_.part_bytes;
  }
  Range chunk_of_member(std::size_t member) const;

  void say(Counter counter);
  bool has_said(int member, Counter counter) const;
  bool have_all_said(Counter counter) const;
  void sum_chunk();
  void copy_chunks_of_others();

  DType dtype_;
  std::size_t count_;
  SumTree tree_;
  std::shared_ptr<IpcMemory> memory_;
  std::shared_ptr<Segment> segment_;
  Layout layout_;
  DeviceEvent reduced_;
  Phase phase_ = Phase::posted;
};

}  // namespace tnt::comm
