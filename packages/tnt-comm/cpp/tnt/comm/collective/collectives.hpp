#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "tnt/comm/base/array.hpp"
#include "tnt/comm/base/recycled_memory.hpp"
#include "tnt/comm/collective/collective_operation.hpp"
#include "tnt/comm/collective/descriptor.hpp"

namespace tnt::comm {

class QuickAllreduce;
class SharedRegions;

/// What an allgather leaves behind.
struct Gathered {
  RecycledMemory blocks;          ///< of all members in their order, back to back
  std::vector<std::size_t> ends;  ///< where each ends, in bytes

  std::size_t begin_of(std::size_t member) const { return member == 0 ? 0 : ends[member - 1]; }
  std::size_t size_of(std::size_t member) const { return ends[member] - begin_of(member); }
};

/// The arrays of a call on this rank. They stay as they are (`out`: untouched by others) until the
/// call is complete.
struct CallArrays {
  /// Only the root's is read by broadcast and scatter.
  const void* in = nullptr;
  /// Keeps `in` where it is, if the caller does not.
  std::shared_ptr<const void> owner = nullptr;
  /// Of broadcast and allreduce it may be `in`, otherwise it must not overlap it.
  void* out = nullptr;
  /// The elements of each member's part of `in`, in member order, where there are parts:
  /// reduce_scatter, alltoall and scatter. `out` receives this rank's part, reduced; that of each
  /// member, one behind the other; that of the root.
  std::vector<Range> parts = {};
  /// Instead of `out`, of allgather and gather, which fills it on the root alone.
  std::shared_ptr<Gathered> gathered = nullptr;
};

/// Whether a member gives the same to all others, or something different to each.
enum class SentParts { same, different };

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

/// Where the memory of a stream is.
struct StreamMemory {
  std::shared_ptr<Segment> segment = {};                      ///< of all members
  std::shared_ptr<Segment> on_host = {}, between_hosts = {};  ///< with two levels
  std::size_t slot_bytes = 0;  ///< about so long are the slots through which large messages go
  std::size_t offset = 0;      ///< in `segment`; the other two are used from their begin
  NotificationId notification = 0;
};

/// What all operations of a stream are made with.
struct OperationContext {
  std::shared_ptr<AbortState> abort_state;
  AllreduceAlgorithm requested = AllreduceAlgorithm::automatic;
  std::shared_ptr<const SharedRegions> regions = {};
};

}  // namespace tnt::comm
