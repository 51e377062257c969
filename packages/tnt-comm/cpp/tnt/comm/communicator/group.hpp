#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tnt/comm/collective/collectives.hpp"
#include "tnt/comm/collective/descriptor.hpp"
#include "tnt/comm/collective/rendezvous.hpp"
#include "tnt/comm/collective/rma/schedule.hpp"
#include "tnt/comm/collective/select.hpp"
#include "tnt/comm/collective/shared_regions.hpp"
#include "tnt/comm/communicator/runtime.hpp"
#include "tnt/comm/progress/engine.hpp"

namespace tnt::comm {

class Group;

/// What a caller holds for an operation in flight. Keeps group and operation alive, not the arrays.
class TNT_COMM_EXPORT Request {
 public:
  Request(std::shared_ptr<Group> group, std::shared_ptr<CollectiveOperation> operation,
          std::shared_ptr<Gathered> gathered)
      : group_(std::move(group)),
        operation_(std::move(operation)),
        gathered_(std::move(gathered)) {}

  bool is_done() const;

  /// Blocks; a `timeout_s` of 0 or less means the job's timeout.
  void wait(double timeout_s, const InterruptCheck& check_interrupt = {});

  /// Of an allgather that is done.
  Gathered& gathered() const { return *gathered_; }

 private:
  std::shared_ptr<Group> group_;
  std::shared_ptr<CollectiveOperation> operation_;
  std::shared_ptr<Gathered> gathered_;  // null for other collectives
};

class JoinWatch;
class SegmentSet;

/// A collective as its caller states it.
struct Call {
  CollectiveKind kind = CollectiveKind::barrier;
  const void* in = nullptr;  ///< where a root gives something to the others, they need none
  void* out = nullptr;       ///< gathered blocks are in Request::gathered() instead
  std::size_t count = 0;     ///< elements of `in`; rows, where it is cut into parts
  DType dtype = DType::uint8;
  ReduceOp op = ReduceOp::sum;
  int root = 0;
  std::size_t row_elements = 1;  ///< of such a row
  std::uint64_t shape = 0;       ///< by pack_shape, or pack_row_shape where blocks are gathered
};

/// Collectives that run in the order of the calls: the group's own, or those of an object on it.
struct CallStream {
  std::unique_ptr<Collectives> collectives;
  std::string owner = {};          ///< for messages, such as "Gatherer 'rows'"; "": the group
  std::string_view drawn_as = {};  ///< on the timeline; "": as what they are
  RowId row = 0;                   ///< there, if there is one
  std::shared_ptr<Stream> order = std::make_shared<Stream>();
};

/// Some ranks of the job, and the collectives among them.
///
/// Collectives of one group run in the order of the calls, which must be the same on all members.
/// Groups, GradientReducers and Gatherers are independent of each other.
class TNT_COMM_EXPORT Group : public std::enable_shared_from_this<Group> {
 public:
  /// Collective among `ranks` (ascending, without repetition, with the
  /// caller); blocking. If a member fails, all get an error that names it.
  static std::shared_ptr<Group> create(Runtime& runtime, std::vector<int> ranks,
                                       const std::string& name, const CallLabel& label = {});

  /// As above for the process' runtime, after checking `ranks`.
  static std::shared_ptr<Group> create(std::vector<int> ranks, const CallLabel& label = {});
  static std::shared_ptr<Group> world();

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(ranks_.size()); }
  const std::vector<int>& ranks() const { return ranks_; }
  const std::string& name() const { return abort_state_->group_name(); }

  using Driver = Engine::Driver;

  /// Starts a collective. Its arrays must stay as they are (inputs) or untouched (outputs)
  /// until the request is done. `driver`: caller, if the request is waited for right away.
  /// Members whose labels differ are in different calls. UsageError before anything is sent.
  std::shared_ptr<Request> start(const Call& call, Driver driver = Driver::engine,
                                 const CallLabel& label = {});
  /// The same for a caller who waits right away, with a short path for short allreduces. Null if it
  /// is complete already.
  std::shared_ptr<Request> run(const Call& call, const CallLabel& label = {});
  /// Whether run() of an allreduce returns within microseconds.
  bool is_quick(std::size_t num_bytes) const;

  /// The elements of each member's part of an array of so many rows, as numpy.array_split cuts.
  std::vector<Range> parts_of(std::size_t num_rows, std::size_t row_elements) const;

  /// Gathers one text per rank, to agree on something before creating it
  /// together. `what` is created, for messages. Collective, blocking.
  std::vector<std::string> gather_texts(const std::string& own, const std::string& what);

  /// A stream of its own for an object that makes no allreduces, through slots of about this size.
  /// Collective, blocking.
  CallStream create_flat_stream(SegmentSet& segments, std::size_t slot_bytes);
  RowId add_row(const std::string& title) const;

  /// The next collective of a stream on this group.
  std::shared_ptr<Request> start(CallStream& stream, const Descriptor& descriptor,
                                 CallArrays arrays, Driver driver = Driver::engine,
                                 const CallLabel& label = {});

  /// The next creation of an object on this group, and what names its memory: the same on all
  /// members.
  std::pair<CreationId, std::string> next_object();

  /// The order of its sums.
  const SumTree& tree() const { return tree_; }
  Topology topology() const { return topology_; }
  const HostLayout& hosts() const { return hosts_; }

  /// The memory that members have made for each other's allreduces.
  const std::shared_ptr<SharedRegions>& regions() const { return regions_; }

  // For the objects that live on this group.
  Runtime& runtime() const { return runtime_; }
  Engine& engine() const { return runtime_.engine(); }
  const std::shared_ptr<AbortState>& abort_state() const { return abort_state_; }
  double timeout_s() const { return runtime_.environment().timeout_s; }
  double stall_report_s() const { return runtime_.environment().stall_report_s; }
  const std::shared_ptr<Monitor>& monitor() const { return runtime_.monitor(); }

  /// Use create(): this is public for std::make_shared only.
  Group(Runtime& runtime, std::vector<int> ranks);

 private:
  void join(const std::string& name, const CallLabel& label);
  void open(const std::string& name, const std::string& title, JoinWatch& watch);
  bool finish_quickly(QuickAllreduce& quick);
  std::shared_ptr<Request> continue_slowly(Engine::Hold hold, const QuickAllreduce& quick,
                                           const Call& call, const CallLabel& label);
  Descriptor describe(const Call& call, const CallLabel& label) const;
  [[noreturn]] void break_and_rethrow(const Descriptor& descriptor);
  std::uint32_t require_root(int root) const;
  OperationContext operation_context() const {
    return {abort_state_, tree_, runtime_.requested_algorithm(), regions_};
  }
  void warn_of_one_level() const;

  Runtime& runtime_;
  std::vector<int> ranks_;
  int rank_;  // among them
  CreationId id_;
  std::string key_;
  SumTree tree_;
  HostLayout hosts_;
  std::shared_ptr<AbortState> abort_state_;
  Topology topology_ = Topology::readable;
  CallStream stream_;
  std::shared_ptr<SharedRegions> regions_ = std::make_shared<SharedRegions>();
  std::atomic<std::uint64_t> num_objects_{0};
};

}  // namespace tnt::comm
