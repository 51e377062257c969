#include "tnt/comm/communicator/runtime.hpp"

// The one runtime of a process: made lazily, ended at exit, refused in forked
// children. It is never destroyed: threads of the program (TensorFlow's, say)
// may still be inside a call when the process ends.

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <thread>

#include "tnt/comm/base/process.hpp"
#include "tnt/comm/communicator/group.hpp"
#include "tnt/comm/transport/hierarchical/join.hpp"
#include "tnt/comm/transport/rma/ucx/ucx_library.hpp"

namespace tnt::comm {
namespace {

// Memory of results that nobody has used for so long is returned to the kernel.
constexpr auto kMemoryIsKept = std::chrono::seconds(10);
constexpr auto kMemoryLookInterval = std::chrono::seconds(1);

constexpr std::size_t kTimelineMiB = EventBuffer::kCapacity * sizeof(Event) >> 20;

std::shared_ptr<Monitor> make_monitor(const Environment& environment, Transport& transport) {
  auto monitor = std::make_shared<Monitor>();
  if (environment.timeline.empty()) return monitor;
  try {
    monitor->timeline = std::make_unique<Timeline>(environment.rank);
  } catch (const std::bad_alloc&) {
    const Error error(ErrorKind::comm, "rank ", environment.rank, ": no memory for the ",
                      kTimelineMiB, " MiB of its timeline. ",
                      advice_for_limit(RLIMIT_AS, "address space (ulimit -v)"),
                      ". Or unset TNT_TIMELINE.");
    transport.leave(PeerState::failed, error.what());
    throw error;
  }
  return monitor;
}

EngineSettings engine_settings(const Environment& environment, Transport& transport,
                               RecycledMemory::Keeper& memory_keeper) {
  EngineSettings settings;
  const auto num_cores = static_cast<int>(std::thread::hardware_concurrency());
  if (environment.local_size > num_cores) settings.poll.spin_time = std::chrono::microseconds(0);
  settings.is_doorbell_rung_by_peers = transport.capabilities().is_doorbell_rung_by_peers;
  settings.on_look = [&transport, &memory_keeper, next_look = Clock::now()]() mutable {
    transport.beat();
    const Clock::time_point now = Clock::now();
    if (now < next_look) return;
    next_look = now + kMemoryLookInterval;
    memory_keeper.release_unused(kMemoryIsKept);
  };
  return settings;
}

constexpr int kNumRounds = 16;

std::int64_t of_first_member(Group& group, std::int64_t own) {
  const std::string digits = group.gather_texts(text(own), "a common time").front();
  std::int64_t number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

std::atomic<Runtime*> instance{nullptr};
std::atomic<bool> was_finalized{false};
std::mutex creation_mutex;

Runtime& create() {
  const std::lock_guard lock(creation_mutex);
  if (Runtime* existing = instance.load()) return *existing;
  watch_forks();
  auto* created = new Runtime(world_environment());
  std::atexit(finalize);
  instance.store(created);
  return *created;
}

}  // namespace

ClockOffset measure_clock_offset(Group& group, const std::function<std::int64_t()>& now_ns) {
  std::int64_t least = std::numeric_limits<std::int64_t>::min();
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
  for (int round = 0; round < kNumRounds; ++round) {
    const std::int64_t begin = now_ns();
    const std::int64_t first_begin = of_first_member(group, begin);
    const std::int64_t end = now_ns();
    const std::int64_t first_end = of_first_member(group, end);
    least = std::max(least, first_begin - end);
    most = std::min(most, first_end - begin);
  }
  if (group.rank() == 0) return {};
  return {least + (most - least) / 2, (most - least + 1) / 2};
}

Runtime::Runtime(const Environment& environment) : Runtime(environment, join_job(environment)) {}

Runtime::Runtime(const Environment& environment, std::unique_ptr<Transport> transport)
    : environment_(environment),
      requested_algorithm_(parse_allreduce_algorithm(environment.allreduce_algorithm)),
      transport_(std::move(transport)),
      monitor_(make_monitor(environment, *transport_)),
      engine_(std::make_unique<Engine>(
          transport_->doorbell(), engine_settings(environment, *transport_, *memory_keeper_))) {
  set_log_level(environment.log_level);
  create_world();
  if (monitor_->timeline && environment.num_nodes > 1) {
    clock_offset_ = measure_clock_offset(*world_, now_ns);
  }
}

// Without it there is no job, and nothing in which the others could be told apart.
void Runtime::create_world() {
  try {
    auto all = ranks_where(environment_.size, [](int) { return true; });
    world_ = Group::create(*this, std::move(all), "world");
  } catch (...) {
    transport_->leave(PeerState::failed, Error::current().what());
    throw;
  }
}

Runtime::~Runtime() {
  finish();
}

void Runtime::watch(const std::shared_ptr<Group>& group) {
  const std::lock_guard lock(mutex_);
  std::erase_if(groups_, [](const auto& other) { return other.expired(); });
  groups_.push_back(group);
}

CreationId Runtime::next_creation_of(const std::vector<int>& ranks) {
  const std::string_view bytes(reinterpret_cast<const char*>(ranks.data()),
                               ranks.size() * sizeof(int));
  const std::lock_guard lock(mutex_);
  return {.members = fingerprint_of(bytes), .use = num_creations_[ranks]++};
}

void Runtime::note_failed_creation(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (failed_creation_.empty()) failed_creation_ = reason;
}

void Runtime::fail(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  has_failed_ = true;
  transport_->leave(PeerState::failed, reason);
}

int Runtime::cause_rank() {
  const std::lock_guard lock(mutex_);
  const auto error = first_error();
  return error ? error->cause_rank() : Error::kNoRank;
}

std::optional<Error> Runtime::first_error() const {
  for (const auto& weak : groups_) {
    const auto group = weak.lock();
    if (const auto error = group ? group->abort_state()->first_error() : std::nullopt) return error;
  }
  return std::nullopt;
}

void Runtime::before_leaving(std::weak_ptr<void> owner, std::function<void()> function) {
  const std::lock_guard lock(mutex_);
  std::erase_if(before_leaving_, [](const auto& other) { return other.owner.expired(); });
  before_leaving_.push_back({std::move(owner), std::move(function)});
}

void Runtime::finish() {
  const std::lock_guard lock(mutex_);
  if (is_finished_) return;
  is_finished_ = true;
  const auto error = first_error();
  has_failed_ = has_failed_ || error.has_value();
  for (const auto& [owner, function] : before_leaving_) {
    const auto living = owner.lock();
    if (living && !error) function();
  }
  transport_->leave(error ? PeerState::failed : PeerState::finished,
                    error ? error->what() : failed_creation_);
  engine_->stop(UsageError("rank ", environment_.rank,
                           ": tnt_comm.finalize() was called; no collective can be started or"
                           " completed after it."));
  memory_keeper_.reset();  // which the engine has used
  if (monitor_->timeline && !is_timeline_taken_) leave_records();
}

std::string Runtime::timeline_records() const {
  if (!monitor_->timeline) return {};
  return records_of(*monitor_->timeline, {environment_.rank, environment_.size, clock_offset_});
}

void Runtime::leave_records() const {
  try {
    write_new_file(records_path(environment_.timeline, environment_.rank), timeline_records());
  } catch (const std::exception& error) {
    warn_of_timeline(error.what());
  }
}

void Runtime::warn_of_timeline(const std::string& problem) const {
  log_warning(environment_.rank, "the timeline (TNT_TIMELINE) is not complete: ", problem,
              " [timeline-incomplete]");
}

OtherRanks Runtime::look_at_others() const {
  OtherRanks others{.has_one_failed = has_failed_};
  for (int rank = 0; rank < environment_.size; ++rank) {
    if (rank == environment_.rank) continue;
    const PeerState state = transport_->status_of(rank).state;
    const bool is_running = state == PeerState::running || state == PeerState::starting;
    others.is_one_running |= is_running;
    others.has_one_ended |= !is_running;
    others.has_one_failed |=
        state == PeerState::failed || state == PeerState::dead || state == PeerState::vanished;
  }
  return others;
}

Runtime& runtime() {
  refuse_forked_child();
  if (was_finalized.load()) {
    throw UsageError("tnt_comm.finalize() was called; tnt_comm cannot be used after it.");
  }
  Runtime* existing = instance.load(std::memory_order_acquire);
  return existing != nullptr ? *existing : create();
}

bool is_initialized() {
  return instance.load() != nullptr && !was_finalized.load() && !is_forked_child();
}

void finalize() {
  Runtime* existing = instance.load();
  if (existing == nullptr || is_forked_child()) return;
  was_finalized.store(true);
  existing->finish();
}

void fail(const std::string& reason) {
  if (is_initialized()) instance.load()->fail(reason);
}

int cause_rank() {
  Runtime* existing = instance.load();
  return existing != nullptr && !is_forked_child() ? existing->cause_rank() : Error::kNoRank;
}

Runtime* process_runtime() {
  return is_forked_child() ? nullptr : instance.load();
}

Timeline* process_timeline() {
  return is_initialized() ? instance.load()->monitor()->timeline.get() : nullptr;
}

Counters counters() {
  return runtime().monitor()->meter.counters();
}

const Environment& world_environment() {
  static const Environment environment = [] {
    Environment read = read_environment();
    parse_allreduce_algorithm(read.allreduce_algorithm);  // throws if there is none of this name
    return read;
  }();
  return environment;
}

void use_ucx_wheel(const std::string& folder) {
  set_ucx_wheel_folder(folder);
}

}  // namespace tnt::comm
