#include "tnt/comm/engine/engine.hpp"

#include <sys/prctl.h>

#include <algorithm>

#include "tnt/comm/base/error.hpp"
#include "tnt/comm/base/thread.hpp"

namespace tnt::comm {
namespace {

using std::chrono::milliseconds;

// How long to sleep between two looks for what peers did, who cannot wake this
// rank. An eighth of the time that was waited so far makes waits longer by an
// eighth at most; a thousand looks per second cost a percent of a core.
Clock::duration look_interval(Clock::duration waited) {
  constexpr Clock::duration kShortest = std::chrono::microseconds(20);
  constexpr Clock::duration kLongest = milliseconds(1);
  return std::clamp(waited / 8, kShortest, kLongest);
}

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

Engine::Engine(Doorbell& doorbell, EngineSettings settings)
    : doorbell_(doorbell), settings_(std::move(settings)) {
  thread_ = start_without_signals("tnt-comm-engine", [this] { run(); });
}

Engine::~Engine() {
  stop(std::make_exception_ptr(Error(ErrorKind::comm, "The progress engine has been stopped.")));
}

void Engine::submit(const std::shared_ptr<Stream>& stream, std::shared_ptr<Operation> operation,
                    Driver driver) {
  {
    const std::lock_guard lock(submit_mutex_);
    if (stopped_) std::rethrow_exception(stopped_);
    num_unfinished_.fetch_add(1);
    submitted_.emplace_back(stream, std::move(operation));
  }
  if (driver == Driver::engine) doorbell_.ring();
}

bool Engine::wait(const Completion& completion, std::uint32_t count, Clock::time_point end) {
  if (completion.has_reached(count)) return true;
  if (help(completion, count, end)) return true;
  return completion.wait_until(count, end);
}

bool Engine::help(const Completion& completion, std::uint32_t count, Clock::time_point end) {
  doorbell_.begin_polling();
  Clock::time_point now = Clock::now();
  Clock::time_point last_progress = now;
  bool is_complete = false;
  while (true) {
    std::unique_lock lock(progress_mutex_, std::try_to_lock);
    const bool has_moved = lock.owns_lock() && advance_all();
    if (lock.owns_lock()) lock.unlock();
    is_complete = completion.has_reached(count);
    if (is_complete) break;
    now = Clock::now();
    if (has_moved) last_progress = now;
    if (now - last_progress > settings_.poll_time || now > end) break;
    pause_briefly();
  }
  doorbell_.end_polling();
  if (num_unfinished_.load() > 0) doorbell_.ring();  // the engine takes over
  return is_complete;
}

void Engine::run() {
  // The kernel lengthens short sleeps by 50 us otherwise.
  if (!settings_.is_doorbell_rung_by_peers) ::prctl(PR_SET_TIMERSLACK, 1000UL);
  Clock::time_point last_progress = Clock::now();
  Clock::time_point last_ring = last_progress;
  std::uint32_t num_rings = doorbell_.num_rings();
  while (!is_stopping_.load()) {
    const std::uint32_t seen = doorbell_.num_rings();
    settings_.heartbeat();
    bool has_moved = false;
    {
      const std::lock_guard lock(progress_mutex_);
      has_moved = advance_all();
      supervise_all();
    }
    const Clock::time_point now = Clock::now();
    if (has_moved) last_progress = now;
    if (seen != num_rings) last_ring = now;
    num_rings = seen;
    const bool may_poll = num_unfinished_.load() > 0 && now - last_progress < settings_.poll_time;
    if (may_poll) {
      pause_briefly();
    } else if (!has_moved) {
      sleep(seen, now - std::max(last_progress, last_ring));
    }
  }
}

void Engine::sleep(std::uint32_t seen, Clock::duration waited) {
  const bool is_busy = num_unfinished_.load() > 0;
  if (is_busy && !settings_.is_doorbell_rung_by_peers) {
    doorbell_.wait(seen, look_interval(waited));
    return;
  }
  const milliseconds longest =
      is_busy ? std::min(settings_.supervision_interval, settings_.heartbeat_interval)
              : settings_.heartbeat_interval;
  doorbell_.wait(seen, longest);
}

bool Engine::advance_all() {
  take_submitted();
  bool has_moved = false;
  for (const auto& stream : streams_) has_moved |= advance_stream(*stream);
  std::erase_if(streams_, [](const auto& stream) {
    if (stream->operations_.empty()) stream->is_listed_ = false;
    return stream->operations_.empty();
  });
  return has_moved;
}

bool Engine::advance_stream(Stream& stream) {
  if (stream.operations_.empty()) return false;
  try {
    const Progress progress = stream.operations_.front()->advance();
    if (progress == Progress::done) finish_head(stream, nullptr);
    return progress != Progress::pending;
  } catch (...) {
    finish_head(stream, std::current_exception());
    return true;
  }
}

void Engine::supervise_all() {
  const Clock::time_point now = Clock::now();
  if (now - last_supervision_ < settings_.supervision_interval) return;
  last_supervision_ = now;
  for (const auto& stream : streams_) {
    try {
      if (!stream->operations_.empty()) stream->operations_.front()->supervise();
    } catch (...) {
      finish_head(*stream, std::current_exception());
    }
  }
}

void Engine::finish_head(Stream& stream, std::exception_ptr error) {
  const std::shared_ptr<Operation> head = std::move(stream.operations_.front());
  stream.operations_.pop_front();
  num_unfinished_.fetch_sub(1);
  if (error) {
    head->fail(std::move(error));
  } else {
    head->complete();
  }
}

void Engine::take_submitted() {
  const std::lock_guard lock(submit_mutex_);
  for (auto& [stream, operation] : submitted_) {
    stream->operations_.push_back(std::move(operation));
    if (!stream->is_listed_) {
      stream->is_listed_ = true;
      streams_.push_back(std::move(stream));
    }
  }
  submitted_.clear();
}

void Engine::stop(std::exception_ptr reason) {
  const std::lock_guard only_one(stop_mutex_);
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(submit_mutex_);
    stopped_ = reason;
  }
  is_stopping_.store(true);
  doorbell_.ring();
  thread_.join();
  const std::lock_guard lock(progress_mutex_);
  take_submitted();
  for (const auto& stream : streams_) {
    while (!stream->operations_.empty()) finish_head(*stream, reason);
  }
  streams_.clear();
}

}  // namespace tnt::comm
