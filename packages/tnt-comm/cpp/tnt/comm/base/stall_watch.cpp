#include "tnt/comm/base/stall_watch.hpp"

#include <utility>

#include "tnt/comm/base/deadline.hpp"
#include "tnt/comm/base/log.hpp"
#include "tnt/comm/base/text.hpp"
#include "tnt/comm/base/thread.hpp"

namespace tnt::comm {

StallWatch::StallWatch(int rank, std::string what, double report_s) {
  thread_ = start_without_signals("tnt-comm-watch", [this, rank, what = std::move(what), report_s] {
    const Deadline report(report_s);
    while (!is_over_.load()) {
      if (report.is_over()) {
        log_warning(rank, text("has waited ", report_s, " s for ", what, "."));
        return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  });
}

StallWatch::~StallWatch() {
  is_over_.store(true);
  thread_.join();
}

}  // namespace tnt::comm
