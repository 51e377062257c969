#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "tnt/comm/algorithm/bucket_operation.hpp"
#include "tnt/comm/algorithm/bucket_turns.hpp"
#include "tnt/comm/algorithm/sliced_pieces.hpp"

namespace tnt::comm {

/// Allreduce of a large bucket, one per training step, among ranks that can
/// read each other's memory: it goes piece by piece through windows that stay
/// in the caches and that it shares with other buckets, see BucketTurns.
///
/// So its tensors need not be in memory that others can reach. Large ones stay
/// where they are and are summed there; small ones, and those whose owner wants
/// them back at once, are packed into private memory, of which nothing is taken
/// that is not used.
class StreamedBucketAllreduce final : public BucketOperation, private WindowedWork {
 public:
  /// The `bucket`-th of those that share the turns. `large`: elements of the
  /// tensors that can be placed, in ascending order.
  StreamedBucketAllreduce(std::shared_ptr<Health> health, std::shared_ptr<BucketTurns> turns,
                          std::size_t bucket, DType dtype, std::size_t count,
                          std::vector<Range> large, std::string name);

  std::byte* input(std::uint64_t step) override;
  const std::byte* result(std::uint64_t step) const override;
  std::shared_ptr<WindowPair> try_lend(std::uint64_t step, std::size_t& window) override;
  bool is_placeable(std::size_t /*place*/) const override { return true; }
  void place(std::size_t place, PlacedTensor tensor) override;
  void release(std::size_t place) override;

 protected:
  Progress step() override;
  void announce(std::uint64_t step) override;
  void reset() override;
  std::vector<int> missing() const override;
  bool has_made_call(int member) const override;

 private:
  // Pieces are posted and reduced one after the other.
  void copy_in(std::uint64_t index, std::byte* window) override;
  bool reduce(std::uint64_t index) override;
  void copy_out(std::uint64_t index) override;

  void begin();

  std::shared_ptr<BucketTurns> turns_;
  std::size_t bucket_;
  DType dtype_;
  std::shared_ptr<WindowPair> packed_;
  WindowPipeline pipeline_;
  SlicedPieces pieces_;
  std::vector<Range> large_;
  std::vector<PlacedTensor> placed_;       // of the step at hand; without `out`: it is packed
  std::vector<std::size_t> place_of_run_;  // kNoPlace for runs of packed tensors
  bool has_begun_ = false;
};

}  // namespace tnt::comm
