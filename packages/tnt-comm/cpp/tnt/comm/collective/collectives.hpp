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

/// Makes the collectives of one stream, each for the kind of memory that the
/// ranks share. Operations run one after the other, in the order of the calls.
class Collectives {
 public:
  using Made = std::shared_ptr<CollectiveOperation>;

  virtual ~Collectives() = default;

  virtual Made barrier(const Descriptor& descriptor) = 0;
  /// `out` may be `in`.
  virtual Made allreduce(const Descriptor& descriptor, const void* in, void* out) = 0;
  /// `in` is read by the root only; `out` is written by everybody, on the root
  /// unless it is `in`.
  virtual Made broadcast(const Descriptor& descriptor, const void* in, void* out) = 0;
  virtual Made allgather(const Descriptor& descriptor, GatherInput in,
                         std::shared_ptr<Gathered> gathered) = 0;
  /// `parts`: the elements each member is to get, in member order. `out`
  /// receives this rank's part and must not overlap `in`.
  virtual Made reduce_scatter(const Descriptor& descriptor, std::vector<Range> parts,
                              const void* in, void* out) = 0;

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
