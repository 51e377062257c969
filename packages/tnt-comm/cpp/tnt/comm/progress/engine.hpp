#pragma once

#include <sys/prctl.h>

#include <algorithm>
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

#include "tnt/comm/base/process.hpp"
#include "tnt/comm/progress/backoff.hpp"
#include "tnt/comm/progress/operation.hpp"

namespace tnt::comm {

/// How an engine behaves; see Engine.
struct EngineSettings {
  PollSettings poll;
  /// Otherwise what peers do is looked for: at once at first, then in ever
  /// longer intervals, as long as something is in flight.
  bool is_doorbell_rung_by_peers = true;
  std::chrono::milliseconds supervision_interval{100};
  /// Called by the engine's thread before each look, at least every `longest_sleep`.
  std::function<void()> on_look = [] {};
  std::chrono::milliseconds longest_sleep{250};
};

/// Rings the doorbell of an engine as long as there is one: for those who do not know when it ends,
/// such as the driver of a GPU. Thread-safe.
class EngineBell {
 public:
  explicit EngineBell(Doorbell& doorbell) : doorbell_(&doorbell) {}

  void ring() {
    const std::lock_guard lock(mutex_);
    if (doorbell_ != nullptr) doorbell_->ring();
  }
  void end() {
    const std::lock_guard lock(mutex_);
    doorbell_ = nullptr;
  }

 private:
  std::mutex mutex_;
  Doorbell* doorbell_;
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
  Engine(Doorbell& doorbell, EngineSettings settings)
      : doorbell_(doorbell), settings_(std::move(settings)) {
    thread_ = start_without_signals("tnt-comm-engine", [this] { run(); });
  }

  ~Engine() { stop(Error(ErrorKind::comm, "The progress engine has been stopped.")); }

  /// Who is going to make progress with an operation.
  enum class Driver {
    engine,  ///< the thread, woken now
    caller,  ///< the caller, who waits for it right after this call
  };

  void submit(const std::shared_ptr<Stream>& stream, std::shared_ptr<Operation> operation,
              Driver driver = Driver::engine) {
    if (const auto stopped = enqueue({stream, {std::move(operation)}, false})) stopped->raise();
    if (driver == Driver::engine && !is_helped_.load()) doorbell_.ring();
  }

  /// Appends an operation that the caller is going to wait for. If nothing is before it, runs it
  /// right here as long as there is progress; so it may be complete, or have failed, on return.
  void run(const std::shared_ptr<Stream>& stream, const std::shared_ptr<Operation>& operation) {
    Hold hold = try_hold(*stream);
    if (!hold) return submit(stream, operation, Driver::caller);
    bool is_done = false;
    try {
      is_done = advance_while_it_moves(*operation);
      if (is_done) operation->complete();
    } catch (...) {
      return operation->fail(Error::current());
    }
    if (!is_done) hand_over(std::move(hold), operation);
  }

  struct Release {
    Engine* engine = nullptr;
    void operator()(Stream* stream) const { engine->release(*stream); }
  };
  /// While it lives, its owner alone may act on what a stream works on. The stream lives longer.
  using Hold = std::unique_ptr<Stream, Release>;

  /// Takes hold of a stream that has no operations. Of nothing if there are
  /// some, or if the engine has been stopped.
  Hold try_hold(Stream& stream) {
    std::uint32_t nothing = 0;
    if (is_stopping_.load(std::memory_order_acquire)) return {};
    const bool is_held = stream.state_.compare_exchange_strong(
        nothing, Stream::kHeld, std::memory_order_acquire, std::memory_order_relaxed);
    return is_held ? Hold(&stream, Release{this}) : Hold();
  }

  /// Ends the hold with an operation that goes before what others submitted
  /// meanwhile, and that the caller is going to wait for.
  void hand_over(Hold hold, std::shared_ptr<Operation> operation) {
    if (const auto stopped = enqueue({hold->shared_from_this(), {operation}, true})) {
      return operation->fail(*stopped);
    }
    // It is held until it is the first one, before what waits already.
    static_cast<void>(hold.release());
  }

  /// Wakes the thread, from whichever thread and whenever.
  const std::shared_ptr<EngineBell>& bell() const { return bell_; }

  const PollSettings& poll_settings() const { return settings_.poll; }

  /// Waits until the completion has reached the count, or until `end`; says
  /// which. Errors are left to the caller.
  bool wait(const Completion& completion, std::uint32_t count, Clock::time_point end) {
    if (completion.has_reached(count)) return true;
    if (help(completion, count, end)) return true;
    return completion.wait_until(count, end);
  }

  /// Runs a function while no operation is being advanced.
  template <typename Function>
  auto while_paused(Function&& function) {
    const std::lock_guard lock(progress_mutex_);
    const Turn turn;
    return std::forward<Function>(function)();
  }

  /// Whether this thread has paused an engine, which it must not hold up.
  static bool has_turn() { return has_turn_; }

  /// What must be complete before this operation can begin: the first one of its stream, or the
  /// operation itself. While paused only.
  const Operation& first_before(const Operation& operation) const {
    for (const auto& stream : streams_) {
      for (const auto& queued : stream->operations_) {
        if (queued.get() == &operation) return *stream->operations_.front();
      }
    }
    return operation;
  }

  /// Ends the thread and fails what is still in flight. Idempotent.
  void stop(const Error& reason) {
    const std::lock_guard only_one(stop_mutex_);
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(submit_mutex_);
      stopped_ = reason;
    }
    is_stopping_.store(true);
    bell_->end();
    doorbell_.ring();
    thread_.join();
    const std::lock_guard lock(progress_mutex_);
    take_submitted();
    for (const auto& stream : streams_) {
      while (!stream->operations_.empty()) finish_head(*stream, &reason);
    }
    streams_.clear();
  }

 private:
  // How long to sleep between two looks for what peers did, who cannot wake this
  // rank. Half of the time that was waited so far makes waits longer by a half at
  // most, by a quarter on average. A look and its sleep cost some 10 us of a core
  // that has gradients to compute; who only waits looks more often (see help()).
  static Clock::duration look_interval(Clock::duration waited) {
    constexpr Clock::duration kShortest = std::chrono::microseconds(100);
    constexpr Clock::duration kLongest = std::chrono::milliseconds(1);
    return std::clamp(waited / 2, kShortest, kLongest);
  }

  // How soon the engine takes over from a caller who has what he waited for. Most come back at once
  // to wait for the next result, and two threads that do the same work take each other's core.
  static constexpr Clock::duration kHandover = std::chrono::microseconds(200);

  // Who moves will mostly move again; a look at all the others, who may be many,
  // takes time in which it could. Not for long: they may be waited for as well.
  static constexpr int kAdvancesPerLook = 16;

  // As long as a thread has paused an engine.
  struct Turn {
    Turn() { has_turn_ = true; }
    ~Turn() { has_turn_ = false; }
    Turn(Turn&&) = delete;
  };
  static inline thread_local bool has_turn_ = false;

  struct Submission {
    std::shared_ptr<Stream> stream;
    std::list<std::shared_ptr<Operation>> operation;  // one, which moves as it is
    bool is_first;                                    // of its stream
  };

  // Why it cannot be taken, if so.
  std::optional<Error> enqueue(Submission submission) {
    Stream& stream = *submission.stream;
    const std::lock_guard lock(submit_mutex_);
    if (stopped_) return stopped_;
    // First what may throw: what is counted must come.
    submitted_.push_back(std::move(submission));
    num_unfinished_.fetch_add(1);
    stream.state_.fetch_add(1);
    return {};
  }

  // True if it is done.
  bool advance_while_it_moves(Operation& operation) {
    Backoff backoff(settings_.poll);
    for (Progress progress = operation.advance(); progress != Progress::done;
         progress = operation.advance()) {
      if (progress == Progress::advanced) {
        backoff.renew();
      } else if (!backoff.wait_a_moment()) {
        return false;
      }
    }
    return true;
  }

  void release(Stream& stream) {
    const std::uint32_t before = stream.state_.fetch_and(~Stream::kHeld);
    if (before != Stream::kHeld) doorbell_.ring();  // somebody has submitted meanwhile
  }

  void run() {
    // The kernel lengthens short sleeps by 50 us otherwise.
    if (!settings_.is_doorbell_rung_by_peers) ::prctl(PR_SET_TIMERSLACK, 1000UL);
    Clock::time_point last_event = Clock::now();  // progress, or a ring
    std::uint32_t num_rings = doorbell_.num_rings.load();
    // Callers who wait yield; this thread mostly has others to yield to who do not know that they
    // are waited for. Messages that nobody announces take longer than it pays to spin for.
    constexpr std::chrono::microseconds kNone{0};
    Backoff backoff(
        {settings_.is_doorbell_rung_by_peers ? settings_.poll.spin_time : kNone, kNone});
    while (!is_stopping_.load()) {
      const std::uint32_t seen = doorbell_.num_rings.load();
      settings_.on_look();
      if (is_left_to_caller()) {
        doorbell_.wait(seen, kHandover);
        continue;
      }
      const bool has_moved = while_paused([this] {
        const bool has_advanced = advance_all();
        supervise_all();
        return has_advanced;
      });
      const bool is_event = has_moved || seen != num_rings;
      num_rings = seen;
      if (is_event) {
        last_event = Clock::now();
        backoff.renew();
      }
      if (has_moved) continue;
      // Who wakes without an event has looked, and sleeps on.
      if (num_unfinished_.load() == 0 || !backoff.wait_a_moment()) sleep(seen, last_event);
    }
  }

  void sleep(std::uint32_t seen, Clock::time_point last_event) {
    is_asleep_.store(true);  // before it looks whether there is work; see help()
    if (num_unfinished_.load() == 0) {
      doorbell_.wait(seen, settings_.longest_sleep);
    } else {
      sleep_among_work(seen, last_event);
    }
    is_asleep_.store(false);
  }

  void sleep_among_work(std::uint32_t seen, Clock::time_point last_event) {
    const Clock::duration longest =
        settings_.is_doorbell_rung_by_peers
            ? std::min(settings_.supervision_interval, settings_.longest_sleep)
            : look_interval(Clock::now() - last_event);
    doorbell_.begin_listening();
    // What peers did before they could see that somebody listens.
    if (!while_paused([this] { return advance_all(); })) doorbell_.wait(seen, longest);
    doorbell_.end_listening();
  }

  // Whether a caller advances operations, or did a moment ago; and nobody needs supervision.
  bool is_left_to_caller() {
    const std::uint32_t num_helps = num_helps_.load();
    if (!is_helped_.load() && num_helps == num_helps_seen_) return false;
    if (Clock::now() - last_supervision_ >= settings_.supervision_interval) return false;
    num_helps_seen_ = num_helps;
    return true;
  }

  bool help(const Completion& completion, std::uint32_t count, Clock::time_point end) {
    if (is_helped_.exchange(true)) return false;
    doorbell_.begin_polling();
    Backoff backoff(settings_.poll);
    bool is_complete = false;
    while (true) {
      const bool has_moved = while_paused([this] { return advance_all(); });
      is_complete = completion.has_reached(count);
      if (is_complete) break;
      if (has_moved) backoff.renew();
      if (!has_moved && !backoff.wait_a_moment()) break;
      if (has_moved && Clock::now() > end) break;
    }
    doorbell_.end_polling();
    if (is_complete) num_helps_.fetch_add(1);
    is_helped_.store(false);
    // What is left is for the engine: now, or soon if it is awake and looks by itself. Nobody else
    // wakes it: who submits does not ring while somebody polls, nor do peers.
    const bool is_left_now = !is_complete || is_asleep_.load();
    if (is_left_now && num_unfinished_.load() > 0) doorbell_.ring();
    return is_complete;
  }

  // True if something moved; likewise of one stream.
  bool advance_all() {
    take_submitted();
    bool has_moved = false;
    for (const auto& stream : streams_) {
      for (int i = 0; i < kAdvancesPerLook && advance_stream(*stream); ++i) has_moved = true;
    }
    drop_idle_streams();
    return has_moved;
  }

  bool advance_stream(Stream& stream) {
    if (!stream.has_turn()) return false;
    try {
      const Progress progress = stream.operations_.front()->advance();
      if (progress == Progress::done) finish_head(stream, nullptr);
      return progress != Progress::pending;
    } catch (...) {
      const Error error = Error::current();
      finish_head(stream, &error);
      return true;
    }
  }

  void supervise_all() {
    const Clock::time_point now = Clock::now();
    if (now - last_supervision_ < settings_.supervision_interval) return;
    last_supervision_ = now;
    for (const auto& stream : streams_) {
      if (!stream->has_turn()) continue;
      try {
        const Progress progress = stream->operations_.front()->supervise();
        if (progress == Progress::done) finish_head(*stream, nullptr);
      } catch (...) {
        const Error error = Error::current();
        finish_head(*stream, &error);
      }
    }
  }

  // Without an error, it is done.
  void finish_head(Stream& stream, const Error* error) {
    const std::shared_ptr<Operation> head = std::move(stream.operations_.front());
    stream.operations_.pop_front();
    num_unfinished_.fetch_sub(1);
    stream.state_.fetch_sub(1, std::memory_order_release);
    if (error != nullptr) {
      head->fail(*error);
    } else {
      head->complete();
    }
  }

  // Must not fail: nobody could be told.
  void take_submitted() noexcept {
    const std::lock_guard lock(submit_mutex_);
    for (auto& [owner, operation, is_first] : submitted_) {
      Stream& stream = *owner;
      auto& operations = stream.operations_;
      operations.splice(is_first ? operations.begin() : operations.end(), operation);
      if (is_first) stream.state_.fetch_and(~Stream::kHeld);
      if (stream.entry_.empty()) continue;
      stream.entry_.front() = std::move(owner);
      streams_.splice(streams_.end(), stream.entry_);
    }
    submitted_.clear();
  }

  void drop_idle_streams() noexcept {
    for (auto next = streams_.begin(); next != streams_.end();) {
      const auto here = next++;
      if (!(*here)->operations_.empty()) continue;
      const std::shared_ptr<Stream> stream = std::move(*here);
      stream->entry_.splice(stream->entry_.begin(), streams_, here);
    }
  }

  Doorbell& doorbell_;
  std::shared_ptr<EngineBell> bell_ = std::make_shared<EngineBell>(doorbell_);
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
