#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tnt/comm/base/array.hpp"
#include "tnt/comm/collective/bucket_operation.hpp"
#include "tnt/comm/collective/rma/fingerprint_check.hpp"
#include "tnt/comm/collective/rma/rma_pipeline.hpp"
#include "tnt/comm/collective/rma/schedule.hpp"
#include "tnt/comm/collective/select.hpp"
#include "tnt/comm/collective/slot_ring.hpp"
#include "tnt/comm/kernel/kernels.hpp"

namespace tnt::comm {

/// The layout for an array of `num_bytes` that is packed in its slot, and cut into the
/// blocks that may be under way at once: several (`pipelined`), so that some are on the network
/// while others are summed, or one (`halving_doubling`), with the fewest messages.
///
/// Twice the array and the landing area, which is as large for split exchanges, and S
/// times as large for whole ones (see LevelScheme), which are for small arrays.
RmaLayout layout_in_place(const MessagePattern& pattern, int size, std::size_t num_bytes);

/// What it needs of a segment of Senders::one.
MemoryNeeds needs_in_place(const MessagePattern& pattern, int size, std::size_t num_bytes);

/// The blocks of an allreduce, their exchanges, and the sums that these are for.
class BlockReduction : public RmaWork {
 public:
  const Schedule& schedule_of(std::uint64_t index) const final {
    return exchanges_[exchange_of(index)].schedule;
  }
  Combiner combiner() final { return {&reducer_, element_bytes_}; }

 protected:
  /// `arrays`: private ones.
  BlockReduction(const RmaPipeline& pipeline, const MessagePattern& pattern, DType dtype,
                 ReduceOp op, const CallArrays& arrays);

  /// The private arrays are cut into blocks.
  void cut(std::size_t num_bytes, std::size_t block_bytes);
  Range block(std::uint64_t index) const { return block_of(index, block_bytes_, num_bytes_); }
  /// Copies a block of them, or some bytes of it; nothing if there are none.
  void copy_to(std::byte* slot, std::uint64_t index) const {
    copy_to(slot, index, {0, block(index).size()});
  }
  void copy_to(std::byte* slot, std::uint64_t index, const Range& bytes) const;
  void copy_from(const std::byte* slot, std::uint64_t index) const {
    copy_from(slot, index, {0, block(index).size()});
  }
  void copy_from(const std::byte* slot, std::uint64_t index, const Range& bytes) const;

  /// The blocks come through slots of their own: so long are all but the last, and the last.
  void exchange_copied(std::size_t num_bytes, std::size_t last_bytes);
  /// The array of `num_bytes` lies in a slot, see layout_in_place(). Returns the blocks, in bytes.
  std::vector<Range> exchange_in_place(std::size_t num_bytes);

  /// What this rank exchanges is put here, and found there.
  std::byte* input(std::uint64_t index) const {
    return slot(index) + exchanges_[exchange_of(index)].input;
  }
  const std::byte* result(std::uint64_t index) const {
    return slot(index) + schedule_of(index).result;
  }
  /// Bytes of a block that are not sent but summed by this rank, and their sums sent; of whole
  /// exchanges there are none.
  Range own_part(std::uint64_t index) const;
  const std::byte* in(std::uint64_t index) const { return in_ + block(index).begin; }
  std::byte* out(std::uint64_t index) const { return out_ + block(index).begin; }

 private:
  struct BlockExchange {
    Schedule schedule;
    std::size_t input = 0;  // where it begins in the slot
  };

  std::size_t exchange_of(std::uint64_t index) const {
    // One per block, or one for the last and one for all others.
    return index + 1 == num_blocks ? exchanges_.size() - 1
                                   : std::min<std::size_t>(index, exchanges_.size() - 2);
  }

  MessagePattern pattern_;
  std::size_t element_bytes_;
  const std::byte* in_;
  std::byte* out_;
  std::size_t num_bytes_ = 0;
  std::size_t block_bytes_ = 0;
  std::vector<BlockExchange> exchanges_;
  TreeReducer reducer_;
};

/// Allreduce among ranks that can only put into each other's memory.
///
/// *Private arrays*: each block, as long as the slots allow, is copied into the
/// work area, as far as it is sent, exchanged (see LevelScheme for rounds and bytes) and copied
/// out. Of split exchanges, others' sums go straight to the array where the segment can do that,
/// once all are known to make the same call. With one block under way at a time a long array
/// alternates between the network and the reduction; with several, a block is on the network while
/// another one is reduced and a third one waits for the slowest rank, which is
/// the `pipelined` variant. Blocks: ceil(bytes / longest block).
///
/// *Packed in place*, the persistent one: the array lies in registered memory, is sent
/// from there, and its sum comes back to the same place, without a copy. Messages may
/// still be on their way when a rank has the result, so the next step is packed into the other
/// slot, and none can be lent.
class RmaAllreduce final : public BlockReduction {
 public:
  RmaAllreduce(const RmaPipeline& pipeline, const Descriptor& descriptor,
               const MessagePattern& pattern, const CallArrays& arrays);
  RmaAllreduce(const RmaPipeline& pipeline, const MessagePattern& pattern, DType dtype,
               std::size_t count);

  void on_match() override { has_matched_ = true; }
  void copy_in(std::uint64_t index) override;
  Progress prepare(std::uint64_t index) override;
  const std::byte* own_operand(std::uint64_t index) const override;
  void copy_out(std::uint64_t index) override;
  void release_arrays() override;

 private:
  std::size_t place_of_result(std::uint64_t index) const;  // in the segment
  bool redirect(std::uint64_t index);
  void end_redirect(std::uint64_t index);

  bool has_matched_ = false;
  std::vector<bool> is_redirected_ = std::vector<bool>(stream().layout.depth);  // blocks under way
};

/// Reduces a branch of the tree to a partial result that can be combined
/// further, and turns the end result into the elements' own type. For 16-bit
/// floats partial results are float32, so that they are rounded once; for all
/// others they are what they are (the partial type is accumulator_of() the type).
class PartialReducer {
 public:
  PartialReducer(DType dtype, ReduceOp op, std::size_t max_sources);

  /// dst (of the partial type) = tree over the sources (of the type).
  void reduce(std::byte* dst, const std::byte* const* sources, std::size_t num_sources,
              std::size_t count);

  /// dst (of the type) = src (of the partial type). No overlap.
  void round(std::byte* dst, const std::byte* src, std::size_t count) const;

 private:
  bool is_rounded() const { return accumulator_of(dtype_) != dtype_; }

  DType dtype_;
  TreeReducer reducer_;
  std::vector<std::vector<float>> widened_;  // one block of each source
  std::vector<const std::byte*> operands_;
};

/// How the ranks of one host reach each other, in an allreduce of several hosts.
struct HostLevel {
  HostLayout hosts;
  std::shared_ptr<SlotRing> ring;              ///< for these allreduces only
  std::shared_ptr<Segment> segment = nullptr;  ///< in which arrays lie that are summed in place
  /// This rank's, in it; others' are at the same places.
  std::shared_ptr<DoubleBuffer> slots = nullptr;
};

/// Allreduce of ranks on several hosts, q on each: what a host has is summed before it
/// crosses the network, so that each byte crosses it once per host and not once per rank.
///
/// *Private arrays*, for each block:
///   1. every rank copies it into its slot of the host's ring;
///   2. rank i of a host reduces chunk i (1/q of the block) out of the slots
///      of the host, into registered memory;
///   3. the ranks i of all H hosts exchange their chunks (see LevelScheme), q
///      exchanges side by side;
///   4. rank i writes the result of chunk i to all slots of the host, and
///      everybody copies its own slot.
///
/// *Packed in place*, the persistent one: the array lies in memory that the ranks of the host
/// reach, and each says with its post in which of its two slots. Rank i exchanges chunk i of the
/// whole array, cut into blocks, and each rank ends with the whole result in its own slot, which
/// can be lent. So a block of the chunk is on the network while the next one is reduced and the one
/// before is written back. A slot can be packed again when all have said `reduced`: of this rank's
/// slot, rank r reads chunk r and then writes chunk r, and says so after both.
///
/// The ranks of a host are a branch of the tree (HostLayout), so the order of
/// the sum is the same as without levels. 16-bit floats cross the network as
/// float32 and are rounded once, in 4; then any exchange will do.
///
/// Blocks: ceil(bytes / longest block). Bytes that a rank sends over the network: those
/// of the exchange among H for 1/q of the array.
class HierarchicalAllreduce final : public BlockReduction {
 public:
  /// `pipeline`: of the ranks with the same place on their hosts. Packed in place: without
  /// `arrays`, and with `slots` of the host.
  HierarchicalAllreduce(const RmaPipeline& pipeline, const Descriptor& descriptor, HostLevel host,
                        const MessagePattern& pattern, const CallArrays& arrays);

  const HostLevel& host() const { return host_; }

  void copy_in(std::uint64_t index) override;
  Progress prepare(std::uint64_t index) override;
  Progress distribute(std::uint64_t index) override;
  bool is_complete(std::uint64_t index) override;
  void copy_out(std::uint64_t index) override;
  void append_missing(std::vector<int>& members) const override;

 private:
  bool is_in_place() const { return host_.slots != nullptr; }
  SlotRing& ring() const { return *host_.ring; }
  std::uint64_t block_on_host(std::uint64_t index) const;
  Range chunk(std::uint64_t index) const;  // elements of the arrays on the host
  std::byte* array_of(int local_rank, std::uint64_t index) const;

  HostLevel host_;
  DType dtype_;
  std::size_t element_bytes_ = size_of(dtype_);
  std::size_t partial_bytes_ = size_of(accumulator_of(dtype_));
  std::vector<Range> chunks_;  // by block, of an array in place
  std::vector<const std::byte*> operands_;
  PartialReducer on_host_;
  std::size_t num_reduced_ = 0;      // elements of the block's chunk
  std::size_t num_distributed_ = 0;  // likewise
};

/// A bucket whose blocks cross a network: what starts its allreduce in every step.
///
/// Each bucket has slots and notifications of its own, so it waits for no other one.
class RmaBucketOperation : public BucketOperation {
 protected:
  /// `report`: of all members of the group. `work` belongs to the subclass.
  RmaBucketOperation(std::shared_ptr<RmaStream> stream, ArrivalReport report, RmaWork& work,
                     std::string name)
      : BucketOperation(stream->abort_state, std::move(name)),
        pipeline_(std::move(stream)),
        arrival_report_(std::move(report)),
        work_(work) {}

  const RmaPipeline& pipeline() const { return pipeline_; }
  bool has_reported(int member) const { return arrival_report_.is_present(member); }

  bool try_begin() final {
    arrival_report_.begin(current());
    pipeline_.begin(work_.num_blocks);
    return true;
  }
  Progress advance_step() final {
    const bool has_moved = pipeline_.advance(work_, true);
    if (pipeline_.is_done(work_)) {
      pipeline_.end();
      return Progress::done;
    }
    if (has_moved) return Progress::advanced;
    arrival_report_.answer_if_waiting();
    return Progress::pending;
  }
  std::vector<int> missing() const final {
    std::vector<int> members;
    if (has_begun()) work_.append_missing(members);
    return members;
  }
  std::vector<int> awaited_members() const final { return members_holding_up(); }
  std::string own_part() const final {
    return awaits_this_rank() ? BucketOperation::own_part() : std::string(kAwaitsRoom);
  }

 private:
  RmaPipeline pipeline_;
  ArrivalReport arrival_report_;
  RmaWork& work_;
};

/// RmaAllreduce of a bucket that is packed into registered memory: packing is the only copy.
class RmaBucket final : public RmaBucketOperation {
 public:
  RmaBucket(std::shared_ptr<RmaStream> stream, ArrivalReport report, const MessagePattern& pattern,
            const BucketSpec& spec)
      : RmaBucketOperation(std::move(stream), std::move(report), work_, spec.name),
        work_(pipeline(), pattern, spec.dtype, spec.count) {}

  std::byte* input(std::uint64_t step) override {
    return pipeline().stream().slot(step * work_.num_blocks);
  }
  const std::byte* result(std::uint64_t step) const override {
    // Blocks of a split exchange come back to where they were; a whole one is never cut.
    return pipeline().stream().slot(step * work_.num_blocks) + work_.schedule_of(0).result;
  }

 protected:
  bool has_made_call(int member) const override {
    return has_reported(member) || pipeline().has_heard_of(member, work_);
  }

 private:
  RmaAllreduce work_;
};

/// HierarchicalAllreduce of a bucket that is packed where the ranks of the host reach it.
class HierarchicalBucket final : public RmaBucketOperation {
 public:
  HierarchicalBucket(std::shared_ptr<RmaStream> stream, ArrivalReport report, HostLevel host,
                     const MessagePattern& pattern, const BucketSpec& spec)
      : RmaBucketOperation(std::move(stream), std::move(report), work_, spec.name),
        work_(pipeline(), {.dtype = spec.dtype, .op = ReduceOp::sum, .count = spec.count},
              std::move(host), pattern, {}) {}

  std::byte* input(std::uint64_t step) override { return slots().data_of(slots().open(step)); }
  const std::byte* result(std::uint64_t step) const override {
    return slots().data_of(slots().slot_of(step));
  }

 protected:
  std::shared_ptr<DoubleBuffer> lendable() const override { return work_.host().slots; }
  void announce(std::uint64_t step) override {
    // Opened here if a bucket has no tensors, and so nothing to pack.
    ring().say_packed(step, slots().open(step));
    ring().post(step);
  }
  bool has_made_call(int member) const override {
    const HostLayout& hosts = work_.host().hosts;
    const bool is_exchanging = hosts.local_index_of(member) == ring().rank();
    return has_reported(member) ||
           (is_exchanging && pipeline().has_heard_of(hosts.host_of(member), work_));
  }

 private:
  DoubleBuffer& slots() const { return *work_.host().slots; }
  SlotRing& ring() const { return *work_.host().ring; }

  HierarchicalAllreduce work_;
};

}  // namespace tnt::comm
