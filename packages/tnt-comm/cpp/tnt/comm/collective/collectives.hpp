#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tnt/comm/base/array.hpp"
#include "tnt/comm/base/recycled_memory.hpp"
#include "tnt/comm/base/waiting.hpp"
#include "tnt/comm/collective/abort_state.hpp"
#include "tnt/comm/collective/descriptor.hpp"
#include "tnt/comm/progress/operation.hpp"
#include "tnt/comm/trace/monitor.hpp"

namespace tnt::comm {

/// What all operations of a group share: errors break the group, waits are
/// watched, and ended when the awaited rank is gone.
class CollectiveOperation : public Operation {
 public:
  explicit CollectiveOperation(std::shared_ptr<AbortState> abort_state)
      : abort_state_(std::move(abort_state)) {}

  Progress advance() final;
  Progress supervise() final;
  void complete() override {
    probe_.end(true);
    completion_.complete();
  }
  void fail(const Error& error) override {
    release_arrays();
    probe_.end(false);
    completion_.fail(error);
  }

  const Completion& completion() const { return completion_; }

  /// Nothing touches the caller's arrays any more, neither advance(), which the group is too
  /// broken for, nor messages that are still to come. While the engine is paused only.
  virtual void release_arrays() {}

  /// Whose operation it is if not the group's own, such as "Gatherer 'rows'".
  /// Before it is submitted.
  void belong_to(std::string owner) { owner_ = std::move(owner); }

  /// What the caller says about the call, for messages (see CallLabel).
  CallNote& note() { return note_; }

  Probe& probe() { return probe_; }

  /// When its turn came, or it did something the last time; long ago before that. While the engine
  /// is paused only, as the next two.
  Clock::time_point last_progress() const { return last_progress_; }

  /// World ranks whose next act is waited for: this one, if it is its own.
  std::vector<int> awaited_ranks() const;

  /// Reports a long wait: who is waited for, and for what.
  void report_wait(double waited_s) const;

  /// Breaks the group because a wait for this operation took too long, and
  /// fails it. While the engine is paused only.
  void expire(double timeout_s);

  /// Breaks the group because the caller will not wait any longer.
  void abandon();

  /// Breaks the group by this error, and fails the operation. While the engine is
  /// paused only, as the next two.
  void break_group(const Error& error);

  /// Members that it waits for now, as reports of long waits name them. Where messages are passed
  /// on, this is who holds up the others, and not only who this rank hears from.
  virtual std::vector<int> awaited_members() const { return missing(); }

  std::string title() const;

 protected:
  virtual Progress do_advance() = 0;

  /// For messages: "call 3, allreduce(float32, 100 elements, sum),".
  virtual std::string describe() const = 0;
  std::string describe_call(const Descriptor& descriptor) const {
    return text("call ", descriptor.call_index, ", ", descriptor.describe(), note_.text(), ",");
  }

  /// Members whose next act this operation waits for; empty if it is this rank's own.
  virtual std::vector<int> missing() const = 0;

  /// awaited_members(), where messages are passed on from rank to rank, given what is known of who
  /// has made the call: the members that have not if there are any, else those that do not respond,
  /// else the ones that this rank waits for itself.
  std::vector<int> members_holding_up() const;

  /// Whether an awaited member is known to have made the call itself.
  virtual bool has_made_call(int /*member*/) const { return false; }

  /// What this operation knows better than the error by which it would end.
  virtual Error explained(const Error& error) const;

  /// What is missing if it is this rank's own act.
  virtual std::string own_part() const { return "this rank itself"; }
  static constexpr std::string_view kAwaitsRoom =
      "this rank itself: its messages wait for room in the queues of the network";

  const std::shared_ptr<AbortState>& abort_state() const { return abort_state_; }
  const CallNote& note() const { return note_; }

 private:
  /// A member that is waited for, as it is at one moment: all that a message says
  /// of it must fit together, though it runs on.
  struct AwaitedMember {
    int world_rank;
    PeerStatus status;
    bool has_made_call;
  };

  Error error_of(ErrorKind kind, const std::string& what, int cause_rank = Error::kNoRank) const;
  std::vector<AwaitedMember> observe_awaited() const;
  std::string in_words(const std::vector<AwaitedMember>& members) const;
  void require_alive() const;

  std::shared_ptr<AbortState> abort_state_;
  std::string owner_;
  CallNote note_;
  Clock::time_point last_progress_;
  Completion completion_;
  Probe probe_;
};

class QuickAllreduce;
class SharedRegions;

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

struct MemoryNeeds {
  std::size_t num_bytes = 0;
  std::size_t num_notifications = 0;
};

struct StreamMemory {
  std::shared_ptr<Segment> segment = {};                      ///< of all members
  std::shared_ptr<Segment> on_host = {}, between_hosts = {};  ///< with two levels
  std::size_t slot_bytes = 0;  ///< about so long are the slots through which large messages go
  std::size_t offset = 0;      ///< in `segment`; the other two are used from their begin
  NotificationId notification = 0;
};

struct OperationContext {
  std::shared_ptr<AbortState> abort_state;
  AllreduceAlgorithm requested = AllreduceAlgorithm::automatic;
  std::shared_ptr<const SharedRegions> regions = {};
};

}  // namespace tnt::comm
