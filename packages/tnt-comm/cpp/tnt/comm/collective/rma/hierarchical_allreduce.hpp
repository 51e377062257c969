#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "tnt/comm/collective/host_bucket.hpp"
#include "tnt/comm/collective/rma/allreduce.hpp"
#include "tnt/comm/collective/slot_ring.hpp"
#include "tnt/comm/kernel/kernels.hpp"
#include "tnt/comm/kernel/table.hpp"

namespace tnt::comm {

/// Reduces a branch of the tree to a partial result that can be combined
/// further, and turns the end result into the elements' own type. For 16-bit
/// floats partial results are float32, so that they are rounded once; for all
/// others they are what they are (the partial type is accumulator_of() the type).
class PartialReducer {
 public:
  /// Of all members of the branch.
  PartialReducer(DType dtype, ReduceOp op, const SumTree& branch)
      : dtype_(dtype),
        reducer_(accumulator_of(dtype), op, branch),
        operands_(static_cast<std::size_t>(branch.size())) {
    if (is_rounded()) widened_.assign(operands_.size(), std::vector<float>(kWidenedElements));
  }

  /// dst (of the partial type) = tree over the sources (of the type).
  void reduce(std::byte* dst, const std::byte* const* sources, std::size_t num_sources,
              std::size_t count) {
    if (!is_rounded()) {
      reducer_.reduce(dst, sources, num_sources, count);
      return;
    }
    const auto widen = kernels().widen[index_of(dtype_)];
    for (std::size_t begin = 0; begin < count; begin += kWidenedElements) {
      const std::size_t length = std::min(kWidenedElements, count - begin);
      for (std::size_t i = 0; i < num_sources; ++i) {
        const std::byte* source = sources[i] + begin * sizeof(std::uint16_t);
        widen(widened_[i].data(), reinterpret_cast<const std::uint16_t*>(source), length);
        operands_[i] = reinterpret_cast<const std::byte*>(widened_[i].data());
      }
      reducer_.reduce(dst + begin * sizeof(float), operands_.data(), num_sources, length);
    }
  }

  /// dst (of the type) = src (of the partial type). No overlap.
  void round(std::byte* dst, const std::byte* src, std::size_t count) const {
    if (count == 0) return;
    if (!is_rounded()) {
      std::memcpy(dst, src, count * size_of(dtype_));
      return;
    }
    kernels().narrow[index_of(dtype_)](reinterpret_cast<std::uint16_t*>(dst),
                                       reinterpret_cast<const float*>(src), count);
  }

 private:
  static constexpr std::size_t kWidenedElements = 2048;  // stay in the first-level cache

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
                        const MessagePattern& pattern, const CallArrays& arrays)
      : BlockReduction(pipeline, pattern, accumulator_of(descriptor.dtype), descriptor.op, arrays),
        host_(std::move(host)),
        dtype_(descriptor.dtype),
        operands_(static_cast<std::size_t>(ring().size())),
        on_host_(dtype_, descriptor.op, host_.hosts.on_host) {
    if (is_in_place()) {
      const Range own = chunk_of(descriptor.count, dtype_, ring().size(), ring().rank());
      for (const Range& bytes : exchange_in_place(own.size() * partial_bytes_)) {
        chunks_.push_back(
            {own.begin + bytes.begin / partial_bytes_, own.begin + bytes.end / partial_bytes_});
      }
      return;
    }
    const std::size_t longest = longest_block(pattern.scheme, stream().tree, stream().layout.areas);
    cut(descriptor.num_bytes(), elements_of_blocks(ring(), longest, dtype_) * element_bytes_);
    exchange_copied(chunk(0).size() * partial_bytes_,
                    chunk(num_blocks - 1).size() * partial_bytes_);
  }

  const HostLevel& host() const { return host_; }

  void copy_in(std::uint64_t index) override {
    copy_to(ring().slot(block_on_host(index)), index, whole(index));
    ring().post(block_on_host(index));
  }

  Progress prepare(std::uint64_t index) override {
    if (!ring().have_all_posted(block_on_host(index))) return Progress::pending;
    const Range own = chunk(index);
    const std::size_t begin = own.begin + num_reduced_;
    const std::size_t length = std::min(own.end - begin, kBytesPerTurn / partial_bytes_);
    for (int local_rank = 0; local_rank < ring().size(); ++local_rank) {
      at(operands_, local_rank) = array_of(local_rank, index) + begin * element_bytes_;
    }
    on_host_.reduce(input(index) + num_reduced_ * partial_bytes_, operands_.data(),
                    operands_.size(), length);
    num_reduced_ += length;
    if (num_reduced_ < own.size()) return Progress::advanced;
    num_reduced_ = 0;
    return Progress::done;
  }

  Progress distribute(std::uint64_t index) override {
    const Range own = chunk(index);
    const std::size_t begin = own.begin + num_distributed_;
    const std::size_t length = std::min(own.end - begin, kBytesPerTurn / partial_bytes_);
    std::byte* const sum = array_of(ring().rank(), index) + begin * element_bytes_;
    on_host_.round(sum, result(index) + num_distributed_ * partial_bytes_, length);
    for (int local_rank = 0; local_rank < ring().size() && length > 0; ++local_rank) {
      if (local_rank == ring().rank()) continue;
      std::memcpy(array_of(local_rank, index) + begin * element_bytes_, sum,
                  length * element_bytes_);
    }
    num_distributed_ += length;
    if (num_distributed_ < own.size()) return Progress::advanced;
    num_distributed_ = 0;
    if (!is_in_place() || index + 1 == num_blocks) ring().publish_reduced(block_on_host(index));
    return Progress::done;
  }

  bool is_complete(std::uint64_t index) override {
    return (is_in_place() && index + 1 < num_blocks) ||
           ring().have_all_reduced(block_on_host(index));
  }

  void copy_out(std::uint64_t index) override {
    if (!is_in_place()) copy_from(ring().slot(block_on_host(index)), index, whole(index));
  }

  void append_missing(std::vector<int>& members) const override {
    const int host = stream().rank();
    const auto append_local = [&](const std::vector<int>& local_ranks) {
      for (const int local_rank : local_ranks) {
        members.push_back(host_.hosts.member_at(host, local_rank));
      }
    };
    const RmaPipeline& blocks = pipeline();
    if (blocks.num_sent() < blocks.num_filled()) {
      append_local(ring().missing_posts(block_on_host(blocks.num_sent())));
    }
    std::vector<int> hosts;
    blocks.append_missing(hosts);
    for (const int other : hosts) {
      members.push_back(host_.hosts.member_at(other, ring().rank()));
    }
    if (blocks.num_finished() < blocks.num_distributed()) {
      append_local(ring().missing_reductions(block_on_host(blocks.num_finished())));
    }
  }

 private:
  // What one call reduces, and what it distributes, at most.
  static constexpr std::size_t kBytesPerTurn = 256 * 1024;

  // Elements of a block whose chunks are equally long, begin on cache lines, and
  // fit in a slot of the host and in one of the exchange.
  static std::size_t elements_of_blocks(const SlotRing& on_host, std::size_t longest_exchanged,
                                        DType dtype) {
    const auto num_chunks = static_cast<std::size_t>(on_host.size());
    const std::size_t exchanged = longest_exchanged / size_of(accumulator_of(dtype));
    const std::size_t local = on_host.slot_bytes() / num_chunks / size_of(dtype);
    const std::size_t line = kCacheLineBytes / size_of(dtype);
    return std::min(exchanged, local) / line * line * num_chunks;
  }

  bool is_in_place() const { return host_.slots != nullptr; }
  SlotRing& ring() const { return *host_.ring; }

  // A step of an array in place is one block there.
  std::uint64_t block_on_host(std::uint64_t index) const {
    return is_in_place() ? pipeline().base() / num_blocks : pipeline().base() + index;
  }

  // Elements of the arrays on the host.
  Range chunk(std::uint64_t index) const {
    if (is_in_place()) return chunks_[index];
    return chunk_of(block(index).size() / element_bytes_, dtype_, ring().size(), ring().rank());
  }

  std::byte* array_of(int local_rank, std::uint64_t index) const {
    const std::uint64_t block = block_on_host(index);
    if (!is_in_place()) return ring().slot_of(local_rank, block);
    const std::size_t offset =
        host_.slots->offset_of(ring().packed_slot_of(local_rank, block) % DoubleBuffer::kNumSlots);
    Segment& segment = *host_.segment;
    return (local_rank == segment.rank() ? segment.local() : segment.writable_peer(local_rank)) +
           offset;
  }

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
