#pragma once

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tnt/comm/base/environment.hpp"
#include "tnt/comm/base/process.hpp"
#include "tnt/comm/transport/ended_ranks.hpp"
#include "tnt/comm/transport/rma/rank_location.hpp"

namespace tnt::comm {

/// Waits for the calls that start GPI-2, each of which needs all ranks and may never
/// return: a rank that is stopped, killed or not started is enough. Knows who has not
/// come: every rank shows its presence, rank 0 looks for all, the others for rank 0.
class StartWatch {
 public:
  /// `addresses` by rank; empty if this rank cannot read the machine file.
  StartWatch(const Environment& environment, std::vector<RankAddress> addresses,
             int first_presence_port, const Deadline& deadline)
      : environment_(environment),
        deadline_(deadline),
        presence_(first_presence_port + environment.gaspi_socket.value_or(0)),
        ended_(environment.job_id, environment.rank),
        addresses_(std::move(addresses)),
        first_port_(first_presence_port) {
    // All would look for all at once in a large job whose start takes long.
    if (environment.rank != 0 && !addresses_.empty()) addresses_.resize(1);
  }

  /// Until the call has returned, or some time after the deadline; says which. Reports a
  /// wait that takes long. PeerLostError if a rank has ended, what Ctrl-C throws.
  bool has_returned_in_time(const DetachableCall& call) {
    // GPI-2 knows the deadline, too, and may say more than that it has passed.
    constexpr double kGraceS = 1.0;
    while (!call.has_returned()) {
      ended_.require_running([&] {
        const bool is_absent = !call.has_returned();
        return ranks_where(environment_.size, [is_absent](int) { return is_absent; });
      });
      check_interrupt();
      search();
      report();
      if (deadline_.is_over() && seconds_since(deadline_.end()) > kGraceS) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return true;
  }

  /// A sentence about who has not come, as far as this rank knows.
  std::string absence() const {
    if (!absent_) {
      return text("Check that all ", environment_.size,
                  " ranks were started, and look at their output",
                  environment_.rank == 0 ? "." : "; rank 0 names those that were not started.");
    }
    if (!absent_->empty()) {
      return text("No answer from ", names_of(*absent_, addresses_), " on port ", first_port_,
                  " and those after it: check that they were started, and that"
                  " no firewall is between the hosts.");
    }
    if (environment_.rank != 0) return "Rank 0 has started, and names the ranks that have not.";
    return text("All ", environment_.size,
                " ranks have started: one may be stopped, or the hosts do not"
                " reach each other's ports.");
  }

 private:
  // When a wait is long, until others may give up and be gone. It is for messages only: a search
  // for which there is no thread or no memory ends nothing.
  void search() {
    const bool has_ended = searching_ && searching_->has_returned();
    const bool is_due = !searching_ && Clock::now() >= next_search_ && !deadline_.is_over();
    if (!has_ended && (!is_due || addresses_.empty())) return;
    next_search_ = Clock::now() + std::chrono::seconds(5);
    try {
      if (has_ended) {
        searching_->get();
        absent_ = *found_;
        searching_.reset();
      } else {
        searching_.emplace("tnt-comm-search",
                           [found = found_, addresses = addresses_, first_port = first_port_] {
                             *found = absent_ranks(addresses, first_port);
                           });
      }
    } catch (const std::exception&) {
      searching_.reset();
    }
  }

  // With the first result of a search.
  void report() {
    if (has_reported_ || seconds_since(begin_) < environment_.start_report_s) return;
    if (!absent_ && !addresses_.empty()) return;
    log_warning(environment_.rank, "has waited ", environment_.start_report_s,
                " s for the other ranks to start GPI-2. ", absence(), " [stall]");
    has_reported_ = true;
  }

  Environment environment_;
  Deadline deadline_;
  Presence presence_;
  EndedRanks ended_;
  Clock::time_point begin_ = Clock::now();
  std::vector<RankAddress> addresses_;  // of those that are looked for, rank 0 first
  int first_port_;
  std::optional<DetachableCall> searching_;
  std::shared_ptr<std::vector<int>> found_ = std::make_shared<std::vector<int>>();  // by its thread
  Clock::time_point next_search_ = begin_ + Deadline::to_duration(environment_.stall_report_s);
  std::optional<std::vector<int>> absent_;  // of the last search
  bool has_reported_ = false;
};

}  // namespace tnt::comm
