#pragma once

#include <sched.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "tnt/comm/base/waiting.hpp"
#include "tnt/comm/progress/operation.hpp"

namespace tnt::comm {

/// How long a thread looks for progress by itself before it sleeps.
struct PollSettings {
  /// Looks again and again. Zero when there are more ranks than cores: that
  /// would keep the others from working.
  std::chrono::microseconds spin_time{20};

  /// After that, looks after giving the core to whoever else can use it. Much cheaper than sleeping
  /// where ranks share a core, and next to nothing is taken from a thread that computes.
  std::chrono::microseconds yield_time{100};
};

/// One wait for progress: spin, then yield, then tell the caller to sleep.
class Backoff {
 public:
  explicit Backoff(const PollSettings& settings) : settings_(settings) {}

  /// To be called when a look has found nothing. False if it is time to sleep, and from then on.
  bool wait_a_moment() {
    if (is_over_) return false;
    if (!is_waiting_) {
      is_waiting_ = true;
      num_looks_ = 0;
      start_ = Clock::now();
    }
    // Reading the clock takes as long as some looks.
    const bool may_spin = settings_.spin_time.count() > 0;
    const bool is_spinning = may_spin && ++num_looks_ % kLooksPerClock != 0;
    const auto waited = is_spinning ? Clock::duration() : Clock::now() - start_;
    if (waited < settings_.spin_time) {
      pause_briefly();
      return true;
    }
    is_over_ = waited >= settings_.spin_time + settings_.yield_time;
    if (!is_over_) ::sched_yield();
    return !is_over_;
  }

  /// To be called when a look has found something: the wait begins anew.
  void renew() { is_waiting_ = is_over_ = false; }

 private:
  static constexpr int kLooksPerClock = 16;

  static void pause_briefly() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }

  PollSettings settings_;
  bool is_waiting_ = false;
  bool is_over_ = false;
  int num_looks_ = 0;
  Clock::time_point start_;
};

/// How an engine behaves; see Engine.
struct EngineSettings {
  PollSettings poll;
  /// Otherwise what peers do is looked for: at once at first, then in ever
  /// longer intervals, as long as something is in flight.
  bool is_doorbell_rung_by_peers = true;
  std::chrono::milliseconds supervision_interval{100};
  /// Called at least every `heartbeat_interval` while the engine runs.
  std::function<void()> heartbeat = [] {};
  std::chrono::milliseconds heartbeat_interval{250};
};

/// Advances all operations of one process.
///
/// One thread does the work. It polls for a moment after progress was made and then sleeps at the
/// doorbell, which peers and submitters ring. A caller who waits for a result helps first: as long
/// as there is progress he advances operations himself, which saves two thread switches on short
/// messages. With run() he does not even hand the operation to the engine, unless it takes longer
/// than it pays to look for peers.
///
/// All member functions may be called from any thread.
class Engine {
 public:
  Engine(Doorbell& doorbell, EngineSettings settings);
  ~Engine();

  /// Who is going to make progress with an operation.
  enum class Driver {
    engine,  ///< the thread, woken now
    caller,  ///< the caller, who waits for it right after this call
  };

  void submit(const std::shared_ptr<Stream>& stream, std::shared_ptr<Operation> operation,
              Driver driver = Driver::engine);

  /// Appends an operation that the caller is going to wait for. If nothing is before it, runs it
  /// right here as long as there is progress; so it may be complete, or have failed, on return.
  void run(const std::shared_ptr<Stream>& stream, const std::shared_ptr<Operation>& operation);

  struct Release {
    Engine* engine = nullptr;
    void operator()(Stream* stream) const { engine->release(*stream); }
  };
  /// As long as it lives, its owner alone may act on what a stream works on.
  /// The stream must live longer.
  using Hold = std::unique_ptr<Stream, Release>;

  /// Takes hold of a stream that has no operations. Of nothing if there are
  /// some, or if the engine has been stopped.
  Hold try_hold(Stream& stream);

  /// Ends the hold with an operation that goes before what others submitted
  /// meanwhile, and that the caller is going to wait for.
  void hand_over(Hold hold, std::shared_ptr<Operation> operation);

  const PollSettings& poll_settings() const { return settings_.poll; }

  /// Waits until the completion has reached the count, or until `end`; says
  /// which. Errors are left to the caller.
  bool wait(const Completion& completion, std::uint32_t count, Clock::time_point end);

  /// Runs a function while no operation is being advanced.
  template <typename Function>
  auto while_paused(Function&& function) {
    const std::lock_guard lock(progress_mutex_);
    return std::forward<Function>(function)();
  }

  /// What must be complete before this operation can begin: the first one of its stream, or the
  /// operation itself. While paused only.
  const Operation& first_before(const Operation& operation) const;

  /// Ends the thread and fails what is still in flight. Idempotent.
  void stop(const Error& reason);

 private:
  struct Submission {
    std::shared_ptr<Stream> stream;
    std::list<std::shared_ptr<Operation>> operation;  // one, which moves as it is
    bool is_first;                                    // of its stream
  };

  // Why it cannot be taken, if so.
  std::optional<Error> enqueue(Submission submission);
  bool advance_while_it_moves(Operation& operation);  // true if it is done
  void release(Stream& stream);
  void run();
  void sleep(std::uint32_t seen, Clock::time_point last_event);
  void sleep_among_work(std::uint32_t seen, Clock::time_point last_event);
  bool is_left_to_caller();
  bool help(const Completion& completion, std::uint32_t count, Clock::time_point end);
  bool advance_all();                   // true if something moved
  bool advance_stream(Stream& stream);  // likewise
  void supervise_all();
  void finish_head(Stream& stream, const Error* error);
  void take_submitted() noexcept;  // nobody could be told of a failure
  void drop_idle_streams() noexcept;

  Doorbell& doorbell_;
  EngineSettings settings_;

  std::mutex submit_mutex_;
  std::vector<Submission> submitted_;
  std::optional<Error> stopped_;  // set once by stop(), guarded by submit_mutex_

  std::mutex progress_mutex_;                   // held by whoever advances operations
  std::list<std::shared_ptr<Stream>> streams_;  // those that have operations
  Clock::time_point last_supervision_ = Clock::now();

  std::atomic<int> num_unfinished_{0};       // submitted and not completed
  std::atomic<bool> is_helped_{false};       // by a caller, who polls for progress
  std::atomic<std::uint32_t> num_helps_{0};  // that ended with what was waited for
  std::uint32_t num_helps_seen_ = 0;         // by the engine's thread
  std::atomic<bool> is_asleep_{false};       // the engine's thread
  std::atomic<bool> is_stopping_{false};
  std::mutex stop_mutex_;
  std::thread thread_;
};

}  // namespace tnt::comm
