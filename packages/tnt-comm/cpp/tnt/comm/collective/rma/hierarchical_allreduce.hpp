#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "tnt/comm/base/array.hpp"
#include "tnt/comm/collective/bucket_operation.hpp"
#include "tnt/comm/collective/channel.hpp"
#include "tnt/comm/collective/rma/allreduce.hpp"
#include "tnt/comm/kernel/tree_reduce.hpp"

namespace tnt::comm {

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
  std::shared_ptr<Channel> channel;            ///< for these allreduces only
  std::shared_ptr<Segment> segment = nullptr;  ///< in which arrays lie that are summed in place
  /// This rank's, in it; others' are at the same places.
  std::shared_ptr<DoubleBuffer> slots = nullptr;
};

/// Allreduce of ranks on several hosts, q on each: what a host has is summed before it
/// crosses the network, so that each byte crosses it once per host and not once per rank.
///
/// *Private arrays*, for each block:
///   1. every rank copies it into its slot of the host's channel;
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
  Channel& channel() const { return *host_.channel; }
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

}  // namespace tnt::comm
