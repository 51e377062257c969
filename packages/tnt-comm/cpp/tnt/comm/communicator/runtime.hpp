#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tnt/comm/base/environment.hpp"
#include "tnt/comm/base/recycled_memory.hpp"
#include "tnt/comm/collective/descriptor.hpp"
#include "tnt/comm/collective/rendezvous.hpp"
#include "tnt/comm/communicator/wait.hpp"
#include "tnt/comm/progress/engine.hpp"
#include "tnt/comm/trace/monitor.hpp"
#include "tnt/comm/trace/timeline.hpp"
#include "tnt/comm/transport/transport.hpp"

namespace tnt::comm {

class Group;

/// What this rank knows of how the job stands.
struct OtherRanks {
  bool is_one_running = false;
  bool has_one_ended = false;
  bool has_one_failed = false;  ///< or this one
};

/// Compares this rank's clock with that of the first member. Collective, blocking; some messages.
///
/// In each of several rounds all members exchange the time at which they began
/// the round, and note when they had everything. A message cannot arrive before
/// it was sent, on whichever clock: with the offset d,
///
///     first.begin <= end + d     and     begin + d <= first.end,
///
/// which bounds d from both sides. The result is the middle of the tightest bounds of all rounds.
ClockOffset measure_clock_offset(Group& group, const std::function<std::int64_t()>& now_ns);

/// What one rank has once: environment, transport, engine, and the group of all ranks. Tests make
/// several in one process; programs use the shared one through the functions below.
class TNT_COMM_EXPORT Runtime {
 public:
  /// Collective among all ranks of the job, blocking.
  explicit Runtime(const Environment& environment);
  /// The same over a given transport, which has joined the ranks.
  Runtime(const Environment& environment, std::unique_ptr<Transport> transport);
  ~Runtime();

  const Environment& environment() const { return environment_; }
  Transport& transport() { return *transport_; }
  Engine& engine() { return *engine_; }
  Stalls& stalls() { return stalls_; }
  const std::shared_ptr<Group>& world() const { return world_; }
  AllreduceAlgorithm requested_algorithm() const { return requested_algorithm_; }
  const std::shared_ptr<Monitor>& monitor() const { return monitor_; }

  /// Makes a group's failure known at the end; see finish().
  void watch(const std::shared_ptr<Group>& group);

  /// The next creation of a group of these ranks: the same on all of them, if they
  /// create their groups in the same order.
  CreationId next_creation_of(const std::vector<int>& ranks);

  /// What this rank could not create. The first is made known at the end; see finish().
  void note_failed_creation(const std::string& reason);

  /// Tells the other ranks at once that the program of this one has failed: its process may take
  /// seconds to end. Local.
  void fail(const std::string& reason);

  /// By which other rank a group of this one was broken first; Error::kNoRank if by none.
  int cause_rank();

  /// Called by finish() before the others are told, unless a group is broken or the owner is gone;
  /// in any order.
  void before_leaving(std::weak_ptr<void> owner, std::function<void()> function);

  /// Tells the other ranks that this one will not call any more (and why, if a group is broken or a
  /// creation has failed), and ends the engine. Local, idempotent, never hangs.
  void finish();

  // The timeline is written by Python, which takes it and looks at the others; if nobody does, the
  // records of this rank are left beside it. These also answer after finish().
  void take_timeline() { is_timeline_taken_ = true; }
  std::string timeline_records() const;  ///< "" if there is none
  void warn_of_timeline(const std::string& problem) const;
  const ClockOffset& clock_offset() const { return clock_offset_; }
  OtherRanks look_at_others() const;

 private:
  void create_world();
  void leave_records() const;

  Environment environment_;
  AllreduceAlgorithm requested_algorithm_;
  std::unique_ptr<Transport> transport_;
  std::shared_ptr<Monitor> monitor_;
  std::optional<RecycledMemory::Keeper> memory_keeper_{std::in_place};  // until finish()
  std::unique_ptr<Engine> engine_;
  Stalls stalls_;
  std::mutex mutex_;
  std::vector<std::weak_ptr<Group>> groups_;
  struct OwnedFunction {
    std::weak_ptr<void> owner;
    std::function<void()> function;
  };
  std::vector<OwnedFunction> before_leaving_;
  std::map<std::vector<int>, std::uint64_t> num_creations_;  // by ranks
  std::shared_ptr<Group> world_;
  std::optional<Error> first_error() const;  // of a group; while locked

  std::string failed_creation_;
  bool is_finished_ = false;
  std::atomic<bool> has_failed_{false};
  std::atomic<bool> is_timeline_taken_{false};
  ClockOffset clock_offset_;
};

/// The process' own runtime, made on first use. UsageError after finalize() and in forked children.
TNT_COMM_EXPORT Runtime& runtime();

TNT_COMM_EXPORT bool is_initialized();

/// Ends the process' runtime, if there is one. Also runs at exit.
TNT_COMM_EXPORT void finalize();

/// As of the process' runtime; nothing, and kNoRank, if there is none.
TNT_COMM_EXPORT void fail(const std::string& reason);
TNT_COMM_EXPORT int cause_rank();

/// The process' runtime, also after finalize(); null before it is made, and in forked children.
TNT_COMM_EXPORT Runtime* process_runtime();

/// The timeline of the process' runtime; null if it has none, or is not made.
TNT_COMM_EXPORT Timeline* process_timeline();

/// What the process' runtime has counted; makes it if needed.
TNT_COMM_EXPORT Counters counters();

/// Rank, size and so on of this process, read from its environment the first
/// time. Does not join the job, so it also answers after finalize().
TNT_COMM_EXPORT const Environment& world_environment();

/// Tells where the libraries of UCX' wheel are, which only Python knows. Before the job is joined.
TNT_COMM_EXPORT void use_ucx_wheel(const std::string& folder);

}  // namespace tnt::comm
