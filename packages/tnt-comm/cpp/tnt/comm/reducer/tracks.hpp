#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "tnt/comm/trace/monitor.hpp"

namespace tnt::comm {

/// Draws a bucket: the row is *ready* when its last tensor is packed, *started*
/// when the others have been told, *reduced* when the sum is there, and
/// *finished* when the last tensor was handed out.
class BucketTrack final : public Track {
 public:
  /// `label`: short; `title`: with all that the reader may want to know.
  BucketTrack(Timeline& timeline, const std::string& label, const std::string& title,
              std::size_t num_bytes, std::size_t num_tensors)
      : timeline_(timeline),
        row_(timeline.add_row({.title = title,
                               .category = "bucket",
                               .value_name = "step",
                               .bucket = label,
                               .num_bytes = num_bytes})),
        wait_name_(timeline.name(text("wait for ", label))),
        num_tensors_(num_tensors) {}

  void ready(std::uint64_t step) {
    step_ = step;
    timeline_.record(EventKind::state, row_, ready_, step);
  }
  void post() override { timeline_.record(EventKind::state, row_, started_, step_); }
  void end(bool is_complete) override {
    if (is_complete) return timeline_.record(EventKind::state, row_, reduced_, step_);
    timeline_.record(EventKind::instant, row_, failed_, step_);
  }
  void finish_tensor() {
    if (num_finished_.fetch_add(1) + 1 < num_tensors_) return;
    num_finished_.store(0);
    timeline_.record(EventKind::instant, row_, finished_, step_);
  }
  NameId wait_name() const override { return wait_name_; }

 private:
  Timeline& timeline_;
  RowId row_;
  NameId ready_ = timeline_.name("ready");
  NameId started_ = timeline_.name("started");
  NameId reduced_ = timeline_.name("reduced");
  NameId finished_ = timeline_.name("finished");
  NameId failed_ = timeline_.name("failed");  // now, since then there may be no memory
  NameId wait_name_;
  std::size_t num_tensors_;
  std::atomic<std::size_t> num_finished_{0};  // tensors of the step
  std::uint64_t step_ = 0;
};

/// Draws the phase of each step in which the tensors of a reducer are started,
/// from the first start to the last. For gradients: backpropagation.
class PhaseTrack {
 public:
  PhaseTrack(Timeline& timeline, const std::string& phase, const std::string& reducer,
             std::size_t num_tensors)
      : timeline_(timeline),
        row_(timeline.add_row(
            {.title = text(phase, " (", reducer, ")"), .category = "phase", .value_name = "step"})),
        name_(timeline.name(phase)),
        num_tensors_(num_tensors) {}

  void begin_tensor(std::uint64_t step) {
    if (num_begun_.fetch_add(1) == 0) timeline_.record(EventKind::begin, row_, name_, step);
  }
  void end_tensor() {
    if (num_ended_.fetch_add(1) + 1 < num_tensors_) return;
    num_ended_.store(0);
    num_begun_.store(0);
    timeline_.record(EventKind::end, row_, name_);
  }

 private:
  Timeline& timeline_;
  RowId row_;
  NameId name_;
  std::size_t num_tensors_;
  std::atomic<std::size_t> num_begun_{0};
  std::atomic<std::size_t> num_ended_{0};
};

}  // namespace tnt::comm
