#include "tnt/comm/engine/engine.hpp"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <csignal>

#include "tnt/comm/base/error.hpp"

namespace tnt::comm {
namespace {

using std::chrono::milliseconds;

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Signals belong to the program's own threads (Python handles them in its
// main thread), so the engine's thread starts with all of them blocked.
std::thread start_without_signals(std::function<void()> body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(body));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace

Engine::Engine(Doorbell& doorbell, EngineSettings settings)
    : doorbell_(doorbell), settings_(std::move(settings)) {
  thread_ = start_without_signals([this] { run(); });
  pthread_setname_np(thread_.native_handle(), "tnt-comm-engine");
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
  Clock::time_point last_progress = Clock::now();
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
    const bool may_poll = num_unfinished_.load() > 0 && now - last_progress < settings_.poll_time;
    if (may_poll) {
      pause_briefly();
    } else if (!has_moved) {
      sleep(seen);
    }
  }
}

void Engine::sleep(std::uint32_t seen) {
  const bool is_busy = num_unfinished_.load() > 0;
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
