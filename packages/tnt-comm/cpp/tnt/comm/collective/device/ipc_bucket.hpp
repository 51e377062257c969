#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tnt/comm/collective/device/chunk_exchange.hpp"
#include "tnt/comm/collective/device/device_bucket.hpp"
#include "tnt/comm/collective/device/ipc_memory.hpp"
#include "tnt/comm/kernel/sum_tree.hpp"
#include "tnt/comm/transport/transport.hpp"

namespace tnt::comm {

/// A bucket that the GPUs of a host sum, which reach each other's memory: the two-shot allreduce.
/// Of the bucket, each rank sums a chunk by a kernel, in the memory of all, exchanges it with other
/// hosts if there are any, and copies the others' chunks.
///
/// No kernel waits for another GPU: hosts tell each other what their GPUs have done, so that
/// deadlines and lost ranks are as of any other bucket. In step s a rank
///   1. has packed: it says so (`posted`);
///   2. when all have, sums its chunk of all parts into its own part, over all hosts, and says so
///      (`reduced`);
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

  /// Who takes part: the ranks of this host, how they are found in the group, and the order in
  /// which they are summed. The memory and the segment are theirs.
  struct Host {
    int first_member = 0;  ///< of the group; the others follow
    SumTree tree;
    std::shared_ptr<IpcMemory> memory;
    std::shared_ptr<Segment> segment;
  };

  /// `exchange`: with other hosts; null if there are none.
  IpcBucket(std::shared_ptr<AbortState> abort_state, const BucketSpec& spec,
            const std::shared_ptr<DeviceWork>& work, Host host, const Layout& layout,
            std::unique_ptr<ChunkExchange> exchange);

  ~IpcBucket() override { drain(); }

  void fail(const Error& error) override;

  /// What is copied from and to the memory of this host, if there are others.
  HostMemory copied_memory() const { return exchange_ ? exchange_->copied_memory() : HostMemory{}; }
  /// Keeps it registered.
  void keep(std::shared_ptr<void> registration) { registration_ = std::move(registration); }

 protected:
  DevicePointer data(std::uint64_t step) const override { return data_of(rank(), step); }
  bool try_begin() override;
  Progress advance_step() override;
  std::vector<int> missing() const override;
  std::vector<int> awaited_members() const override { return missing(); }

 private:
  enum class Counter : std::size_t { posted, reduced };
  // What is waited for: others to pack, the GPU to sum, other hosts, the GPU to take their sum,
  // others to reduce.
  enum class Phase { posted, summing, exchanging, taking, reduced };

  // Of the ranks of the host.
  Segment& segment() const { return *host_.segment; }
  std::size_t rank() const { return static_cast<std::size_t>(segment().rank()); }
  std::size_t size() const { return static_cast<std::size_t>(segment().size()); }
  DevicePointer data_of(std::size_t member, std::uint64_t step) const {
    return host_.memory->part_of(member) + layout_.offset + step % kNumParts * layout_.part_bytes;
  }
  Range chunk_of_member(std::size_t member) const;
  DevicePointer own_chunk() const;

  void say(Counter counter);
  bool has_said(int member, Counter counter) const;
  bool have_all_said(Counter counter) const;
  void sum_chunk();
  void mark_chunk();
  void copy_chunks_of_others();

  DType dtype_;
  std::size_t count_;
  Host host_;
  Layout layout_;
  std::unique_ptr<ChunkExchange> exchange_;
  std::shared_ptr<void> registration_;  // goes before what it registers
  DeviceEvent chunk_is_there_;
  Phase phase_ = Phase::posted;
};

}  // namespace tnt::comm
