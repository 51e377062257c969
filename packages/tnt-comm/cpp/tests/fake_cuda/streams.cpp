#include "fake_cuda/streams.hpp"

#include <csignal>
#include <thread>
#include <utility>
namespace tnt::comm::tests::fake_cuda {

Course& course() {
  static auto* course = new Course();  // threads of a process that ends may still look
  return *course;
}

void wait_until(const std::function<bool()>& is_true) {
  while (!is_true() && !course().is_ending.load(std::memory_order_relaxed)) {
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

Stream::Stream(int device, unsigned seed)
    : device_(device), random_(seed), last_(new Work()), done_(last_) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are for the program's own threads
  // Nobody joins those that a process leaves at its end.
  std::thread([this] {
    run();
    has_ended_.store(true, std::memory_order_release);
  }).detach();
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Stream::~Stream() {
  close();
  while (!has_ended()) std::this_thread::yield();
  while (done_ != nullptr) delete std::exchange(done_, done_->next.load());
}

void Stream::push(std::function<void()> work, bool is_slow) {
  auto* pushed = new Work{std::move(work), is_slow};
  const std::lock_guard lock(mutex_);
  last_->next.store(pushed, std::memory_order_release);
  last_ = pushed;
  num_pushed_.fetch_add(1, std::memory_order_relaxed);
  num_waiting_.release();
}

void Stream::push_mark(MarkUse mark) {
  push([mark = std::move(mark)] { mark->reach(); }, false);
}

void Stream::push_wait(MarkUse mark) {
  push([mark = std::move(mark)] { wait_until([&mark] { return mark->is_reached(); }); }, false);
}

bool Stream::is_idle() const {
  const std::uint64_t num_pushed = num_pushed_.load(std::memory_order_relaxed);
  return num_done_.load(std::memory_order_relaxed) >= num_pushed &&
         num_done_.load(std::memory_order_acquire) >= num_pushed;
}

void Stream::wait() const {
  wait_until([this] { return is_idle(); });
}

void Stream::close() {
  if (!is_closed_.exchange(true, std::memory_order_relaxed)) push({}, false);
}

void Stream::hold_up(bool is_slow) {
  Course& all = course();
  if (is_slow && all.num_until_hung.load(std::memory_order_relaxed) >= 0 &&
      all.num_until_hung.fetch_sub(1, std::memory_order_relaxed) == 0) {
    all.is_hung.store(true, std::memory_order_relaxed);
  }
  wait_until([&all] { return !all.is_hung.load(std::memory_order_relaxed); });
  const std::int64_t longest = all.longest_delay_us.load(std::memory_order_relaxed);
  if (!is_slow || longest == 0) return;
  const auto delay = std::uniform_int_distribution<std::int64_t>(0, longest)(random_);
  std::this_thread::sleep_for(std::chrono::microseconds(delay));
}

void Stream::run() {
  for (;;) {
    num_waiting_.acquire();
    Work* work = done_->next.load(std::memory_order_acquire);
    delete std::exchange(done_, work);
    if (!work->function) break;
    hold_up(work->is_slow);
    const bool is_dropped = course().is_ending.load(std::memory_order_relaxed) ||
                            course().error.load(std::memory_order_relaxed) != 0;
    if (!is_dropped || !work->is_slow) work->function();
    work->function = nullptr;
    num_done_.fetch_add(1, std::memory_order_release);
  }
  num_done_.fetch_add(1, std::memory_order_release);
}

}  // namespace tnt::comm::tests::fake_cuda
