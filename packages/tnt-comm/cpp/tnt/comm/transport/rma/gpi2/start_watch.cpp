#include "tnt/comm/transport/rma/gpi2/start_watch.hpp"

#include <atomic>
#include <mutex>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>

#include "tnt/comm/base/deadline.hpp"
#include "tnt/comm/base/error.hpp"
#include "tnt/comm/base/process.hpp"

namespace tnt::comm {
namespace {

using std::chrono::milliseconds;

// GPI-2 knows the deadline, too, and may say more than that it has passed.
constexpr double kGraceS = 1.0;
constexpr auto kSearchInterval = std::chrono::seconds(5);

}  // namespace

struct StartWatch::Search {
  std::vector<RankAddress> addresses;  // of those that are looked for, rank 0 first
  int first_port = 0;
  std::atomic<bool> is_over{false};
  mutable std::mutex mutex;
  std::optional<std::vector<int>> absent;  // of the last look

  void run() {
    auto next = Clock::now();
    while (!is_over.load()) {
      if (Clock::now() >= next) {
        std::vector<int> result = absent_ranks(addresses, first_port);
        next = Clock::now() + kSearchInterval;
        const std::lock_guard lock(mutex);
        absent = std::move(result);
      }
      std::this_thread::sleep_for(milliseconds(20));
    }
  }

  std::optional<std::vector<int>> result() const {
    const std::lock_guard lock(mutex);
    return absent;
  }
};

StartWatch::StartWatch(const Environment& environment, std::vector<RankAddress> addresses,
                       int first_presence_port, const Deadline& deadline)
    : environment_(environment),
      deadline_(deadline),
      presence_(first_presence_port + environment.gaspi_socket.value_or(0)),
      ended_(environment.job_id, environment.rank),
      search_(std::make_shared<Search>()) {
  // All would look for all at once in a large job whose start takes long.
  if (environment.rank != 0 && !addresses.empty()) addresses.resize(1);
  search_->addresses = std::move(addresses);
  search_->first_port = first_presence_port;
}

StartWatch::~StartWatch() {
  search_->is_over.store(true);
}

bool StartWatch::has_returned_in_time(const DetachableCall& call) {
  while (!call.has_returned()) {
    ended_.require_running([&] {
      std::vector<int> all(call.has_returned() ? 0 : static_cast<std::size_t>(environment_.size));
      std::iota(all.begin(), all.end(), 0);
      return all;
    });
    check_interrupt();
    report();
    if (deadline_.is_over()) search_->is_over.store(true);  // others may give up and be gone
    if (deadline_.is_over() && seconds_since(deadline_.end()) > kGraceS) return false;
    std::this_thread::sleep_for(milliseconds(10));
  }
  return true;
}

// When a wait is long, a search begins; the report has its first result.
void StartWatch::report() {
  if (has_reported_ || seconds_since(begin_) < environment_.stall_report_s) return;
  if (!searching_ && !search_->addresses.empty()) {
    searching_.emplace("tnt-comm-search", [search = search_] { search->run(); });
  }
  if (searching_ && !search_->result()) return;
  log_warning(environment_.rank, text("has waited ", environment_.stall_report_s,
                                      " s for the other ranks to start GPI-2. ", absence()));
  has_reported_ = true;
}

std::string StartWatch::absence() const {
  const auto absent = search_->result();
  if (!absent) {
    return text("Check that all ", environment_.size,
                " ranks were started; rank 0 names those"
                " that were not.");
  }
  if (!absent->empty()) {
    return text("No answer from ", names_of(*absent, search_->addresses), " on port ",
                search_->first_port,
                " and those after it: check that they were started, and that"
                " no firewall is between the hosts.");
  }
  if (environment_.rank != 0) return "Rank 0 has come, and names those that have not.";
  return text("All ", environment_.size,
              " ranks have come: one may be stopped, or the hosts do not"
              " reach each other's ports.");
}

}  // namespace tnt::comm
