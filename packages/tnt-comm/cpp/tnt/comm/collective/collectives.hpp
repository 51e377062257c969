#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "tnt/comm/base/partition.hpp"
#include "tnt/comm/collective/collective_operation.hpp"
#include "tnt/comm/collective/descriptor.hpp"
#include "tnt/comm/collective/gathered.hpp"

namespace tnt::comm {

class QuickAllreduce;
class SharedRegions;

/// The arrays of a call on this rank.
struct CallArrays {
  /// Only the root's is read by broadcast and scatter.
  const void* in = nullptr;
  /// Of broadcast and allreduce it may be `in`, otherwise it must not overlap it.
  void* out = nullptr;
  /// The elements of each member's part of `in`, in member order, where there are parts:
  /// reduce_scatter, alltoall and scatter. `out` receives this rank's part, reduced; that of each
  /// member, one behind the other; that of the root.
  std::vector<Range> parts = {};
  /// Instead of `in` and `out`, of allgather and gather, which fills it on the root alone.
  std::shared_ptr<GatherInput> gather_input = nullptr;
  std::shared_ptr<Gathered> gathered = nullptr;
};

/// Makes the collectives of one stream, each for the kind of memory that the
/// ranks share. Operations run one after the other, in the order of the calls.
class Collectives {
 public:
  using Made = std::shared_ptr<CollectiveOperation>;

  virtual ~Collectives() = default;

  /// The collective that the descriptor names, on the arrays that it uses.
  virtual Made make(const Descriptor& descriptor, CallArrays arrays) = 0;

  /// The short path of small allreduces, and the operation that takes over what
  /// it has begun; null where there is none.
  virtual QuickAllreduce* quick_allreduce() { return nullptr; }
  virtual Made take_over(const QuickAllreduce& /*quick*/, const void* /*in*/, void* /*out*/) {
    return nullptr;
  }
};

/// What a maker of collectives needs of a segment.
struct MemoryNeeds {
  std::size_t num_bytes = 0;
  std::size_t num_notifications = 0;
};

/// What all operations of a stream are made with.
struct OperationContext {
  std::shared_ptr<AbortState> abort_state;
  AllreduceAlgorithm requested = AllreduceAlgorithm::automatic;
  std::shared_ptr<const SharedRegions> regions;
};

}  // namespace tnt::comm
